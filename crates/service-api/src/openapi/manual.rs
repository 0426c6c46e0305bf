//! The manual in Markdown: `docs/api.md`, and the page `/docs`.

use std::fmt::{self, Write as _};

use serde_json::Value;

use super::{
    document::{document, errors, examples},
    group::Group,
    schemas::Shape,
    words::{EXAMPLE, describe_access, everywhere, name_of, needs},
};
use crate::{
    audit_events::EventName,
    contents::Kind,
    endpoints::{Access, Body, OPERATIONS, OperationRow},
    errors::ErrorCode,
};

const QUICKSTART: &str = include_str!("../../manual/quickstart.md");
const VERSIONS: &str = include_str!("../../manual/versions.md");

/// The manual for a service at this base URL, in Markdown.
#[must_use]
pub fn manual(base_url: &str) -> String {
    let mut text = String::new();
    // Writing to a `String` does not fail.
    let _: fmt::Result = write(&mut text);
    text.replace(EXAMPLE, base_url)
}

/// Whether an operation has a section of its own. Of the kinds of content only the first has.
fn has_section(operation: &OperationRow) -> bool {
    let others = Kind::ALL.iter().skip(1);
    !others.into_iter().any(|kind| {
        let path = format!("/v1/{}", kind.resource().as_str());
        let own = operation.endpoint.path;
        own == path || own == format!("{path}/deleted") || own.starts_with(&format!("{path}/{{"))
    })
}

fn write(text: &mut String) -> fmt::Result {
    let (document, examples) = (document(EXAMPLE), examples());
    writeln!(text, "# API\n")?;
    writeln!(
        text,
        "Every endpoint, at the base URL of the installation (`{EXAMPLE}` below). The same as OpenAPI 3.1 is"
    )?;
    writeln!(text, "at [`/openapi.json`]({EXAMPLE}/openapi.json).\n")?;
    writeln!(text, "## Quickstart\n\n{QUICKSTART}")?;
    writeln!(text, "## Overview\n\n{}", everywhere(EXAMPLE))?;
    writeln!(text, "## Versions\n\n{VERSIONS}")?;
    for group in Group::ALL {
        writeln!(text, "## {}\n\n{}", group.title(), group.prose())?;
        if group == Group::Audit {
            writeln!(text, "| `event` | |\n|---|---|")?;
            EventName::ALL
                .iter()
                .try_for_each(|name| writeln!(text, "| `{}` | {} |", name.as_str(), name.meaning()))?;
            writeln!(text)?;
        }
        for operation in OPERATIONS.iter().filter(|operation| operation.group == group && has_section(operation)) {
            write_section(text, operation, &document, examples.get(operation.id).unwrap_or(&Value::Null))?;
        }
    }
    write_endpoints(text)?;
    // Exactly one line break at the end.
    text.truncate(text.trim_end().len());
    writeln!(text)
}

/// The table of all endpoints.
fn write_endpoints(text: &mut String) -> fmt::Result {
    writeln!(text, "## All endpoints\n\n| endpoint | | requires |\n|---|---|---|")?;
    for operation in OPERATIONS {
        let (title, needs) = (title(operation), needs(operation.endpoint.access));
        let anchor = if has_section(operation) { anchor(&title) } else { anchor(operation.group.title()) };
        writeln!(text, "| [`{title}`](#{anchor}) | {} | {needs} |", operation.summary)?;
    }
    Ok(())
}

fn title(operation: &OperationRow) -> String {
    format!("{} {}", operation.endpoint.method.as_str(), operation.endpoint.path)
}

/// The anchor of a heading.
#[must_use]
pub fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
}

fn write_section(text: &mut String, operation: &OperationRow, document: &Value, example: &Value) -> fmt::Result {
    let endpoint = operation.endpoint;
    writeln!(text, "### {}\n\n{}. {}\n", title(operation), operation.summary, describe_access(operation))?;
    let described = &document["paths"][endpoint.path][endpoint.method.as_str().to_lowercase()];
    let schema = resolve(document, &described["requestBody"]["content"]["application/json"]["schema"]);
    if let Some(fields) = schema["properties"].as_object() {
        writeln!(text, "| field | type | |\n|---|---|---|")?;
        for (name, field) in fields {
            let required = schema["required"].as_array().is_some_and(|all| all.contains(&name.as_str().into()));
            let form = form(document, field);
            let needed = if required { ", required" } else { "" };
            let told = field["description"].as_str().unwrap_or_default().replace('\n', " ");
            writeln!(text, "| `{name}` | {form}{needed} | {told} |")?;
        }
        writeln!(text)?;
    }
    request(text, operation, example)?;
    match example.get("answer") {
        Some(answer) => writeln!(text, "{}:\n\n```json\n{answer:#}\n```\n", operation.status)?,
        None if matches!(operation.response, Some(Shape::Zip)) => {
            writeln!(text, "{}: a file of type `application/zip`.\n", operation.status)?;
        }
        None => writeln!(text, "{}, without a body.\n", operation.status)?,
    }
    let particular = errors(operation).into_iter().filter(|code| !is_general(*code));
    let particular: Vec<_> = particular.map(|code| format!("{} `{}`", code.status(), name_of(code))).collect();
    if particular.is_empty() { Ok(()) } else { writeln!(text, "Errors: {}.\n", particular.join(", ")) }
}

/// Whether the overview describes this code for all endpoints.
const fn is_general(code: ErrorCode) -> bool {
    use ErrorCode::*;
    matches!(
        code,
        InvalidRequest
            | MissingToken
            | InvalidToken
            | UriTooLong
            | HeadersTooLarge
            | PayloadTooLarge
            | UnsupportedMediaType
            | ServerError
            | TemporarilyUnavailable
    )
}

fn request(text: &mut String, operation: &OperationRow, example: &Value) -> fmt::Result {
    let endpoint = operation.endpoint;
    let mut path = endpoint.path.to_owned();
    for (name, value) in example["path"].as_object().into_iter().flatten() {
        path = path.replace(&format!("{{{name}}}"), value.as_str().unwrap_or_default());
    }
    for (place, (name, value)) in example["query"].as_object().into_iter().flatten().enumerate() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        write!(path, "{}{name}={value}", if place == 0 { "?" } else { "&" })?;
    }
    writeln!(text, "```http\n{} {path} HTTP/1.1", endpoint.method.as_str())?;
    match endpoint.access {
        Access::Public | Access::Browser | Access::Provider => {}
        Access::Client => writeln!(text, "Authorization: Basic bW9uaXRvcjpzdmNfY3Nf…")?,
        _ => writeln!(text, "Authorization: Bearer eyJhbGciOiJFUzI1NiIs…")?,
    }
    match example.get("body") {
        Some(body) if endpoint.body != Body::None => {
            writeln!(text, "Content-Type: application/json\n\n{body:#}")?;
        }
        _ => {}
    }
    writeln!(text, "```\n")
}

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    name.map_or(schema, |name| &document["components"]["schemas"][name])
}

/// The type of a value, in a few words.
fn form(document: &Value, schema: &Value) -> String {
    let schema = resolve(document, schema);
    let one_of = |key: &str| {
        let all = schema[key].as_array()?;
        let known = all.iter().filter(|one| one["type"] != "null");
        Some(known.map(|one| form(document, one)).collect::<Vec<_>>().join(" or "))
    };
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    if let Some(word) = schema["const"].as_str() {
        return format!("`{word}`");
    }
    if let Some(text) = one_of("anyOf").or_else(|| one_of("oneOf")) {
        return text;
    }
    let kind = match &schema["type"] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).find(|one| *one != "null").unwrap_or_default(),
        kind => kind.as_str().unwrap_or("any"),
    };
    match (kind, schema["format"].as_str(), schema["maxLength"].as_u64()) {
        ("array", ..) => format!("list of {}", form(document, &schema["items"])),
        ("string", Some("date"), _) => "date, `YYYY-MM-DD`".to_owned(),
        ("string", Some("date-time"), _) => "date and time".to_owned(),
        ("string", _, Some(most)) => format!("string, up to {most} characters"),
        (kind, ..) => kind.to_owned(),
    }
}
