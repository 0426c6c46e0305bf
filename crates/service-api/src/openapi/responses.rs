//! The responses of an operation. Error responses are components that all operations share.

use serde_json::{Map, Value, json};

use super::{
    document::errors,
    schemas::{Schemas, Shape},
    words::{name_of, reason},
};
use crate::{endpoints::OperationRow, errors::ErrorCode};

/// The shared error responses: status, name, description, headers.
const ERRORS: [(u16, &str, &str, &[&str]); 14] = [
    (400, "BadRequest", "The request is malformed, or an OAuth parameter is not accepted.", &[]),
    (401, "Unauthorized", "The credential is missing or not valid.", &["WWW-Authenticate"]),
    (403, "Forbidden", "The credential is valid and does not allow this.", &["WWW-Authenticate"]),
    (404, "NotFound", "Not found, or not accessible to the caller.", &[]),
    (409, "Conflict", "The request conflicts with an existing resource.", &[]),
    (412, "PreconditionFailed", "The resource has changed since it was read.", &[]),
    (413, "PayloadTooLarge", "The body is too large.", &[]),
    (414, "UriTooLong", "Path and query are too long.", &[]),
    (415, "UnsupportedMediaType", "The `Content-Type` is missing or not supported.", &[]),
    (422, "UnprocessableContent", "A field has an invalid value; `details.fields` says which and why.", &[]),
    (429, "TooManyRequests", "A rate limit is reached.", &["Retry-After", "RateLimit", "RateLimit-Policy"]),
    (431, "HeadersTooLarge", "The header fields are too large.", &[]),
    (500, "ServerError", "A defect of the service. Report the request ID.", &[]),
    (503, "ServiceUnavailable", "The service is busy, or the outcome is unknown. Retry.", &["Retry-After"]),
];

fn header_reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{name}") })
}

/// The components of all headers of responses.
pub(super) fn headers() -> Value {
    let text = |about: &str| json!({ "schema": { "type": "string" }, "description": about });
    json!({
        "X-Request-Id": {
            "schema": { "type": "string" }, "required": true,
            "description": "The ID of the request, by which an operator finds it in the logs.",
        },
        "ETag": {
            "schema": { "type": "string" }, "required": true,
            "description": "The version of the content. Send it as `If-Match` with an update or a delete.",
        },
        "Location": {
            "schema": { "type": "string" }, "required": true,
            "description": "The path of the created resource, relative to the base URL.",
        },
        "WWW-Authenticate": text("The challenge (RFC 6750): what is wrong with the token, and where to get one."),
        "Retry-After": {
            "schema": { "type": "integer" }, "required": true,
            "description": "Seconds to wait before the request is repeated.",
        },
        "RateLimit": text("The limit that applies: its policy, what remains (`r`), and seconds until it is full again (`t`)."),
        "RateLimit-Policy": text("The policy of the limit: quota (`q`) and window in seconds (`w`)."),
    })
}

/// The components of all error responses.
pub(super) fn components(error: &Value) -> Value {
    let component = |(_, name, about, headers): (u16, &str, &str, &[&str])| {
        let all = ["X-Request-Id"].into_iter().chain(headers.iter().copied());
        let headers: Map<_, _> = all.map(|name| (name.to_owned(), header_reference(name))).collect();
        let content = json!({ "application/json": { "schema": error } });
        (name.to_owned(), json!({ "description": about, "headers": headers, "content": content }))
    };
    Value::Object(ERRORS.map(component).into_iter().collect())
}

/// The responses of an operation: the successful one, and a reference to a shared response for each status of an error.
pub(super) fn responses(operation: &OperationRow, example: &Value, schemas: &mut Schemas) -> Value {
    let headers = json!({ "X-Request-Id": header_reference("X-Request-Id") });
    let mut success = json!({ "description": reason(operation.status), "headers": headers });
    if let Some(shape) = operation.response {
        let mut content = json!({ "schema": schemas.of(shape) });
        if let Some(answer) = example.get("answer") {
            content["example"] = answer.clone();
        }
        let media_type = if matches!(shape, Shape::Zip) { "application/zip" } else { "application/json" };
        success["content"] = json!({ media_type: content });
        if matches!(shape, Shape::Content(_)) {
            success["headers"]["ETag"] = header_reference("ETag");
        }
    }
    if operation.located {
        success["headers"]["Location"] = header_reference("Location");
    }
    let mut all = Map::from_iter([(operation.status.to_string(), success)]);
    for (status, name, ..) in ERRORS {
        let codes: Vec<ErrorCode> = errors(operation).into_iter().filter(|code| code.status() == status).collect();
        if !codes.is_empty() {
            let told = codes.into_iter().map(|code| format!("`{}`", name_of(code))).collect::<Vec<_>>().join(", ");
            let refers = json!({ "$ref": format!("#/components/responses/{name}"), "description": told });
            all.insert(status.to_string(), refers);
        }
    }
    Value::Object(all)
}
