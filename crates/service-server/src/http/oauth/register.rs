//! `POST /oauth/register`

use axum::{Extension, Json, extract::State};
use serde_json::{Value, json};
use service_api::{
    JsonObject,
    oauth::{CODE_GRANT, REFRESH_GRANT},
};
use service_rules::{client_links::ClientLinks, registration::Metadata};

use crate::{
    app::App,
    flows::{RequestMeta, oauth::register_client},
    http::{
        body::{self, Body},
        errors::ApiError,
    },
};

/// Registers a client. Every client that registers itself is public, whatever it requests; the response says so.
pub async fn register(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    Body(sent): Body<JsonObject>,
) -> Result<Json<Value>, ApiError> {
    let metadata: Metadata = body::typed(sent.into())?;
    let registered = register_client::register_client(&app, &meta, &metadata).await?;
    let mut answer = json!({
        "client_id": registered.id,
        "client_id_issued_at": registered.issued_at.as_second(),
        "client_name": registered.metadata.name.as_str(),
        "redirect_uris": registered.metadata.redirect_uris,
        "grant_types": [CODE_GRANT, REFRESH_GRANT],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    });
    let ClientLinks { website, policy, terms } = registered.metadata.links;
    for (name, link) in [("client_uri", website), ("policy_uri", policy), ("tos_uri", terms)] {
        if let Some(link) = link {
            answer[name] = json!(link);
        }
    }
    Ok(Json(answer))
}
