//! The bridge between standard input and output and the MCP endpoint. It passes messages on as they are.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use serde_json::Value;
use service_api::{oauth::SERVICE_MCP, scope::Scopes, token::McpRefresh};
use service_client::{Client, Error, McpResponse, Session, SessionError};
use tokio::sync::Notify;

use super::message::{Message, failure_answer};
use crate::{
    clock,
    context::session_failed,
    credentials::SavedMcpTokens,
    explain,
    failure::{Failure, FailureCode},
    output,
};

pub(super) struct Bridge {
    client: Client,
    saved: SavedMcpTokens,
    session: Session<SavedMcpTokens, McpRefresh>,
    /// The revision that `initialize` has negotiated.
    negotiated: RefCell<Option<String>>,
    /// The requests that are not answered yet, by their ID.
    running: RefCell<HashMap<String, Rc<Notify>>>,
    is_closed: Cell<bool>,
    closed: Notify,
}

/// Why a message was not answered by the server.
#[derive(Debug, thiserror::Error)]
enum ForwardError {
    /// The client has cancelled the request, and expects no answer.
    #[error("the client has cancelled the request")]
    Cancelled,
    #[error("the request failed")]
    Failed(Failure),
}

impl Bridge {
    pub(super) fn new(client: Client, saved: SavedMcpTokens) -> Self {
        let session = Session::new(client.clone(), SERVICE_MCP, saved.clone(), clock::now);
        Self {
            client,
            saved,
            session,
            negotiated: RefCell::default(),
            running: RefCell::default(),
            is_closed: Cell::new(false),
            closed: Notify::new(),
        }
    }

    /// Waits until standard output is closed.
    pub(super) async fn output_closed(&self) {
        self.closed.notified().await;
    }

    /// Writes an answer of the bridge itself.
    pub(super) fn write(&self, answer: &Value) {
        self.write_line(answer.to_string().as_bytes());
    }

    fn write_line(&self, message: &[u8]) {
        if !self.is_closed.get() && output::print_message_line(message).is_err() {
            self.is_closed.set(true);
            self.closed.notify_one();
        }
    }

    /// Stops the request that a message cancels. The server notices that the connection is closed.
    pub(super) fn cancel(&self, message: &Message) {
        let id = message.cancels.as_ref().map(Value::to_string);
        if let Some(running) = id.and_then(|id| self.running.borrow_mut().remove(&id)) {
            running.notify_one();
        }
    }

    /// Sends a message to the server, and writes every message of its response. A request is always answered.
    pub(super) async fn forward(&self, message: &Message, line: Vec<u8>) {
        let cancelled = Rc::new(Notify::new());
        let id = message.id.as_ref().map(Value::to_string);
        if let Some(id) = &id {
            self.running.borrow_mut().insert(id.clone(), cancelled.clone());
        }
        let result = self.exchange(message, &line, &cancelled).await;
        if let Some(id) = &id {
            self.running.borrow_mut().remove(id);
        }
        match (result, &message.id) {
            (Err(ForwardError::Failed(failure)), Some(id)) => self.write(&failure_answer(id, &failure)),
            // Nothing answers a notification, so the failure is only logged.
            (Err(ForwardError::Failed(failure)), None) => output::print_instruction(&failure.message),
            (Ok(()) | Err(ForwardError::Cancelled), _) => {}
        }
    }

    async fn exchange(&self, message: &Message, line: &[u8], cancelled: &Notify) -> Result<(), ForwardError> {
        let headers = message.headers(self.negotiated.borrow().as_deref());
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        // Only the request is cancelled, never a refresh of the tokens.
        let sent = self.session.call(async |token| {
            tokio::select! {
                sent = self.client.post_mcp(token, line.to_vec(), &headers) => sent.map(Some),
                () = cancelled.notified() => Ok(None),
            }
        });
        let response = sent.await.map_err(|error| self.explain(error))?;
        let mut response = response.ok_or(ForwardError::Cancelled)?;
        let mut is_answered = false;
        while let Some(received) = self.next_message(&mut response, cancelled).await? {
            is_answered |= self.pass_on(message, &received);
        }
        if message.id.is_some() && !is_answered {
            let text = "The service sent no answer. Try again.";
            return Err(ForwardError::Failed(Failure::new(FailureCode::RequestFailed, text)));
        }
        Ok(())
    }

    async fn next_message(
        &self,
        response: &mut McpResponse,
        cancelled: &Notify,
    ) -> Result<Option<Vec<u8>>, ForwardError> {
        tokio::select! {
            next = response.next() => next.map_err(|error| self.explain(SessionError::Call(error))),
            () = cancelled.notified() => Err(ForwardError::Cancelled),
        }
    }

    /// Writes a message of the server. Returns whether it answers the request.
    fn pass_on(&self, message: &Message, received: &[u8]) -> bool {
        let Ok(mut parsed) = serde_json::from_slice::<Value>(received) else { return false };
        if message.method.as_deref() == Some("initialize")
            && let Some(version) = parsed["result"]["protocolVersion"].as_str()
        {
            *self.negotiated.borrow_mut() = Some(version.to_owned());
        }
        let Some(id) = &message.id else {
            // A response to a message without an ID is an error that the client could not relate to anything.
            output::print_instruction(&format!("The service rejected a message: {}", parsed["error"]["message"]));
            return false;
        };
        if parsed.get("error").is_some() && parsed["id"].is_null() {
            // The server could not read the ID of the request; the client needs it.
            parsed["id"] = id.clone();
            self.write(&parsed);
            return true;
        }
        self.write_line(received);
        parsed["id"] == *id && parsed.get("method").is_none()
    }

    fn explain(&self, error: SessionError) -> ForwardError {
        ForwardError::Failed(match error {
            SessionError::NotSignedIn => explain::no_mcp_tokens(&self.saved.origin),
            SessionError::Ended(reason) => explain::mcp_tokens_ended(reason),
            SessionError::SsoAgain(connection_id) => explain::sso_again(&self.saved.origin, connection_id),
            SessionError::Store(_) | SessionError::Busy => session_failed(error),
            SessionError::Call(error) => self.explain_call(&error),
        })
    }

    fn explain_call(&self, error: &Error) -> Failure {
        let record = self.saved.record().ok().flatten();
        explain::explain_mcp(&self.saved.origin, error, record.map_or(Scopes::NONE, |record| record.scopes))
    }
}
