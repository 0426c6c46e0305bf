//! `POST /oauth/token`

use axum::{Extension, Json, extract::State, http::HeaderMap};
use service_api::oauth::{TokenRequest, TokenResponse};
use service_rules::clients::{self, GrantType};

use crate::{
    app::App,
    flows::{self, Asker},
    http::{body::Body, error::ApiError, oauth::client_authentication, refusals::GrantTypeRefusal},
};

/// Exchanges a grant for a pair of tokens.
pub async fn exchange(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    headers: HeaderMap,
    Body(request): Body<TokenRequest>,
) -> Result<Json<TokenResponse>, ApiError> {
    let mut request = request.without_empty();
    let client = client_authentication::presented(&headers, &mut request)?;
    let grant_type = request.grant_type.as_deref().ok_or(GrantTypeRefusal::Missing)?;
    let pair = match GrantType::parse(grant_type).ok_or(GrantTypeRefusal::Unsupported)? {
        GrantType::AuthorizationCode => flows::exchange_code::exchange_code(&app, &asker, &client, &request).await?,
        GrantType::Otp => flows::exchange_otp::exchange_otp(&app, &asker, &client, &request).await?,
        GrantType::RefreshToken => flows::refresh::refresh(&app, &asker, &client, &request, None).await?,
        GrantType::ClientCredentials => return Err(clients::Refusal::NotThisGrant.into()),
    };
    Ok(Json(pair))
}
