//! `POST /oauth/revoke`

use axum::{Extension, extract::State, http::HeaderMap};
use service_api::oauth::AboutToken;

use crate::{
    app::App,
    flows::{self, Asker},
    http::{body::Body, error::ApiError, oauth::client_authentication},
};

/// Ends the session that a token belongs to. The answer is the same whether there was one.
pub async fn revoke(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    headers: HeaderMap,
    Body(about): Body<AboutToken>,
) -> Result<(), ApiError> {
    let mut about = about.without_empty();
    let client = client_authentication::presented(&headers, &mut about)?;
    Ok(flows::revoke::revoke(&app, &asker, &client, &about).await?)
}
