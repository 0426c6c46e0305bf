//! The `OpenAPI` document in the form that generators of clients need: described, with names, and without repetition.

use serde_json::Value;
use service_api::openapi;

fn document() -> Value {
    openapi::document("https://service.test")
}

/// Calls `visit` with every part of the document that is not an example, and its path.
fn walk(part: &Value, path: &str, visit: &mut impl FnMut(&Value, &str)) {
    visit(part, path);
    match part {
        Value::Object(members) => {
            for (name, part) in members.iter().filter(|(name, _)| *name != "example") {
                walk(part, &format!("{path}/{name}"), visit);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, part)| walk(part, &format!("{path}/{at}"), visit));
        }
        _ => {}
    }
}

fn is_described(part: &Value) -> bool {
    part["description"].as_str().is_some_and(|text| !text.trim().is_empty())
}

fn operations(document: &Value) -> Vec<&Value> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(_, path)| path.as_object().into_iter().flatten().map(|(_, operation)| operation)).collect()
}

#[test]
fn every_property_parameter_and_component_is_described_fh_20() {
    let (document, mut bare, mut properties) = (document(), Vec::new(), 0);
    walk(&document, "", &mut |part, path| {
        for (name, property) in part["properties"].as_object().into_iter().flatten() {
            properties += 1;
            if !is_described(property) {
                bare.push(format!("{path}/properties/{name}"));
            }
        }
        let is_parameter = part["in"].is_string() && part["name"].is_string();
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let is_component = ["/components/schemas", "/components/headers", "/components/responses"].contains(&parent);
        if (is_parameter || is_component || parent == "/tags") && !is_described(part) {
            bare.push(path.to_owned());
        }
    });
    assert!(bare.is_empty(), "not described: {bare:#?}");
    assert!(properties > 400, "only {properties} properties were looked at");
}

#[test]
fn enumerations_are_written_as_enum_fh_20() {
    let (document, mut found) = (document(), 0);
    walk(&document, "", &mut |part, path| {
        assert!(part.get("const").is_none(), "{path} is a constant");
        for one in part["oneOf"].as_array().into_iter().flatten() {
            assert!(one.get("enum").is_none(), "{path} is a choice of constants");
        }
        found += usize::from(part["enum"].is_array());
    });
    assert!(found > 20, "only {found} enumerations");
    assert_eq!(document["components"]["schemas"]["Role"]["enum"].as_array().map(Vec::len), Some(3));
    let kind = &document["components"]["schemas"]["CredentialKind"];
    assert_eq!(kind["enum"], serde_json::json!(["access_token", "cli_token"]));
}

#[test]
fn error_responses_are_shared_fh_20() {
    let document = document();
    for operation in operations(&document) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let is_error = status.starts_with(['4', '5']);
            let reference = response["$ref"].as_str().unwrap_or_default();
            assert_eq!(is_error, reference.starts_with("#/components/responses/"), "{id} {status}");
            assert!(response.get("content").is_none() || !is_error, "{id} {status} has a body of its own");
        }
        for code in ["400", "500", "503"] {
            assert!(operation["responses"][code].is_object(), "{id} says nothing about {code}");
        }
        let content = operation["requestBody"]["content"].as_object();
        assert!(content.is_none_or(|content| content.len() == 1), "{id} has several kinds of bodies");
    }
    for (name, response) in document["components"]["responses"].as_object().into_iter().flatten() {
        let schema = &response["content"]["application/json"]["schema"]["$ref"];
        assert_eq!(schema, "#/components/schemas/Error", "{name}");
    }
}

#[test]
fn tags_and_operation_ids_are_short_names_fh_20() {
    let document = document();
    let tags: Vec<_> =
        document["tags"].as_array().into_iter().flatten().filter_map(|tag| tag["name"].as_str()).collect();
    let is_tag = |tag: &str| tag.len() <= 12 && tag.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    assert!(tags.iter().all(|tag| is_tag(tag)), "{tags:?}");
    let mut ids = Vec::new();
    for operation in operations(&document) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        assert!(!id.is_empty() && id.len() <= 24 && id.bytes().all(|byte| byte.is_ascii_alphabetic()), "{id}");
        assert!(operation["tags"].as_array().is_some_and(|own| own.len() == 1), "{id}");
        assert!(operation["tags"][0].as_str().is_some_and(|tag| tags.contains(&tag)), "{id}");
        ids.push(id);
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), count > 80), (count, true));
    assert_eq!(document["info"]["license"]["identifier"], "Apache-2.0 OR MIT");
    assert!(document["info"]["contact"]["url"].is_string());
}
