//! `POST /oauth/introspect`

use axum::{Extension, Json, extract::State, http::HeaderMap};
use service_api::oauth::{AboutToken, Introspection};

use crate::{
    app::App,
    flows::{self, Asker},
    http::{body::Body, error::ApiError, oauth::client_authentication},
};

/// What a token is worth now, for clients that prove themselves and were made for it.
pub async fn introspect(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    headers: HeaderMap,
    Body(about): Body<AboutToken>,
) -> Result<Json<Introspection>, ApiError> {
    let mut about = about.without_empty();
    let client = client_authentication::presented(&headers, &mut about)?;
    Ok(Json(flows::introspect::introspect(&app, &asker, &client, &about).await?))
}
