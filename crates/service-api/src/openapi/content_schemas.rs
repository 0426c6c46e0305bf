//! The JSON Schemas of contents, from the fields of their kinds.

use serde_json::{Map, Value, json};

use super::schemas::{Schemas, reference};
use crate::{
    contents::{Field, Form, Kind, MAX_NAME, MAX_TEXT, PACK_TYPES},
    forms, ids,
    search::Segment,
    workspaces::ContentScope,
};

/// The schemas of all kinds, of pages of them, and of documents that standards define, by name.
pub(super) fn contents(schemas: &mut Schemas) -> Map<String, Value> {
    let scope = schemas.of_type::<ContentScope>();
    let segment = schemas.of_type::<Segment>();
    let mut all = Map::from_iter([("StandardDocument".to_owned(), standard_document())]);
    for kind in Kind::ALL {
        let (name, one) = (kind.name(), kind.name().to_lowercase());
        let required: Vec<_> = kind.fields().iter().filter(|field| field.required).map(|field| field.name).collect();
        let always = [&["id", "scope", "createdAt", "updatedAt"][..], &required].concat();
        let shown = shown(kind, &scope);
        if kind == Kind::Pack {
            let mut found = shown.clone();
            found.insert("score".into(), described(json!({ "type": "number" }), "How well the pack matches."));
            let snippet = json!({ "type": "array", "items": segment });
            found.insert("snippet".into(), described(snippet, "The part of its text that matches, in segments."));
            let always = [&always[..], &["score", "snippet"]].concat();
            all.insert("FoundPack".into(), object("A search result.", &found, &always));
            all.insert("PageOfFoundPack".into(), page("FoundPack"));
        }
        let mut deleted = shown.clone();
        deleted.insert("deletedAt".into(), described(instant(), "When it was deleted."));
        let user = json!({ "type": "string", "pattern": ids::pattern("user") });
        deleted.insert("deletedBy".into(), described(user, "The user who deleted it."));
        deleted.insert("expiresAt".into(), described(instant(), "When it can no longer be restored."));
        let deleted_always = [&always[..], &["deletedAt", "deletedBy", "expiresAt"]].concat();
        let about = format!("A deleted {one} that can still be restored.");
        all.insert(format!("Deleted{name}"), object(&about, &deleted, &deleted_always));
        all.insert(format!("PageOfDeleted{name}"), page(&format!("Deleted{name}")));
        all.insert(name.into(), object(&format!("A {one}."), &shown, &always));
        all.insert(format!("PageOf{name}"), page(name));
        all.insert(format!("New{name}"), sent(&format!("A new {one}."), kind, &scope, &required));
        all.insert(format!("{name}Change"), sent(&format!("The fields of a {one} to change."), kind, &scope, &[]));
    }
    all
}

fn standard_document() -> Value {
    json!({ "type": "object", "additionalProperties": true, "description": "A document that a standard defines." })
}

fn instant() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

fn described(mut schema: Value, about: &str) -> Value {
    schema["description"] = about.into();
    schema
}

fn object(about: &str, properties: &Map<String, Value>, required: &[&str]) -> Value {
    json!({ "type": "object", "description": about, "properties": properties, "required": required })
}

fn page(item: &str) -> Value {
    let data = json!({ "type": "array", "items": reference(item), "description": "The items of this page." });
    let next = json!({ "type": "string", "description": "The cursor of the next page; absent on the last page." });
    object("One page of a list.", &Map::from_iter([("data".into(), data), ("nextCursor".into(), next)]), &["data"])
}

/// The properties of a content in a response.
fn shown(kind: Kind, scope: &Value) -> Map<String, Value> {
    let mut shown: Map<_, _> =
        kind.fields().iter().map(|field| (field.name.to_owned(), described(form(field), field.about))).collect();
    let id = |prefix: &str| json!({ "type": "string", "pattern": ids::pattern(prefix) });
    let one = kind.name().to_lowercase();
    shown.insert("id".into(), described(id(kind.prefix()), &format!("The ID of the {one}.")));
    let about = "Whether it is in personal space or in a workspace. Not an OAuth scope.";
    shown.insert("scope".into(), described(scope.clone(), about));
    shown.insert("workspaceId".into(), described(id("wsp"), "The workspace that it is in. Absent: personal space."));
    shown.insert("createdAt".into(), described(instant(), "When it was created."));
    shown.insert("updatedAt".into(), described(instant(), "When it was last changed."));
    shown
}

/// The body of a create or an update. `null` clears an optional field.
fn sent(about: &str, kind: Kind, scope: &Value, required: &[&str]) -> Value {
    let mut fields: Map<_, _> = kind
        .fields()
        .iter()
        .map(|field| {
            let form = form(field);
            let schema = if field.required { form } else { json!({ "anyOf": [form, { "type": "null" }] }) };
            (field.name.to_owned(), described(schema, field.about))
        })
        .collect();
    let about_scope =
        "Where it is: in personal space, or in the workspace that the request runs in. Not an OAuth scope.";
    fields.insert("scope".into(), described(scope.clone(), about_scope));
    let mut schema = object(about, &fields, required);
    if required.is_empty()
        && let Value::Object(members) = &mut schema
    {
        members.remove("required");
    }
    schema["additionalProperties"] = false.into();
    schema
}

fn form(field: &Field) -> Value {
    match field.form {
        Form::Name => json!({ "type": "string", "minLength": 1, "maxLength": MAX_NAME, "pattern": forms::ONE_LINE }),
        Form::Text => json!({ "type": "string", "maxLength": MAX_TEXT, "pattern": "^[^\\u0000]*$" }),
        Form::PackType => json!({ "type": "string", "enum": PACK_TYPES }),
        Form::Object => json!({ "type": "object", "additionalProperties": true }),
        Form::Date => json!({ "type": "string", "format": "date" }),
    }
}
