//! The `OpenAPI` 3.1 document.

use serde_json::{Map, Value, json};

use super::{
    content_schemas,
    group::Group,
    parameters::parameters,
    responses::{self, responses},
    schemas::Schemas,
    words::{describe_access, everywhere, name_of, spoken},
};
use crate::{
    endpoints::{Access, Body, OPERATIONS, OperationRow},
    errors::{ErrorBody, ErrorCode},
    scope::{Scope, Scopes},
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
    let error = response_schemas.of_type::<ErrorBody>();
    let examples = examples();
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let example = examples.get(operation.id).cloned().unwrap_or_default();
        let described = describe(operation, &example, &mut request_schemas, &mut response_schemas);
        let path = paths.entry(operation.endpoint.path).or_insert_with(|| json!({}));
        path[operation.endpoint.method.as_str().to_lowercase()] = described;
    }
    let mut components = content_schemas::contents(&mut response_schemas);
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
            "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
            "contact": { "name": "Service", "url": format!("{base_url}/docs") },
        },
        "servers": [{ "url": base_url, "description": "This installation" }],
        "externalDocs": { "url": format!("{base_url}/docs"), "description": "The manual" },
        "tags": Group::ALL.map(|group| {
            json!({ "name": group.tag(), "description": group.about(), "x-displayName": group.title() })
        }),
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": responses::components(&error),
            "headers": responses::headers(),
            "securitySchemes": {
                "oauth": {
                    "type": "oauth2",
                    "description": "The authorization code grant with PKCE",
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
) -> Value {
    let endpoint = operation.endpoint;
    let mut described = json!({
        "operationId": operation.id,
        "tags": [operation.group.tag()],
        "summary": operation.summary,
        "description": describe_access(operation),
        "parameters": parameters(operation, example),
        "security": security(endpoint.access),
        "responses": responses(operation, example, response_schemas),
    });
    if let Some(shape) = operation.request {
        let mut content = json!({ "schema": request_schemas.of(shape) });
        if let Some(body) = example.get("body") {
            content["example"] = body.clone();
        }
        described["requestBody"] = json!({ "required": true, "content": { "application/json": content } });
        // Only one media type is listed: clients that generators make from two choose the wrong one, or do not compile.
        if endpoint.body == Body::JsonOrForm {
            let text = "Also accepted as `application/x-www-form-urlencoded`, with the same parameters.";
            described["requestBody"]["description"] = text.into();
        }
    }
    described
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
    // A required field can be missing.
    if endpoint.body == Body::Json && endpoint.path.starts_with("/v1/") {
        all.push(ValidationFailed);
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
        all.extend([NotFound, WorkspaceMismatch, Forbidden]);
    }
    all.sort_by_cached_key(|code| (code.status(), name_of(*code)));
    all.dedup();
    all
}
