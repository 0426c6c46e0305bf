//! Schemas in the form that generators of clients understand: enumerations as `enum`, and alternatives with names.

use serde_json::{Map, Value, json};

use super::schemas::reference;

/// Writes every choice of constants as one `enum`, and moves the descriptions of the constants to its description.
pub(super) fn write_enums(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(constant) = members.remove("const") {
                members.insert("enum".into(), json!([constant]));
            }
            let constants = members.get("oneOf").and_then(Value::as_array).and_then(|all| constants(all));
            if let Some((values, told)) = constants {
                members.remove("oneOf");
                members.insert("type".into(), "string".into());
                members.insert("enum".into(), values.into());
                if !told.is_empty() {
                    let about = members.get("description").and_then(Value::as_str).unwrap_or_default();
                    let about = format!("{about}\n\n{}", told.join("\n"));
                    members.insert("description".into(), about.trim().into());
                }
            }
            members.values_mut().for_each(write_enums);
        }
        Value::Array(items) => items.iter_mut().for_each(write_enums),
        _ => {}
    }
}

/// The values of alternatives that are all constants, and a line for each that has a description.
fn constants(alternatives: &[Value]) -> Option<(Vec<Value>, Vec<String>)> {
    let (mut values, mut told) = (Vec::new(), Vec::new());
    for alternative in alternatives {
        let found = match (alternative.get("const"), alternative.get("enum").and_then(Value::as_array)) {
            (Some(value), _) => vec![value.clone()],
            (None, Some(values)) => values.clone(),
            (None, None) => return None,
        };
        if let (Some(about), [Value::String(value)]) = (alternative["description"].as_str(), &found[..]) {
            told.push(format!("- `{value}`: {}", about.replace('\n', " ")));
        }
        values.extend(found);
    }
    Some((values, told))
}

/// Makes a component of each alternative that is recognized by its property `type`, so that generated clients have a name
/// for it.
pub(super) fn name_variants(components: Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, mut schema) in components {
        let variants = schema["oneOf"].as_array().cloned().unwrap_or_default();
        let tag = |variant: &Value| variant["properties"]["type"]["enum"][0].as_str().map(str::to_owned);
        let tags: Vec<_> = variants.iter().filter_map(tag).collect();
        if !tags.is_empty() && tags.len() == variants.len() {
            let mut mapping = Map::new();
            let mut references = Vec::new();
            for (tag, mut variant) in tags.into_iter().zip(variants) {
                let component = format!("{name}{}{}", tag[..1].to_uppercase(), &tag[1..]);
                variant["properties"]["type"]["description"] = "What distinguishes this alternative.".into();
                let refers = reference(&component);
                mapping.insert(tag, refers["$ref"].clone());
                references.push(refers);
                all.insert(component, variant);
            }
            schema["oneOf"] = references.into();
            schema["discriminator"] = json!({ "propertyName": "type", "mapping": mapping });
        }
        all.insert(name, schema);
    }
    all
}
