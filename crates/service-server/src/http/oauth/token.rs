//! `POST /oauth/token`

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, HeaderValue, header},
};
use service_api::oauth::{TokenRequest, TokenResponse};
use service_rules::clients::{self, GrantType};

use crate::{
    app::App,
    flows::{self, Asker},
    http::{
        body::Body,
        error::{ApiError, GrantTypeRefusal, Unreadable},
    },
};

/// Exchanges a grant for a pair of tokens.
pub async fn exchange(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    headers: HeaderMap,
    Body(request): Body<TokenRequest>,
) -> Result<Json<TokenResponse>, ApiError> {
    let request = request.without_empty();
    check_client_authentication(&headers, &request)?;
    let grant_type = request.grant_type.as_deref().ok_or(GrantTypeRefusal::Missing)?;
    let pair = match GrantType::parse(grant_type).ok_or(GrantTypeRefusal::Unsupported)? {
        GrantType::Otp => flows::exchange_otp::exchange_otp(&app, &asker, &request).await?,
        GrantType::ClientCredentials => return Err(clients::Refusal::NotThisGrant.into()),
    };
    Ok(Json(pair))
}

/// Every client so far is public: one that authenticates is not the one that was registered, and one that does so
/// twice is not to be understood.
fn check_client_authentication(headers: &HeaderMap, request: &TokenRequest) -> Result<(), ApiError> {
    let is_basic =
        |value: &HeaderValue| value.as_bytes().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic"));
    match (headers.get_all(header::AUTHORIZATION).iter().any(is_basic), request.client_secret.is_some()) {
        (true, true) => Err(Unreadable::Body("The client authenticates in two ways; use one.".into()).into()),
        (true, false) => Err(clients::Refusal::NotThisClient.into()),
        (false, _) => Ok(()),
    }
}
