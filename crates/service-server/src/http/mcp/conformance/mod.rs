//! The tools, prompts and resources that the official MCP conformance suite calls, in front of the service's own.
//!
//! Only builds with the feature `mcp-conformance` have them, and such a build is never a release: see the check below.

mod content;
mod input;
mod tools;

use std::borrow::Cow;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, GetPromptRequestParams,
        GetPromptResponse, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, Reference,
        ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

#[cfg(not(debug_assertions))]
compile_error!("the feature mcp-conformance is for tests: build without it, or without optimization");

/// A server with the fixtures of the suite. Whatever is not a fixture goes to the server within.
pub(super) struct Fixtures<H>(H);

impl<H> From<H> for Fixtures<H> {
    fn from(server: H) -> Self {
        Self(server)
    }
}

type Context = RequestContext<RoleServer>;

impl<H: ServerHandler> ServerHandler for Fixtures<H> {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.0.get_info();
        let capabilities = &mut info.capabilities;
        capabilities.prompts.get_or_insert_default();
        capabilities.resources.get_or_insert_default();
        capabilities.completions.get_or_insert_default();
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.0.supported_protocol_versions()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.0.list_tools(request, context).await?;
        if listed.next_cursor.is_none() {
            listed.tools.extend(tools::all()?);
        }
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let fixture = tools::all().ok()?.into_iter().find(|tool| tool.name == name);
        fixture.or_else(|| self.0.get_tool(name))
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        if let Some(answer) = input::answer(&request, &context) {
            return answer;
        }
        match tools::call(&request.name, &context).await {
            Some(result) => result.map(CallToolResponse::from),
            None => self.0.call_tool(request, context).await,
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut listed = self.0.list_prompts(request, context).await?;
        listed.prompts.extend(content::prompts()?);
        Ok(listed)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        match content::prompt(&request) {
            Some(prompt) => prompt,
            None => self.0.get_prompt(request, context).await,
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut listed = self.0.list_resources(request, context).await?;
        if listed.next_cursor.is_none() {
            listed.resources.extend(content::resources()?);
        }
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut listed = self.0.list_resource_templates(request, context).await?;
        listed.resource_templates.extend(content::templates()?);
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match content::resource(&request.uri) {
            Some(read) => read.map(ReadResourceResponse::from),
            None => self.0.read_resource(request, context).await,
        }
    }

    async fn complete(&self, request: CompleteRequestParams, context: Context) -> Result<CompleteResult, ErrorData> {
        match &request.r#ref {
            Reference::Prompt(prompt) if prompt.name.starts_with("test_") => Ok(CompleteResult::default()),
            _ => self.0.complete(request, context).await,
        }
    }
}

/// Reads a value of the protocol from its JSON, in which fixtures are written down.
fn parse<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("A fixture is wrong: {error}"), None))
}

/// Reads a final result from its JSON.
fn complete<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    if let Some(fields) = value.as_object_mut() {
        fields.insert("resultType".to_owned(), "complete".into());
    }
    parse(value)
}
