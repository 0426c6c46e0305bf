//! The JSON Schemas of bodies.

use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{content_schemas, enums};
use crate::contents::Kind;

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
    /// A ZIP file, which is no JSON and has no schema.
    Zip,
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
        match shape {
            Shape::Of(write) => {
                let schema = write(&mut self.generator);
                self.finish(schema.into())
            }
            Shape::Content(kind) => reference(kind.name()),
            Shape::Contents(kind) => reference(format!("PageOf{}", kind.name())),
            Shape::DeletedContents(kind) => reference(format!("PageOfDeleted{}", kind.name())),
            Shape::NewContent(kind) => reference(format!("New{}", kind.name())),
            Shape::ContentChange(kind) => reference(format!("{}Change", kind.name())),
            Shape::Found => reference("PageOfFoundPack"),
            Shape::Standard => reference("StandardDocument"),
            // Generators of client libraries know `format` as the mark of bytes.
            Shape::Zip => json!({ "type": "string", "format": "binary", "contentMediaType": "application/zip" }),
        }
    }

    /// A reference to the schema of a type, which becomes a component.
    pub(super) fn of_type<T: schemars::JsonSchema>(&mut self) -> Value {
        self.of(Shape::Of(SchemaGenerator::subschema_for::<T>))
    }

    /// Every schema that was referred to, by name.
    pub(super) fn components(mut self) -> Map<String, Value> {
        let schemas = self.generator.take_definitions(true);
        let finished = schemas.into_iter().map(|(name, schema)| (name, self.finish(schema)));
        enums::name_variants(finished.collect())
    }

    fn finish(&self, mut schema: Value) -> Value {
        if self.of_responses {
            remove_null(&mut schema);
        } else {
            forbid_nul(&mut schema);
        }
        enums::write_enums(&mut schema);
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
    let mut components = content_schemas::contents(&mut schemas);
    components.extend(schemas.components());
    replace_references(&mut schema, &components);
    schema
}

/// Replaces every reference by the schema that it names. No schema refers to itself.
fn replace_references(schema: &mut Value, components: &Map<String, Value>) {
    let named = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    if let Some(component) = named.and_then(|name| components.get(name)) {
        let about = schema.get("description").cloned();
        *schema = component.clone();
        if let Some(about) = about {
            schema["description"] = about;
        }
    }
    match schema {
        Value::Object(members) => members.values_mut().for_each(|member| replace_references(member, components)),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_references(item, components)),
        _ => {}
    }
}

/// A reference to a component.
pub(super) fn reference(name: impl AsRef<str>) -> Value {
    json!({ "$ref": format!("#/components/schemas/{}", name.as_ref()) })
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
