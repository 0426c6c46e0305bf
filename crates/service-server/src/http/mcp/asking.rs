//! Asking the user back while a tool runs: by the client, if it can ask, else by a text that says what to do.

use rmcp::{
    RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams,
        ElicitationSchema, EnumSchema, InputRequest, InputRequests, InputRequiredResult, InputResponses,
        ProtocolVersion,
    },
    service::RequestContext,
};
use serde_json::Value;
use service_api::{ids::ConfirmationId, workspaces::Workspace};

/// The key of the one thing that is asked in a round.
const QUESTION: &str = "question";

/// What the client can ask its user, and what the user has answered.
pub(super) struct Asking {
    /// The client can show a form.
    form: bool,
    /// The client can open a page.
    url: bool,
    answers: InputResponses,
    /// What the service gave the client to send back.
    pub(super) state: Option<String>,
}

/// The answer of a user to a question.
pub(super) enum UserAnswer {
    /// The user was not asked yet.
    None,
    Accepted(Value),
    Declined,
}

impl Asking {
    /// Takes the answers out of a call. Only the newest revision lets a server ask back.
    pub(super) fn of(call: &mut CallToolRequestParams, context: &RequestContext<RoleServer>) -> Self {
        let is_new = context
            .protocol_version()
            .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        let can = context.client_capabilities().filter(|_| is_new).and_then(|can| can.elicitation);
        Self {
            // A client that names no mode can show forms.
            form: can.as_ref().is_some_and(|can| can.form.is_some() || can.url.is_none()),
            url: can.is_some_and(|can| can.url.is_some()),
            answers: call.input_responses.take().unwrap_or_default(),
            state: call.request_state.take(),
        }
    }

    pub(super) const fn can_show_forms(&self) -> bool {
        self.form
    }

    pub(super) fn answer(&self) -> UserAnswer {
        match self.answers.get(QUESTION) {
            None => UserAnswer::None,
            Some(answer) if answer["action"] == "accept" => UserAnswer::Accepted(answer["content"].clone()),
            Some(_) => UserAnswer::Declined,
        }
    }

    /// Asks in which space something is created. `None`: there is no choice.
    pub(super) fn ask_space(workspaces: &[Workspace]) -> Option<CallToolResponse> {
        if workspaces.is_empty() {
            return None;
        }
        let ids = workspaces.iter().map(|workspace| workspace.id.to_string());
        let names = workspaces.iter().map(|workspace| workspace.name.clone());
        let values: Vec<_> = std::iter::once("personal".to_owned()).chain(ids).collect();
        let titles: Vec<_> = std::iter::once("Personal space".to_owned()).chain(names).collect();
        let choice = EnumSchema::builder(values).enum_titles(titles).ok()?.build();
        let schema = ElicitationSchema::builder().required_enum_schema("workspaceId", choice).build().ok()?;
        let message = "Where should this be created?".to_owned();
        Some(ask(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema: schema }, None))
    }

    /// Asks the user to confirm a deletion on a page, or says what the user has to do.
    pub(super) fn ask_confirmation(&self, base_url: &str, id: ConfirmationId) -> CallToolResponse {
        let (id, url) = (id.to_string(), format!("{base_url}/confirm/{id}"));
        if self.url && self.state.is_none() {
            let message = "Confirm the deletion on this page.".to_owned();
            let elicitation_id = id.clone();
            let request = ElicitRequestParams::UrlElicitationParams { meta: None, message, url, elicitation_id };
            return ask(request, Some(id));
        }
        let text = format!(
            "Nothing was deleted yet. The user has to confirm the deletion at {url} within 10 minutes. Show the user this \
             link. Once the user has confirmed, call this tool again with the same arguments and confirmation \"{id}\"."
        );
        CallToolResult::error(vec![ContentBlock::text(text)]).into()
    }
}

fn ask(request: ElicitRequestParams, state: Option<String>) -> CallToolResponse {
    let question = InputRequest::Elicitation(ElicitRequest::new(request));
    let questions = InputRequests::from([(QUESTION.to_owned(), question)]);
    InputRequiredResult::new(Some(questions), state).into()
}
