//! `/v1/mcp/tokens`

use axum::{Extension, Json, extract::State, http::StatusCode};
use service_api::mcp_tokens::{CreateMcpTokens, McpTokens, RefreshMcpTokens};

use crate::{
    app::App,
    flows::{self, Asker, maker::Maker},
    http::{
        body::Body,
        caller::{McpBearer, SignedIn, Tokens, Write},
        error::ApiError,
        refusals,
    },
};

pub async fn create(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: SignedIn<Write<Tokens>>,
    Body(request): Body<CreateMcpTokens>,
) -> Result<(StatusCode, Json<McpTokens>), ApiError> {
    let maker = Maker::by_token(caller.credential(), caller.session, &asker);
    let created = flows::mcp_tokens::create(&app, &maker, &request).await;
    Ok((StatusCode::CREATED, Json(created.map_err(|failure| refusals::mcp_tokens(failure, &app.config.base_url))?)))
}

pub async fn refresh(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    McpBearer(bearer): McpBearer,
    Body(request): Body<RefreshMcpTokens>,
) -> Result<Json<McpTokens>, ApiError> {
    Ok(Json(flows::mcp_tokens::refresh(&app, &asker, bearer, request.refresh_token).await?))
}
