//! Answers the messages of MCP clients.

use std::panic::AssertUnwindSafe;

use axum::http::request::Parts;
use futures_util::FutureExt as _;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, ErrorCode,
        Implementation, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, Reference, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::json;
use service_api::errors::ErrorCode::NotFound;

use crate::{
    app::App,
    http::{
        errors::{ApiError, EdgeError},
        mcp::{
            arguments::Arguments,
            asking::Asking,
            calls::{self, Call},
            guard::AdmittedCaller,
            resources, tools,
        },
    },
    telemetry::{current_request, traces},
};

/// How long clients may keep lists that only an upgrade of the service changes.
const LIST_TTL_MS: u64 = 300_000;

const INSTRUCTIONS: &str = "Reads and writes the projects, packs, playbooks, cases and records of the signed-in user. \
    Everything is in a space: the user's personal space, or a workspace. Calls run in the space of this connection unless \
    they name another one as workspaceId; whoami shows which it is. Packs are reference texts: search them before you write \
    something new.";

/// The MCP server of one request.
pub(super) struct McpServer {
    app: App,
}

impl McpServer {
    pub(super) const fn new(app: App) -> Self {
        Self { app }
    }

    /// Makes an error of a flow the answer to a message.
    fn refused(admitted: &AdmittedCaller, refused: ApiError) -> ErrorData {
        if calls::is_of_service(refused.code()) {
            admitted.fail(refused);
            return failed();
        }
        ErrorData::new(ErrorCode::INVALID_PARAMS, refused.description().to_owned(), None)
    }
}

/// Works as long as the client waits. When the client has gone, `rmcp` would let the work continue, beside all limits on
/// requests. A panic is an error of this request.
async fn while_awaited<T>(
    context: &RequestContext<RoleServer>,
    admitted: &AdmittedCaller,
    work: impl Future<Output = Result<T, ErrorData>>,
) -> Result<T, ErrorData> {
    let work = current_request::within_same(admitted.request.clone(), work);
    tokio::select! {
        biased;
        () = context.ct.cancelled() => Err(failed()),
        done = AssertUnwindSafe(work).catch_unwind() => done.unwrap_or_else(|_panic| {
            admitted.fail(EdgeError::Defect.into());
            Err(failed())
        }),
    }
}

/// The answer to a message whose response becomes an error of HTTP.
fn failed() -> ErrorData {
    ErrorData::internal_error("The service failed.", None)
}

/// The caller whom the guard admitted.
fn admitted(context: &RequestContext<RoleServer>) -> Result<AdmittedCaller, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    parts.and_then(|parts| parts.extensions.get().cloned()).ok_or_else(failed)
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().enable_completions().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("service", env!("CARGO_PKG_VERSION")).with_title("Service"))
            .with_instructions(INSTRUCTIONS)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::find(name).map(|tool| tool.described.clone())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // Every caller sees every tool: a client can only ask its user for more scopes if it knows what needs them.
        let all = tools::ALL.iter().map(|tool| tool.described.clone()).collect();
        Ok(ListToolsResult::with_all_items(all).with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let admitted = admitted(&context)?;
        let asking = Asking::of(&mut request, &context);
        let Some(tool) = tools::find(&request.name) else {
            return Err(ErrorData::invalid_params("There is no tool of this name. List them with tools/list.", None));
        };
        let call = Call { app: &self.app, admitted: &admitted, tool, asking };
        let run = async {
            traces::name_flow(&tool.described.name);
            call.run(Arguments::new(request.arguments)).await.ok_or_else(failed)
        };
        let response = while_awaited(&context, &admitted, run).await;
        let outcome = match &response {
            Ok(CallToolResponse::Complete(result)) if result.is_error == Some(true) => "refused",
            Ok(CallToolResponse::Complete(_)) => "succeeded",
            Ok(_) => "asked",
            Err(_) => "failed",
        };
        self.app.metrics.tool_called(&tool.described.name, outcome);
        response
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let admitted = admitted(&context)?;
        let cursor = request.and_then(|request| request.cursor);
        let list = async {
            let listed = resources::list(&self.app, &admitted, cursor.as_deref()).await;
            listed.map_err(|refused| Self::refused(&admitted, refused))
        };
        while_awaited(&context, &admitted, list).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let all = ListResourceTemplatesResult::with_all_items(vec![resources::template()]);
        Ok(all.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let admitted = admitted(&context)?;
        let read = async {
            match resources::read(&self.app, &admitted, &request.uri).await {
                Ok(Some(read)) => Ok(read.into()),
                Ok(None) => Err(not_found(&request.uri)),
                Err(refused) if refused.code() == NotFound => Err(not_found(&request.uri)),
                Err(refused) => Err(Self::refused(&admitted, refused)),
            }
        };
        while_awaited(&context, &admitted, read).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let admitted = admitted(&context)?;
        let Reference::Resource(_) = request.r#ref else { return Ok(CompleteResult::default()) };
        let chosen = request.context.as_ref().and_then(|context| context.get_argument("space"));
        let complete = async {
            let space = chosen.map(String::as_str);
            let completed = resources::complete(&self.app, &admitted, &request.argument, space).await;
            Ok(CompleteResult::new(completed.map_err(|refused| Self::refused(&admitted, refused))?))
        };
        while_awaited(&context, &admitted, complete).await
    }
}

fn not_found(uri: &str) -> ErrorData {
    let text = "There is no resource with this URI. List them with resources/list.";
    ErrorData::resource_not_found(text, Some(json!({ "uri": uri })))
}
