//! Runs a tool with the flow that the API runs for the same operation.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::json;
use service_api::{contents::Kind, errors::ErrorCode, page::MAX_LIMIT, scope, workspaces::Role};
use service_rules::space::{Requested, Right, SpaceAccess};

use crate::{
    app::App,
    flows::{
        contents::{
            self, Collection, Precondition, Target,
            confirmations::{self, DeletionOutcome},
            search,
        },
        whoami,
        workspaces::{
            self,
            enter_space::{self, Entered},
        },
    },
    http::{
        errors::{ApiError, error},
        mcp::{
            arguments::{Arguments, PageArguments},
            asking::{Asking, UserAnswer},
            guard::AdmittedCaller,
            tools::{self, Action, Tool},
        },
    },
    pagination::PageRequest,
};

/// Bytes of the contents on one page. A result holds them twice, as structured content and as a text for older clients, in
/// which quotation marks are escaped. So a page of any contents stays below 1 MB.
pub(super) const MAX_PAGE_BYTES: i64 = 300_000;

const DENIED: &str = "The user decided against the deletion. Don't ask again unless the user wants it.";

/// A call of a tool.
pub(super) struct Call<'a> {
    pub(super) app: &'a App,
    pub(super) admitted: &'a AdmittedCaller,
    pub(super) tool: &'static Tool,
    pub(super) asking: Asking,
}

impl Call<'_> {
    /// Runs the tool. A call that is refused says why in its result. `None`: something went wrong on our side, and the
    /// response is an error of HTTP.
    pub(super) async fn run(&self, arguments: Arguments) -> Option<CallToolResponse> {
        match self.act(arguments).await {
            Ok(response) => Some(response),
            Err(refused) if is_of_service(refused.code()) => {
                self.admitted.fail(refused);
                None
            }
            Err(refused) => Some(CallToolResult::error(vec![ContentBlock::text(refused.description())]).into()),
        }
    }

    /// Runs the tool, or asks the user back.
    async fn act(&self, mut arguments: Arguments) -> Result<CallToolResponse, ApiError> {
        let app = self.app;
        let actor = self.admitted.caller.actor();
        match self.tool.action {
            Action::ListWorkspaces => {
                let page: PageArguments = arguments.read()?;
                returned(workspaces::list(app, &actor, page.page()?).await?)
            }
            Action::Whoami => {
                let entered = self.enter(&mut arguments).await?;
                arguments.finish()?;
                returned(whoami::whoami(app, self.admitted.caller.credential(), &entered).await?)
            }
            Action::SearchPacks => {
                let entered = self.enter(&mut arguments).await?;
                let request = arguments.read()?;
                let _turn = app.search_turns.take(actor.user_id).await?;
                returned(search::search(app, &actor, entered.space, &request, MAX_PAGE_BYTES).await?)
            }
            Action::List(kind) => {
                let collection = self.collection(kind, &mut arguments).await?;
                let page: PageArguments = arguments.read()?;
                returned(contents::list(app, &actor, collection, page.page()?, MAX_PAGE_BYTES).await?)
            }
            Action::Get(kind) => {
                let id = arguments.take_required(&tools::id_argument(kind))?;
                let collection = self.collection(kind, &mut arguments).await?;
                arguments.finish()?;
                returned(contents::find(app, &actor, collection, &id).await?.content)
            }
            Action::Create(kind) => {
                if let Some(question) = self.choose_space(&mut arguments).await? {
                    return Ok(question);
                }
                let collection = self.collection(kind, &mut arguments).await?;
                let fields = arguments.into_fields();
                returned(contents::create(app, &actor, collection, &fields, None).await?.content)
            }
            Action::Update(kind) => {
                let id = arguments.take_required(&tools::id_argument(kind))?;
                let collection = self.collection(kind, &mut arguments).await?;
                let target = Target { id: &id, precondition: &Precondition::Any };
                let fields = arguments.into_fields();
                returned(contents::update(app, &actor, collection, target, &fields).await?.content)
            }
            Action::Delete(kind) => self.delete(kind, arguments).await,
        }
    }

    /// Deletes a content that its user has confirmed the deletion of, or asks the user to.
    async fn delete(&self, kind: Kind, mut arguments: Arguments) -> Result<CallToolResponse, ApiError> {
        let id = arguments.take_required(&tools::id_argument(kind))?;
        let confirmation = arguments.take_text("confirmation")?.or_else(|| self.asking.state.clone());
        let collection = self.collection(kind, &mut arguments).await?;
        arguments.finish()?;
        if let UserAnswer::Declined = self.asking.answer() {
            return Err(error(ErrorCode::Forbidden, DENIED));
        }
        let actor = self.admitted.caller.actor();
        match confirmations::delete_confirmed(self.app, &actor, collection, &id, confirmation.as_deref()).await? {
            DeletionOutcome::Deleted => returned(json!({ "id": id, "deleted": true })),
            DeletionOutcome::NotConfirmed(id) => Ok(self.asking.ask_confirmation(&self.app.config.base_url, id)),
            DeletionOutcome::Denied => Err(error(ErrorCode::Forbidden, DENIED)),
            DeletionOutcome::ChangedSince => Err(error(
                ErrorCode::PreconditionFailed,
                "It was changed after the user was asked. Call the tool again without a confirmation.",
            )),
            DeletionOutcome::UnknownConfirmation => Err(error(
                ErrorCode::NotFound,
                "This confirmation has expired, was used, or is for something else. Call the tool again without it.",
            )),
            DeletionOutcome::TooManyWaiting => Err(error(
                ErrorCode::Conflict,
                "50 deletions wait for the user's answer. Let the user confirm or deny some, or wait 10 minutes.",
            )),
        }
    }

    /// Asks the user where something is created, if nothing says it: neither the call, nor the URL, nor the token. If the
    /// client cannot ask, it is created in personal space.
    async fn choose_space(&self, arguments: &mut Arguments) -> Result<Option<CallToolResponse>, ApiError> {
        let actor = self.admitted.caller.actor();
        let is_open = arguments.names_no_space()
            && self.admitted.space == Requested::Nothing
            && actor.space_access == SpaceAccess::Anywhere(None);
        // A client that may not list workspaces is not shown them by a question either.
        if !is_open || !self.asking.can_show_forms() || !self.admitted.may_read(scope::Resource::Workspaces) {
            return Ok(None);
        }
        match self.asking.answer() {
            UserAnswer::Accepted(answer) => arguments.set_space(&answer["workspaceId"]),
            UserAnswer::Declined => {
                return Err(error(ErrorCode::InvalidRequest, "The user didn't say where. Nothing was created."));
            }
            UserAnswer::None => {
                let all = workspaces::list(self.app, &actor, PageRequest::first(MAX_LIMIT)).await?.data;
                let writable: Vec<_> = all.into_iter().filter(|workspace| workspace.role != Role::Viewer).collect();
                return Ok(Asking::ask_space(&writable));
            }
        }
        Ok(None)
    }

    /// Enters the space that the call names.
    async fn enter(&self, arguments: &mut Arguments) -> Result<Entered, ApiError> {
        let requested = arguments.take_space(self.admitted.space)?;
        let right = self.tool.scope.map_or(Right::Read, |scope: scope::Scope| scope.action.into());
        Ok(enter_space::enter_space(self.app, &self.admitted.caller.actor(), requested, right).await?)
    }

    async fn collection(&self, kind: Kind, arguments: &mut Arguments) -> Result<Collection, ApiError> {
        Ok(Collection { kind, space: self.enter(arguments).await?.space })
    }
}

fn returned(result: impl Serialize) -> Result<CallToolResponse, ApiError> {
    let value = serde_json::to_value(result).map_err(anyhow::Error::from)?;
    Ok(CallToolResult::structured(value).into())
}

/// Whether an error is not the caller's to repair.
pub(super) const fn is_of_service(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::ServerError | ErrorCode::TemporarilyUnavailable | ErrorCode::RateLimited)
}
