//! The tools: each is an operation of the API, with its scope and its schemas.

use std::sync::{Arc, LazyLock};

use rmcp::model::{self, JsonObject, ToolAnnotations};
use serde_json::{Value, json};
use service_api::{
    contents::Kind,
    endpoints::{self, Access, OperationRow},
    openapi::{Shape, standalone_request, standalone_response},
    page::{DEFAULT_LIMIT, MAX_LIMIT},
    scope::Scope,
};

/// What a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Whoami,
    ListWorkspaces,
    SearchPacks,
    List(Kind),
    Get(Kind),
    Create(Kind),
    Update(Kind),
    Delete(Kind),
}

/// A tool.
pub(super) struct Tool {
    pub(super) action: Action,
    /// The scope that a call needs. `None`: any valid token will do.
    pub(super) scope: Option<Scope>,
    /// What clients are told about it.
    pub(super) described: model::Tool,
}

impl Tool {
    pub(super) fn is_search(&self) -> bool {
        self.action == Action::SearchPacks
    }
}

/// Every tool, in the order in which they are listed.
pub(super) static ALL: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let fixed = [Action::Whoami, Action::ListWorkspaces, Action::SearchPacks];
    let of_kind = |kind| {
        [Action::List(kind), Action::Get(kind), Action::Create(kind), Action::Update(kind), Action::Delete(kind)]
    };
    fixed.into_iter().chain(Kind::ALL.into_iter().flat_map(of_kind)).map(tool).collect()
});

/// Finds a tool by its name.
pub(super) fn find(name: &str) -> Option<&'static Tool> {
    ALL.iter().find(|tool| tool.described.name == name)
}

/// The name of a kind in names and texts: `pack`.
pub(super) fn noun(kind: Kind) -> String {
    kind.name().to_lowercase()
}

/// The argument that names a content: `packId`.
pub(super) fn id_argument(kind: Kind) -> String {
    format!("{}Id", noun(kind))
}

fn tool(action: Action) -> Tool {
    let operation = operation(action);
    let scope = match operation.endpoint.access {
        Access::Bearer(scope) => Some(scope),
        _ => None,
    };
    let described = model::Tool::new(name(action), description(action), object(input(action, operation)))
        .with_title(title(action))
        .with_raw_output_schema(Arc::new(object(output(action, operation))))
        .with_annotations(annotations(action));
    Tool { action, scope, described }
}

/// The operation of the API that the tool stands for.
fn operation(action: Action) -> &'static OperationRow {
    match action {
        Action::Whoami => &endpoints::WHOAMI.row,
        Action::ListWorkspaces => &endpoints::LIST_WORKSPACES.row,
        Action::SearchPacks => &endpoints::SEARCH_PACKS.row,
        Action::List(kind) => &endpoints::contents(kind).list.row,
        Action::Get(kind) => &endpoints::contents(kind).read.row,
        Action::Create(kind) => &endpoints::contents(kind).create.row,
        Action::Update(kind) => &endpoints::contents(kind).update.row,
        Action::Delete(kind) => &endpoints::contents(kind).delete.row,
    }
}

fn name(action: Action) -> String {
    match action {
        Action::Whoami => "whoami".into(),
        Action::ListWorkspaces => "list_workspaces".into(),
        Action::SearchPacks => "search_packs".into(),
        Action::List(kind) => format!("list_{}s", noun(kind)),
        Action::Get(kind) => format!("get_{}", noun(kind)),
        Action::Create(kind) => format!("create_{}", noun(kind)),
        Action::Update(kind) => format!("update_{}", noun(kind)),
        Action::Delete(kind) => format!("delete_{}", noun(kind)),
    }
}

fn title(action: Action) -> String {
    match action {
        Action::Whoami => "Current user".into(),
        Action::ListWorkspaces => "List workspaces".into(),
        Action::SearchPacks => "Search packs".into(),
        Action::List(kind) => format!("List {}s", noun(kind)),
        Action::Get(kind) => format!("Get a {}", noun(kind)),
        Action::Create(kind) => format!("Create a {}", noun(kind)),
        Action::Update(kind) => format!("Update a {}", noun(kind)),
        Action::Delete(kind) => format!("Delete a {}", noun(kind)),
    }
}

fn description(action: Action) -> String {
    match action {
        Action::Whoami => "Shows the user, the scopes and expiry of the access token, and the space that calls run in.".into(),
        Action::ListWorkspaces => {
            "Lists the workspaces that this connection has access to, with the user's role in each. A viewer can't write."
                .into()
        }
        Action::SearchPacks => {
            "Searches packs of one type by words, and returns the best matches with the matching parts of their text.".into()
        }
        Action::List(kind) => format!(
            "Lists {0}s, oldest first, in pages. If the result has nextCursor, call again with it as cursor for the next page.",
            noun(kind)
        ),
        Action::Get(kind) => format!("Gets one {} by its ID.", noun(kind)),
        Action::Create(kind) => {
            format!("Creates a {}. {}Never put passwords or tokens into it.", noun(kind), purpose(kind))
        }
        Action::Update(kind) => format!(
            "Changes the given fields of a {0} and leaves all others as they are. null clears an optional field.",
            noun(kind)
        ),
        Action::Delete(kind) => format!(
            "Deletes a {0}. The user has to confirm it in a browser: the first call returns a link for the user. An owner \
             can restore the {0} for 30 days.",
            noun(kind)
        ),
    }
}

fn purpose(kind: Kind) -> &'static str {
    match kind {
        Kind::Pack => "A pack is a text that can be searched and read as a resource. ",
        Kind::Playbook => "Its definition is a JSON object. ",
        Kind::Case => "Its inputs are a JSON object. ",
        Kind::Record => "Its data is a JSON object. ",
        Kind::Project => "",
    }
}

fn annotations(action: Action) -> ToolAnnotations {
    let hints = ToolAnnotations::with_title(title(action)).open_world(false);
    match action {
        Action::Create(_) => hints.read_only(false).destructive(false).idempotent(false),
        Action::Update(_) | Action::Delete(_) => hints.read_only(false).destructive(true).idempotent(true),
        _ => hints.read_only(true),
    }
}

/// The arguments of a tool: those of the operation's path, query and body.
fn input(action: Action, operation: &OperationRow) -> Value {
    let mut schema = match operation.request {
        Some(shape) => standalone_request(shape),
        None => json!({ "type": "object", "properties": {} }),
    };
    schema["additionalProperties"] = json!(false);
    let mut add = |name: &str, property: Value| schema["properties"][name] = property;
    for parameter in operation.endpoint.query {
        match *parameter {
            "limit" => add(
                "limit",
                json!({
                    "type": "integer", "minimum": 1, "maximum": MAX_LIMIT,
                    "description": format!("How many to return at most. Default: {DEFAULT_LIMIT}."),
                }),
            ),
            "cursor" => add("cursor", json!({ "type": "string", "description": "nextCursor of the page before." })),
            _ => add(
                "workspaceId",
                json!({
                    "type": "string",
                    "description": "The ID of a workspace, or `personal`. Leave it out to use the space of the connection.",
                }),
            ),
        }
    }
    if let Action::Delete(_) = action {
        let text = "The ID of the confirmation, once the user has confirmed the deletion in a browser.";
        add("confirmation", json!({ "type": "string", "description": text }));
    }
    if let Action::Get(kind) | Action::Update(kind) | Action::Delete(kind) = action {
        let argument = id_argument(kind);
        add(&argument, json!({ "type": "string", "description": format!("The ID of the {}.", noun(kind)) }));
        schema["required"] = json!([argument]);
    }
    schema
}

fn output(action: Action, operation: &OperationRow) -> Value {
    match (action, operation.response) {
        (Action::Delete(_), _) => json!({
            "type": "object",
            "properties": { "id": { "type": "string" }, "deleted": { "type": "boolean" } },
            "required": ["id", "deleted"],
        }),
        (_, shape) => standalone_response(shape.unwrap_or(Shape::Standard)),
    }
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}
