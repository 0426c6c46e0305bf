//! The suite's tools and prompt that ask back: `input_required`, and an answer once everything is known.

use std::{collections::hash_map::RandomState, hash::BuildHasher as _, sync::LazyLock};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, InputRequest, InputRequests, InputRequiredResult,
        InputResponses,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use super::{complete, parse};

/// The key of this process for states: they are made and read by the same process.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::default);

type Answer = Result<CallToolResponse, ErrorData>;

/// Answers a tool that asks back, unless the name is none of those.
pub(super) fn answer(request: &CallToolRequestParams, context: &RequestContext<RoleServer>) -> Option<Answer> {
    let kind = request.name.strip_prefix("test_input_required_result_")?;
    let asked = match kind {
        "elicitation" => vec![("user_name", form("What is your name?", "name", "string"))],
        "sampling" => vec![("capital_question", sampling("What is the capital of France?"))],
        "list_roots" => vec![("client_roots", roots())],
        "request_state" | "tampered_state" => vec![("confirm", form("Please confirm", "ok", "boolean"))],
        "multiple_inputs" => vec![
            ("user_name", form("What is your name?", "name", "string")),
            ("greeting", sampling("Generate a greeting")),
            ("client_roots", roots()),
        ],
        "multi_round" => return Some(rounds(request)),
        "capabilities" => possible(context),
        _ => return None,
    };
    let keeps_state = matches!(kind, "request_state" | "tampered_state" | "multiple_inputs");
    let state = keeps_state.then(|| seal(kind, 1));
    Some(one_round(request, asked, state))
}

/// Asks once; answers when every response is there and the state is the one that was sent.
fn one_round(request: &CallToolRequestParams, asked: Vec<(&str, Value)>, state: Option<String>) -> Answer {
    if has_all(request.input_responses.as_ref(), asked.iter().map(|(key, _)| *key)) {
        if state.is_some() && request.request_state != state {
            return Err(changed());
        }
        return done(if state.is_some() { "state-ok" } else { "Thank you." });
    }
    require(asked, state)
}

/// Asks for a name, then for a color.
fn rounds(request: &CallToolRequestParams) -> Answer {
    let (first, second) = (seal("multi_round", 1), seal("multi_round", 2));
    let responses = request.input_responses.as_ref();
    match request.request_state.as_ref() {
        None => require(vec![("step1", form("Step 1: What is your name?", "name", "string"))], Some(first)),
        Some(state) if *state == first && has_all(responses, ["step1"]) => {
            require(vec![("step2", form("Step 2: What is your favorite color?", "color", "string"))], Some(second))
        }
        Some(state) if *state == second && has_all(responses, ["step2"]) => done("Thank you."),
        Some(_) => Err(changed()),
    }
}

/// What this client can be asked for.
fn possible(context: &RequestContext<RoleServer>) -> Vec<(&'static str, Value)> {
    let able = context.client_capabilities().unwrap_or_default();
    let mut asked = Vec::new();
    if able.elicitation.is_some() {
        asked.push(("user_name", form("What is your name?", "name", "string")));
    }
    if able.sampling.is_some() {
        asked.push(("capital_question", sampling("What is the capital of France?")));
    }
    asked
}

/// Whether each of these requests has a response that is an object.
pub(super) fn has_all<'a>(responses: Option<&InputResponses>, keys: impl IntoIterator<Item = &'a str>) -> bool {
    keys.into_iter().all(|key| responses.and_then(|all| all.get(key)).is_some_and(Value::is_object))
}

fn require(asked: Vec<(&str, Value)>, state: Option<String>) -> Answer {
    Ok(required(asked, state)?.into())
}

pub(super) fn required(asked: Vec<(&str, Value)>, state: Option<String>) -> Result<InputRequiredResult, ErrorData> {
    let requests: Result<InputRequests, ErrorData> =
        asked.into_iter().map(|(key, request)| Ok((key.to_owned(), parse::<InputRequest>(request)?))).collect();
    Ok(InputRequiredResult::new(Some(requests?), state))
}

/// A form with one field.
pub(super) fn form(message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": message, "requestedSchema": schema } })
}

fn sampling(text: &str) -> Value {
    let messages = json!([{ "role": "user", "content": { "type": "text", "text": text } }]);
    json!({ "method": "sampling/createMessage", "params": { "messages": messages, "maxTokens": 100 } })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

fn done(text: &str) -> Answer {
    complete::<CallToolResult>(json!({ "content": [{ "type": "text", "text": text }] })).map(CallToolResponse::from)
}

fn seal(kind: &str, round: u8) -> String {
    format!("{kind}.{round}.{:016x}", KEY.hash_one((kind, round)))
}

fn changed() -> ErrorData {
    ErrorData::invalid_params("This state was not made here. Call the tool again without it.", None)
}
