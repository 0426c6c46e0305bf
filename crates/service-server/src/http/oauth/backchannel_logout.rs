//! `POST /sso/backchannel-logout/{connectionId}`

use axum::{Extension, extract::State};
use serde::Deserialize;
use service_api::token::PresentedToken;

use crate::{
    app::App,
    flows::{RequestMeta, sso::backchannel_logout},
    http::{
        body::Body,
        errors::{ApiError, oauth::missing_parameter},
        path::PathId,
    },
};

/// What a provider posts. Providers may send more, which is ignored.
#[derive(Deserialize)]
pub struct LogoutRequest {
    logout_token: Option<PresentedToken>,
}

/// Signs the user out whom a logout token names.
pub async fn receive(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(connection_id): PathId,
    Body(request): Body<LogoutRequest>,
) -> Result<(), ApiError> {
    let token = request.logout_token.ok_or_else(|| missing_parameter("logout_token"))?;
    Ok(backchannel_logout::receive(&app, &meta, &connection_id, &token).await?)
}
