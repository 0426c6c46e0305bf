//! The parameters of an operation: in the path, the query and the headers.

use serde_json::{Value, json};

use crate::{
    audit_events::EventName,
    contents::Kind,
    endpoints::{Header, OperationRow},
    ids::{self, ConnectionId, ExportId, Id as _, PasskeyId},
    page,
    sessions::MadeTreatment,
    workspaces,
};

pub(super) fn parameters(operation: &OperationRow, example: &Value) -> Vec<Value> {
    let endpoint = operation.endpoint;
    let in_path = endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let path = in_path.map(|name| path_parameter(name, &example["path"]));
    let query = endpoint.query.iter().map(|name| {
        let (schema, about) = query_parameter(name);
        let mut parameter = json!({ "name": name, "in": "query", "schema": schema, "description": about });
        if let Some(value) = example["query"].get(*name) {
            parameter["example"] = value.clone();
        }
        parameter
    });
    path.chain(query).chain(operation.headers.iter().map(|header| header_parameter(*header))).collect()
}

fn path_parameter(name: &str, examples: &Value) -> Value {
    let (kind, about) = match name {
        "workspaceId" => ("wsp", "The ID of the workspace.".to_owned()),
        "userId" => ("user", "The ID of the user.".to_owned()),
        "invitationId" => ("inv", "The ID of the invitation.".to_owned()),
        "connectionId" => (ConnectionId::KIND, "The ID of the connection.".to_owned()),
        "sessionId" => ("grant", "The ID of the session, or of a browser's session.".to_owned()),
        "consentId" => ("consent", "The ID of the consent.".to_owned()),
        "passkeyId" => (PasskeyId::KIND, "The ID of the passkey.".to_owned()),
        "exportId" => (ExportId::KIND, "The ID of the export.".to_owned()),
        "tokenId" => ("clit", "The ID of the CLI token.".to_owned()),
        "domain" => {
            let schema = json!({ "type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[^/\\u0000]+$" });
            let about = "The domain, as the workspace claimed it.";
            let example = examples.get(name).cloned().unwrap_or_else(|| "acme.example".into());
            return json!({
                "name": name, "in": "path", "required": true, "schema": schema, "description": about, "example": example,
            });
        }
        _ => {
            let content = Kind::ALL.into_iter().find(|kind| name == format!("{}Id", kind.name().to_lowercase()));
            (content.map_or("", Kind::prefix), format!("The ID of the {}.", name.trim_end_matches("Id")))
        }
    };
    // Browsers are revoked like sessions of clients.
    let kinds = if kind == "grant" { "(grant|sess)" } else { kind };
    let example = examples.get(name).cloned().unwrap_or_else(|| format!("{kind}_01m955vw00fjqrz47smcqrkmzz").into());
    json!({
        "name": name, "in": "path", "required": true, "description": about, "example": example,
        "schema": { "type": "string", "pattern": ids::pattern(kinds) },
    })
}

/// The schema of a parameter of a query, and its description.
fn query_parameter(name: &str) -> (Value, &'static str) {
    match name {
        "workspaceId" => (
            workspaces::named_space(&mut schemars::SchemaGenerator::default()).into(),
            "The space that the request runs in: the ID of a workspace, or `personal`. Default: the default space of the \
             token, or personal space if it has none.",
        ),
        "limit" => (
            json!({ "type": "integer", "minimum": 1, "maximum": page::MAX_LIMIT, "default": page::DEFAULT_LIMIT }),
            "The maximum number of items on a page.",
        ),
        "cursor" => (json!({ "type": "string" }), "`nextCursor` of the previous page."),
        "status" => (
            json!({ "type": "string", "enum": ["active", "expired", "revoked", "all"], "default": "active" }),
            "Which tokens to list.",
        ),
        "event" => (
            json!({ "type": "string", "enum": EventName::ALL.iter().map(|name| name.as_str()).collect::<Vec<_>>() }),
            "Only events with this name.",
        ),
        "made" => (
            json!({ "type": "string", "enum": MadeTreatment::ALL.map(MadeTreatment::as_str), "default": "recommended" }),
            "What happens to the tokens and invitations that the session made.",
        ),
        "userId" => {
            (json!({ "type": "string", "pattern": ids::pattern("user") }), "Only events that concern this user.")
        }
        "since" => (date_or_instant(), "Only events at or after this date or time."),
        "until" => (date_or_instant(), "Only events before this date or time."),
        _ => (json!({ "type": "string" }), ""),
    }
}

fn date_or_instant() -> Value {
    json!({ "anyOf": [{ "type": "string", "format": "date-time" }, { "type": "string", "format": "date" }] })
}

fn header_parameter(header: Header) -> Value {
    match header {
        Header::IfMatch => json!({
            "name": "If-Match", "in": "header", "schema": { "type": "string", "minLength": 1, "pattern": "^(\\*|\"[0-9]{1,18}\")$" },
            "description": "The ETag of the version that was read: the request takes effect only if it has not changed.",
        }),
        Header::IdempotencyKey => json!({
            "name": "Idempotency-Key", "in": "header", "schema": { "type": "string", "minLength": 1, "pattern": "^[!-~]{1,255}$" },
            "description": "A key of your choice: a request that is repeated with the same key takes effect once.",
        }),
    }
}
