//! `POST /oauth/token`

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderName, HeaderValue, header},
    response::IntoResponse,
};
use service_api::oauth::{TokenRequest, TokenResponse};
use service_rules::clients::{self, GrantType};

use crate::{
    app::App,
    flows::{self, Asker},
    http::{
        body::Body,
        error::{ApiError, GrantTypeRefusal},
    },
};

/// Exchanges a grant for a pair of tokens. The answer must never be stored on the way (RFC 6749 section 5.1).
pub async fn exchange(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Body(request): Body<TokenRequest>,
) -> Result<impl IntoResponse, ApiError> {
    let request = request.without_empty();
    let grant_type = request.grant_type.as_deref().ok_or(GrantTypeRefusal::Missing)?;
    let pair: TokenResponse = match GrantType::parse(grant_type).ok_or(GrantTypeRefusal::Unsupported)? {
        GrantType::Otp => flows::exchange_otp::exchange_otp(&app, &asker, &request).await?,
        GrantType::ClientCredentials => return Err(clients::Refusal::NotThisGrant.into()),
    };
    Ok((NOT_STORED, Json(pair)))
}

const NOT_STORED: [(HeaderName, HeaderValue); 2] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::PRAGMA, HeaderValue::from_static("no-cache")),
];
