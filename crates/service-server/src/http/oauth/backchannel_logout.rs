//! `POST /sso/backchannel-logout/{connectionId}`

use axum::{Extension, extract::State};
use serde::Deserialize;
use service_api::token::PresentedToken;

use crate::{
    app::App,
    flows::{RequestMeta, sso::backchannel_logout},
    http::{body::Body, errors::ApiError, path::PathId},
};

/// What a provider posts. Providers may send more, which is ignored.
#[derive(Deserialize)]
pub struct LogoutRequest {
    logout_token: PresentedToken,
}

/// Signs the user out whom a logout token names.
pub async fn receive(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(connection_id): PathId,
    Body(request): Body<LogoutRequest>,
) -> Result<(), ApiError> {
    Ok(backchannel_logout::receive(&app, &meta, &connection_id, &request.logout_token).await?)
}
