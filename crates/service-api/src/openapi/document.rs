//! The `OpenAPI` 3.1 document.

use serde_json::{Map, Value, json};

use super::{
    group::Group,
    schemas::{self, Schemas, Shape},
    words::{everywhere, name_of, needs, reason, spoken},
};
use crate::{
    contents::Kind,
    endpoints::{Access, Body, Header, Method, OPERATIONS, OperationRow},
    errors::{ErrorBody, ErrorCode},
    ids,
    scope::{Scope, Scopes},
    sessions::MadeTreatment,
    workspaces,
};

/// One successful request and its response for each operation. A test sends them all.
const EXAMPLES: &str = include_str!("examples.json");

/// One example for each operation, by its id. The members `path`, `query`, `body` and `answer` are present if they apply.
#[must_use]
pub fn examples() -> Map<String, Value> {
    serde_json::from_str(EXAMPLES).unwrap_or_default()
}

/// The document for a service at this base URL.
#[must_use]
pub fn document(base_url: &str) -> Value {
    let (mut request_schemas, mut response_schemas) = (Schemas::of_requests(), Schemas::of_responses());
    let error = response_schemas.of(Shape::Of(schemars::SchemaGenerator::subschema_for::<ErrorBody>));
    let examples = examples();
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let example = examples.get(operation.id).cloned().unwrap_or_default();
        let described = describe(operation, &example, &mut request_schemas, &mut response_schemas, &error);
        let path = paths.entry(operation.endpoint.path).or_insert_with(|| json!({}));
        path[operation.endpoint.method.as_str().to_lowercase()] = described;
    }
    let mut components = schemas::contents(&mut schemars::SchemaGenerator::default());
    components.extend(request_schemas.components());
    components.extend(response_schemas.components());
    let scopes: Map<_, _> = Scopes::ALL.words().map(|word| (word.to_owned(), json!(spoken(word)))).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Service",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Access, authentication and content of a work platform",
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
                "bearer": { "type": "http", "scheme": "bearer", "description": "An access token or a CLI token" },
                "client": { "type": "http", "scheme": "basic", "description": "The ID and secret of a client" },
            },
        },
    })
}

fn describe(
    operation: &OperationRow,
    example: &Value,
    request_schemas: &mut Schemas,
    response_schemas: &mut Schemas,
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
        "responses": responses(operation, example, response_schemas, error),
    });
    if let Some(shape) = operation.request {
        let mut content = json!({ "schema": request_schemas.of(shape) });
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

fn parameters(operation: &OperationRow, example: &Value) -> Vec<Value> {
    let endpoint = operation.endpoint;
    let in_path = endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let path = in_path.map(|name| {
        let kind = kind_of(name);
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
            "description": "The ETag of the version that was read: the request takes effect only if it has not changed",
        }),
        Header::IdempotencyKey => json!({
            "name": "Idempotency-Key", "in": "header", "schema": { "type": "string", "minLength": 1, "pattern": "^[!-~]{1,255}$" },
            "description": "A request that is repeated with the same key takes effect once",
        }),
    });
    path.chain(query).chain(headers).collect()
}

/// The prefix of the ids that a parameter of a path takes.
fn kind_of(name: &str) -> &'static str {
    let content = Kind::ALL.into_iter().find(|kind| name == format!("{}Id", kind.name().to_lowercase()));
    match name {
        "workspaceId" => "wsp",
        "userId" => "user",
        "invitationId" => "inv",
        "sessionId" => "grant",
        "consentId" => "consent",
        _ => content.map_or("clit", Kind::prefix),
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
        "made" => json!({
            "type": "string", "enum": MadeTreatment::ALL.map(MadeTreatment::as_str), "default": "recommended",
            "description": "What happens to the tokens and invitations that the session made",
        }),
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
        Access::Public | Access::Browser | Access::Provider => json!([]),
        Access::Client => json!([{ "client": [] }]),
        Access::Bearer(scope)
        | Access::Owner(scope)
        | Access::SignedIn(scope)
        | Access::RecentSignIn(scope)
        | Access::RecentSignInForOwners(scope) => by_scope(scope),
        Access::McpPair | Access::Mcp | Access::AnyToken => json!([{ "bearer": [] }]),
    }
}

/// Every error code of an operation, ordered by status.
pub(super) fn errors(operation: &OperationRow) -> Vec<ErrorCode> {
    use ErrorCode::*;
    let endpoint = operation.endpoint;
    let mut all = operation.errors.to_vec();
    all.extend([InvalidRequest, UriTooLong, HeadersTooLarge, ServerError, TemporarilyUnavailable]);
    if endpoint.body != Body::None {
        all.extend([PayloadTooLarge, UnsupportedMediaType]);
    }
    match endpoint.access {
        Access::Public | Access::Browser | Access::Provider | Access::Client => {}
        Access::AnyToken => all.extend([MissingToken, InvalidToken, RateLimited]),
        Access::Bearer(_) => all.extend([MissingToken, InvalidToken, InsufficientScope, RateLimited]),
        Access::Owner(_) | Access::SignedIn(_) => {
            all.extend([MissingToken, InvalidToken, InsufficientScope, Forbidden, RateLimited]);
        }
        Access::RecentSignIn(_) | Access::RecentSignInForOwners(_) => {
            all.extend([MissingToken, InvalidToken, InsufficientScope, Forbidden, RateLimited]);
            all.push(InsufficientUserAuthentication);
        }
        Access::McpPair => all.extend([MissingToken, InvalidToken, Forbidden]),
        Access::Mcp => all.extend([MissingToken, InvalidToken, InsufficientScope, Forbidden, RateLimited]),
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

fn responses(operation: &OperationRow, example: &Value, response_schemas: &mut Schemas, error: &Value) -> Value {
    let request_id = json!({ "X-Request-Id": { "schema": { "type": "string" }, "required": true } });
    let mut success = json!({ "description": reason(operation.status), "headers": request_id.clone() });
    if let Some(shape) = operation.response {
        let mut content = json!({ "schema": response_schemas.of(shape) });
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
            401 | 403 => response["headers"]["WWW-Authenticate"] = json!({ "schema": { "type": "string" } }),
            429 | 503 => {
                response["headers"]["Retry-After"] = json!({ "schema": { "type": "integer" }, "required": true });
            }
            _ => {}
        }
    }
    Value::Object(all)
}
