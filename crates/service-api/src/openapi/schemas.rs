//! The JSON Schemas of bodies.

use schemars::{JsonSchema as _, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    contents::{Field, Form, Kind, MAX_NAME, MAX_TEXT, PACK_TYPES},
    forms, ids,
    instant::Written,
    search::Segment,
    workspaces::ContentScope,
};

/// The schema of a body.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// The schema of a type.
    Of(fn(&mut SchemaGenerator) -> Schema),
    /// One content.
    Content(Kind),
    /// A page of contents.
    Contents(Kind),
    /// A page of deleted contents.
    DeletedContents(Kind),
    /// The fields of a new content.
    NewContent(Kind),
    /// The fields of an update.
    ContentChange(Kind),
    /// A page of search results.
    Found,
    /// A document that a standard defines.
    Standard,
}

/// Generates the schemas of requests, or those of responses, into one set of components.
pub(super) struct Schemas {
    generator: SchemaGenerator,
    /// Whether they are of responses, in which absent fields are left out and never `null`.
    of_responses: bool,
}

impl Schemas {
    pub(super) fn of_requests() -> Self {
        Self { generator: settings().into_generator(), of_responses: false }
    }

    pub(super) fn of_responses() -> Self {
        Self { generator: settings().for_serialize().into_generator(), of_responses: true }
    }

    pub(super) fn of(&mut self, shape: Shape) -> Value {
        let reference = |name: String| json!({ "$ref": format!("#/components/schemas/{name}") });
        match shape {
            Shape::Of(write) => {
                let schema = write(&mut self.generator);
                self.finish(schema.into())
            }
            Shape::Content(kind) => reference(kind.name().to_owned()),
            Shape::Contents(kind) => page(&reference(kind.name().to_owned())),
            Shape::DeletedContents(kind) => page(&reference(format!("Deleted{}", kind.name()))),
            Shape::NewContent(kind) => reference(format!("New{}", kind.name())),
            Shape::ContentChange(kind) => reference(format!("{}Change", kind.name())),
            Shape::Found => page(&reference("FoundPack".to_owned())),
            Shape::Standard => json!({ "type": "object" }),
        }
    }

    /// Every schema that was referred to, by name.
    pub(super) fn components(mut self) -> Map<String, Value> {
        let schemas = self.generator.take_definitions(true);
        schemas.into_iter().map(|(name, schema)| (name, self.finish(schema))).collect()
    }

    fn finish(&self, mut schema: Value) -> Value {
        if self.of_responses {
            remove_null(&mut schema);
        } else {
            forbid_nul(&mut schema);
        }
        schema
    }
}

/// The schema of a request's body on its own, without references to other schemas.
#[must_use]
pub fn standalone_request(shape: Shape) -> Value {
    standalone(Schemas::of_requests(), shape)
}

/// The schema of a response's body on its own, without references to other schemas.
#[must_use]
pub fn standalone_response(shape: Shape) -> Value {
    standalone(Schemas::of_responses(), shape)
}

fn standalone(mut schemas: Schemas, shape: Shape) -> Value {
    let mut schema = schemas.of(shape);
    let mut components = contents(&mut SchemaGenerator::default());
    components.extend(schemas.components());
    replace_references(&mut schema, &components);
    schema
}

/// Replaces every reference by the schema that it names. No schema refers to itself.
fn replace_references(schema: &mut Value, components: &Map<String, Value>) {
    let named = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    if let Some(component) = named.and_then(|name| components.get(name)) {
        *schema = component.clone();
    }
    match schema {
        Value::Object(members) => members.values_mut().for_each(|member| replace_references(member, components)),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_references(item, components)),
        _ => {}
    }
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    })
}

fn remove_null(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Array(types)) = members.get_mut("type") {
                types.retain(|one| one != "null");
                if let [one] = &types[..] {
                    let one = one.clone();
                    members.insert("type".into(), one);
                }
            }
            if let Some(Value::Array(any)) = members.get_mut("anyOf") {
                any.retain(|one| one["type"] != "null");
                if let [one] = &any[..] {
                    let one = one.clone();
                    members.remove("anyOf");
                    members.extend(one.as_object().cloned().unwrap_or_default());
                }
            }
            members.values_mut().for_each(remove_null);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_null),
        _ => {}
    }
}

/// Adds a pattern that excludes NUL to every string without a pattern.
fn forbid_nul(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_text =
                |kind: &Value| kind == "string" || kind.as_array().is_some_and(|all| all.contains(&"string".into()));
            let is_free = !["enum", "const", "pattern", "format"].iter().any(|name| members.contains_key(*name));
            if is_free && members.get("type").is_some_and(is_text) {
                members.insert("pattern".into(), "^[^\\u0000]*$".into());
            }
            members.values_mut().for_each(forbid_nul);
        }
        Value::Array(items) => items.iter_mut().for_each(forbid_nul),
        _ => {}
    }
}

fn page(item: &Value) -> Value {
    json!({
        "type": "object",
        "properties": { "data": { "type": "array", "items": item }, "nextCursor": { "type": "string" } },
        "required": ["data"],
    })
}

/// The schemas of contents, from the fields of their kinds.
pub(super) fn contents(generator: &mut SchemaGenerator) -> Map<String, Value> {
    let scope = Value::from(ContentScope::json_schema(generator));
    let instant = Value::from(Written::json_schema(generator));
    let mut all = Map::new();
    for kind in Kind::ALL {
        let fields = || kind.fields().iter().map(|field| (field.name.to_owned(), field_schema(field)));
        let required: Vec<_> = kind.fields().iter().filter(|field| field.required).map(|field| field.name).collect();
        let mut shown: Map<_, _> = fields().collect();
        shown.insert("id".into(), json!({ "type": "string", "pattern": ids::pattern(kind.prefix()) }));
        shown.insert("scope".into(), scope.clone());
        shown.insert("workspaceId".into(), json!({ "type": "string", "pattern": ids::pattern("wsp") }));
        shown.insert("createdAt".into(), instant.clone());
        shown.insert("updatedAt".into(), instant.clone());
        let always = [&["id", "scope", "createdAt", "updatedAt"][..], &required].concat();
        if kind == Kind::Pack {
            let mut found = shown.clone();
            found.insert("score".into(), json!({ "type": "number" }));
            found.insert("snippet".into(), json!({ "type": "array", "items": Segment::json_schema(generator) }));
            let always = [&always[..], &["score", "snippet"]].concat();
            all.insert("FoundPack".into(), json!({ "type": "object", "properties": found, "required": always }));
        }
        let mut deleted = shown.clone();
        deleted.insert("deletedAt".into(), instant.clone());
        deleted.insert("deletedBy".into(), json!({ "type": "string", "pattern": ids::pattern("user") }));
        deleted.insert("expiresAt".into(), instant.clone());
        let deleted_always = [&always[..], &["deletedAt", "deletedBy", "expiresAt"]].concat();
        let schema = json!({ "type": "object", "properties": deleted, "required": deleted_always });
        all.insert(format!("Deleted{}", kind.name()), schema);
        all.insert(kind.name().into(), json!({ "type": "object", "properties": shown, "required": always }));
        let sent = |fields: Map<String, Value>| {
            let mut fields = fields;
            fields.insert("scope".into(), scope.clone());
            json!({ "type": "object", "properties": fields, "additionalProperties": false })
        };
        let mut new = sent(fields().map(|(name, schema)| nullable(kind, &name, schema)).collect());
        new["required"] = json!(required);
        all.insert(format!("New{}", kind.name()), new);
        let change = sent(fields().map(|(name, schema)| nullable(kind, &name, schema)).collect());
        all.insert(format!("{}Change", kind.name()), change);
    }
    all
}

/// Allows `null` for an optional field, which clears it.
fn nullable(kind: Kind, name: &str, schema: Value) -> (String, Value) {
    let required = kind.fields().iter().any(|field| field.name == name && field.required);
    let schema = if required { schema } else { json!({ "anyOf": [schema, { "type": "null" }] }) };
    (name.to_owned(), schema)
}

fn field_schema(field: &Field) -> Value {
    match field.form {
        Form::Name => json!({
            "type": "string", "minLength": 1, "maxLength": MAX_NAME, "pattern": forms::ONE_LINE,
        }),
        Form::Text => json!({ "type": "string", "maxLength": MAX_TEXT, "pattern": "^[^\\u0000]*$" }),
        Form::PackType => json!({ "type": "string", "enum": PACK_TYPES }),
        Form::Object => json!({ "type": "object" }),
        Form::Date => json!({ "type": "string", "format": "date" }),
    }
}
