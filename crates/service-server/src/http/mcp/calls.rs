//! Runs a tool with the flow that the API runs for the same operation.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Value, json};
use service_api::{contents::Kind, errors::ErrorCode, scope};
use service_rules::space::Right;

use crate::{
    app::App,
    flows::{
        contents::{self, Collection, Precondition, Target, search},
        whoami,
        workspaces::{
            self,
            enter_space::{self, Entered},
        },
    },
    http::{
        errors::ApiError,
        mcp::{
            arguments::{Arguments, PageArguments},
            guard::AdmittedCaller,
            tools::{self, Action, Tool},
        },
    },
};

/// Bytes of the contents on one page. A result holds them twice, as structured content and as a text for older clients, in
/// which quotation marks are escaped. So a page of any contents stays below 1 MB.
pub(super) const MAX_PAGE_BYTES: i64 = 300_000;

/// A call of a tool.
pub(super) struct Call<'a> {
    pub(super) app: &'a App,
    pub(super) admitted: &'a AdmittedCaller,
    pub(super) tool: &'static Tool,
}

impl Call<'_> {
    /// Runs the tool. A call that is refused says why in its result. `None`: something went wrong on our side, and the
    /// response is an error of HTTP.
    pub(super) async fn run(&self, arguments: Arguments) -> Option<CallToolResponse> {
        match self.result(arguments).await {
            Ok(value) => Some(CallToolResult::structured(value).into()),
            Err(refused) if is_of_service(refused.code()) => {
                self.admitted.fail(refused);
                None
            }
            Err(refused) => Some(CallToolResult::error(vec![ContentBlock::text(refused.description())]).into()),
        }
    }

    async fn result(&self, mut arguments: Arguments) -> Result<Value, ApiError> {
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
            Action::Delete(kind) => {
                let id = arguments.take_required(&tools::id_argument(kind))?;
                let collection = self.collection(kind, &mut arguments).await?;
                let target = Target { id: &id, precondition: &Precondition::Any };
                contents::delete(app, &actor, collection, target).await?;
                Ok(json!({ "id": id, "deleted": true }))
            }
        }
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

fn returned(result: impl Serialize) -> Result<Value, ApiError> {
    serde_json::to_value(result).map_err(|error| anyhow::Error::from(error).into())
}

/// Whether an error is not the caller's to repair.
pub(super) const fn is_of_service(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::ServerError | ErrorCode::TemporarilyUnavailable | ErrorCode::RateLimited)
}
