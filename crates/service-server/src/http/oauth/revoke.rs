//! `POST /oauth/revoke`

use axum::{Extension, extract::State, http::HeaderMap};
use service_api::oauth::AboutToken;

use crate::{
    app::App,
    flows::{self, RequestMeta},
    http::{body::Body, errors::ApiError, oauth::client_authentication},
};

/// Revokes the session of a token. The response does not say whether there was one.
pub async fn revoke(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    headers: HeaderMap,
    Body(about): Body<AboutToken>,
) -> Result<(), ApiError> {
    let mut about = about.without_empty();
    let client = client_authentication::presented(&headers, &mut about)?;
    Ok(flows::oauth::revoke::revoke_token(&app, &meta, &client, &about).await?)
}
