//! `POST /oauth/register`

use axum::{Extension, Json, extract::State, http::StatusCode};
use serde_json::{Value, json};
use service_api::oauth::{CODE_GRANT, REFRESH_GRANT};
use service_rules::registration::Metadata;

use crate::{
    app::App,
    flows::{Asker, register_client},
    http::{body::Body, error::ApiError},
};

/// Every client that registers itself is public, whatever it asked for; the answer says so.
pub async fn register(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Body(metadata): Body<Metadata>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let registered = register_client::register(&app, &asker, &metadata).await?;
    let answer = json!({
        "client_id": registered.id,
        "client_id_issued_at": registered.issued_at.as_second(),
        "client_name": registered.said.name,
        "redirect_uris": registered.said.redirect_uris,
        "grant_types": [CODE_GRANT, REFRESH_GRANT],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    });
    Ok((StatusCode::CREATED, Json(answer)))
}
