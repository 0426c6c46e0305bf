//! `/v1/mcp/tokens`

use axum::{Extension, Json, extract::State};
use service_api::mcp_tokens::{CreateMcpTokens, McpTokens, RefreshMcpTokens};

use crate::{
    app::App,
    flows::{self, RequestMeta},
    http::{
        body::Body,
        caller::{McpBearer, RecentUserSession, Tokens, Write},
        errors::{ApiError, api},
        query::{self, Query},
    },
};

pub async fn create(
    State(app): State<App>,
    caller: RecentUserSession<Write<Tokens>>,
    query: Query,
    Body(mut request): Body<CreateMcpTokens>,
) -> Result<Json<McpTokens>, ApiError> {
    request.workspace_id = query::one_workspace(request.workspace_id, &query)?;
    let created = flows::tokens::mcp_tokens::create(&app, &caller.actor(), caller.sign_in, &request).await;
    Ok(Json(created.map_err(|failure| api::mcp_tokens(failure, &app.config.base_url))?))
}

pub async fn refresh(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    McpBearer(bearer): McpBearer,
    Body(request): Body<RefreshMcpTokens>,
) -> Result<Json<McpTokens>, ApiError> {
    Ok(Json(flows::tokens::mcp_tokens::refresh(&app, &meta, bearer, request.refresh_token).await?))
}
