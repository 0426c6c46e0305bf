//! The description for programs: `OpenAPI` 3.1.

use serde_json::{Map, Value, json};

use super::{
    group::Group,
    operations::{Header, Operation, all},
    schemas::{self, Schemas, Shape},
    words::{everywhere, name_of, needs, reason, spoken},
};
use crate::{
    endpoints::{Access, Body, Method},
    errors::{ErrorBody, ErrorCode},
    ids,
    scope::{Scope, Scopes},
    workspaces,
};

/// A request with which an operation succeeds, and how it answers; a test sends every one of them.
const EXAMPLES: &str = include_str!("examples.json");

/// Examples by the names of their operations: `path`, `query`, `body` and `answer`, each if there is one.
#[must_use]
pub fn examples() -> Map<String, Value> {
    serde_json::from_str(EXAMPLES).unwrap_or_default()
}

/// The whole document, for a service at this address.
#[must_use]
pub fn document(base_url: &str) -> Value {
    let (mut taken, mut answered) = (Schemas::taken(), Schemas::answered());
    let error = answered.of(Shape::Of(schemars::SchemaGenerator::subschema_for::<ErrorBody>));
    let examples = examples();
    let mut paths = Map::new();
    for operation in all() {
        let example = examples.get(&operation.id).cloned().unwrap_or_default();
        let described = describe(&operation, &example, (&mut taken, &mut answered), &error);
        let path = paths.entry(operation.endpoint.path).or_insert_with(|| json!({}));
        path[operation.endpoint.method.as_str().to_lowercase()] = described;
    }
    let mut components = schemas::contents(&mut schemars::SchemaGenerator::default());
    components.extend(taken.components());
    components.extend(answered.components());
    let scopes: Map<_, _> = Scopes::ALL.words().map(|word| (word.to_owned(), json!(spoken(word)))).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Service",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Access and authentication of a work platform, and what is worked on",
            "description": everywhere(base_url),
        },
        "servers": [{ "url": base_url }],
        "tags": Group::ALL.map(|group| json!({ "name": group.title() })),
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "oauth": {
                    "type": "oauth2",
                    "flows": { "authorizationCode": {
                        "authorizationUrl": format!("{base_url}/oauth/authorize"),
                        "tokenUrl": format!("{base_url}/oauth/token"),
                        "refreshUrl": format!("{base_url}/oauth/token"),
                        "scopes": scopes,
                    } },
                },
                "bearer": { "type": "http", "scheme": "bearer", "description": "An access token, or a token for automation" },
                "client": { "type": "http", "scheme": "basic", "description": "A client's id and secret" },
            },
        },
    })
}

fn describe(
    operation: &Operation,
    example: &Value,
    (taken, answered): (&mut Schemas, &mut Schemas),
    error: &Value,
) -> Value {
    let endpoint = operation.endpoint;
    let mut described = json!({
        "operationId": operation.id,
        "tags": [operation.group.title()],
        "summary": operation.summary,
        "description": needs(endpoint.access),
        "parameters": parameters(operation, example),
        "security": security(endpoint.access),
        "responses": responses(operation, example, answered, error),
    });
    if let Some(shape) = operation.request {
        let mut content = json!({ "schema": taken.of(shape) });
        if let Some(body) = example.get("body") {
            content["example"] = body.clone();
        }
        let mut media = json!({ "application/json": content });
        if endpoint.body == Body::JsonOrForm {
            media["application/x-www-form-urlencoded"] = media["application/json"].clone();
        }
        described["requestBody"] = json!({ "required": true, "content": media });
    }
    described
}

fn parameters(operation: &Operation, example: &Value) -> Vec<Value> {
    let endpoint = operation.endpoint;
    let in_path = endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let path = in_path.map(|name| {
        let kind = kind_of(name, endpoint.path);
        json!({
            "name": name, "in": "path", "required": true,
            "schema": { "type": "string", "pattern": ids::pattern(kind) },
            "example": example["path"].get(name).cloned().unwrap_or_else(|| format!("{kind}_01m955vw00fjqrz47smcqrkmzz").into()),
        })
    });
    let query = endpoint.query.iter().map(|name| {
        let mut parameter = json!({ "name": name, "in": "query", "schema": query_schema(name) });
        if let Some(value) = example["query"].get(*name) {
            parameter["example"] = value.clone();
        }
        parameter
    });
    let headers = operation.headers.iter().map(|header| match header {
        Header::IfMatch => json!({
            "name": "If-Match", "in": "header", "schema": { "type": "string", "minLength": 1, "pattern": "^(\\*|\"[0-9]{1,18}\")$" },
            "description": "The ETag that it was read with: the change happens only if nobody else was faster",
        }),
        Header::IdempotencyKey => json!({
            "name": "Idempotency-Key", "in": "header", "schema": { "type": "string", "minLength": 1, "pattern": "^[!-~]{1,255}$" },
            "description": "Sent again with the same key, the request is carried out once",
        }),
    });
    path.chain(query).chain(headers).collect()
}

/// The kind of id that a parameter of a path is.
fn kind_of(name: &str, path: &str) -> &'static str {
    match name {
        "workspaceId" => "wsp",
        "userId" => "user",
        "invitationId" => "inv",
        "projectId" => "proj",
        "packId" => "pack",
        "playbookId" => "play",
        "caseId" => "case",
        "recordId" => "rec",
        "sessionId" => "grant",
        _ if path.starts_with("/v1/cli/") => "clit",
        _ => "id",
    }
}

fn query_schema(name: &str) -> Value {
    match name {
        "workspaceId" => workspaces::named_space(&mut schemars::SchemaGenerator::default()).into(),
        "limit" => {
            json!({ "type": "integer", "minimum": 1, "maximum": crate::page::MAX_LIMIT, "default": crate::page::DEFAULT_LIMIT })
        }
        "status" => json!({ "type": "string", "enum": ["active", "expired", "revoked", "all"], "default": "active" }),
        "event" => {
            json!({ "type": "string", "enum": crate::audit_events::EventName::ALL.iter().map(|name| name.as_str()).collect::<Vec<_>>() })
        }
        "userId" => json!({ "type": "string", "pattern": ids::pattern("user") }),
        "since" | "until" => json!({ "type": "string", "anyOf": [{ "format": "date" }, { "format": "date-time" }] }),
        _ => json!({ "type": "string" }),
    }
}

fn security(access: Access) -> Value {
    let by_scope = |scope: Scope| {
        let mut all: Vec<_> = scope.words().map(|word| json!({ "oauth": [word] })).collect();
        all.push(json!({ "bearer": [] }));
        json!(all)
    };
    match access {
        Access::Public | Access::Browser => json!([]),
        Access::Client => json!([{ "client": [] }]),
        Access::Bearer(scope) | Access::Owner(scope) | Access::SignedIn(scope) => by_scope(scope),
        Access::McpPair => json!([{ "bearer": [] }]),
    }
}

/// Every code that an operation can fail with, in the order of their statuses.
#[must_use]
pub fn errors(operation: &Operation) -> Vec<ErrorCode> {
    use ErrorCode::*;
    let endpoint = operation.endpoint;
    let mut all = operation.errors.clone();
    all.extend([InvalidRequest, UriTooLong, HeadersTooLarge, ServerError, TemporarilyUnavailable]);
    if endpoint.body != Body::None {
        all.extend([PayloadTooLarge, UnsupportedMediaType]);
    }
    match endpoint.access {
        Access::Public | Access::Browser | Access::Client => {}
        Access::Bearer(_) => all.extend([MissingToken, InvalidToken, InsufficientScope]),
        Access::Owner(_) | Access::SignedIn(_) => {
            all.extend([MissingToken, InvalidToken, InsufficientScope, Forbidden]);
        }
        Access::McpPair => all.extend([MissingToken, InvalidToken, Forbidden]),
    }
    if endpoint.query.contains(&"workspaceId") {
        all.extend([NotFound, WorkspaceMismatch]);
        if endpoint.method != Method::Get {
            all.push(Forbidden);
        }
    }
    all.sort_by_key(|code| (code.status(), name_of(*code)));
    all.dedup();
    all
}

fn responses(operation: &Operation, example: &Value, answered: &mut Schemas, error: &Value) -> Value {
    let request_id = json!({ "X-Request-Id": { "schema": { "type": "string" }, "required": true } });
    let mut success = json!({ "description": reason(operation.status), "headers": request_id.clone() });
    if let Some(shape) = operation.answer {
        let mut content = json!({ "schema": answered.of(shape) });
        if let Some(answer) = example.get("answer") {
            content["example"] = answer.clone();
        }
        success["content"] = json!({ "application/json": content });
        if matches!(shape, Shape::Content(_)) {
            success["headers"]["ETag"] = json!({ "schema": { "type": "string" }, "required": true });
        }
    }
    let mut all = Map::from_iter([(operation.status.to_string(), success)]);
    for code in errors(operation) {
        let response = all.entry(code.status().to_string()).or_insert_with(|| {
            json!({
                "description": "",
                "headers": request_id.clone(),
                "content": { "application/json": { "schema": { "allOf": [error, { "properties": { "error": { "enum": [] } } }] } } },
            })
        });
        let codes = &mut response["content"]["application/json"]["schema"]["allOf"][1]["properties"]["error"]["enum"];
        if let Value::Array(codes) = codes {
            codes.push(name_of(code).into());
        }
        let told = response["description"].as_str().unwrap_or_default();
        let separator = if told.is_empty() { "" } else { ", " };
        response["description"] = format!("{told}{separator}`{}`", name_of(code)).into();
        match code.status() {
            401 => response["headers"]["WWW-Authenticate"] = json!({ "schema": { "type": "string" } }),
            429 | 503 => {
                response["headers"]["Retry-After"] = json!({ "schema": { "type": "integer" }, "required": true });
            }
            _ => {}
        }
    }
    Value::Object(all)
}
