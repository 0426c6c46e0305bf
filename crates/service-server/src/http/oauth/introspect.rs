//! `POST /oauth/introspect`

use axum::{Extension, Json, extract::State, http::HeaderMap};
use service_api::oauth::{AboutToken, Introspection};

use crate::{
    app::App,
    flows::{self, RequestMeta},
    http::{body::Body, errors::ApiError, oauth::client_authentication},
};

/// Introspects a token, for clients that may.
pub async fn introspect(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    headers: HeaderMap,
    Body(about): Body<AboutToken>,
) -> Result<Json<Introspection>, ApiError> {
    let mut about = about.without_empty();
    let client = client_authentication::presented(&headers, &mut about)?;
    Ok(Json(flows::oauth::introspect::introspect(&app, &meta, &client, &about).await?))
}
