//! The workspace that a command about single sign-on is for.

use serde::Serialize;
use serde_json::json;
use service_api::{ids::WorkspaceId, token::AccessToken};
use service_client::{Client, Error};

use super::{NamedSpace, members::current_workspace};
use crate::{connection::Connection, context::Context, failure::Failure, prompt};

/// The current workspace of a command, and the connection to its service.
pub(super) struct Place<'a> {
    pub(super) context: &'a Context,
    pub(super) connection: Connection,
    pub(super) id: WorkspaceId,
    pub(super) space: NamedSpace,
}

impl<'a> Place<'a> {
    /// Finds the current workspace. Fails in the personal space, which lacks what the command is about.
    pub(super) async fn open(context: &'a Context, about: &str) -> Result<Self, Failure> {
        let connection = Connection::open(context)?;
        let (id, space) = current_workspace(context, &connection, about).await?;
        Ok(Self { context, connection, id, space })
    }

    pub(super) async fn call<T>(
        &self,
        call: impl AsyncFn(&Client, &AccessToken) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        self.connection.call(self.context, call).await
    }

    pub(super) async fn confirm(&self, action: &str, question: &str) -> Result<bool, Failure> {
        prompt::confirm_action(self.context.terminal(), self.context.global.yes, action, question).await
    }

    /// Prints a result with its workspace.
    pub(super) fn print(&self, key: &str, value: &impl Serialize, lines: &str) -> Result<(), Failure> {
        let workspace = json!({ "id": self.space.id, "name": self.space.name });
        self.context.output.result(&json!({ key: value, "workspace": workspace }), lines)
    }
}
