//! `POST /oauth/token`

use axum::{Extension, Json, extract::State, http::HeaderMap};
use service_api::oauth::{TokenRequest, TokenResponse};
use service_rules::clients::GrantType;

use crate::{
    app::App,
    flows::{
        RequestMeta,
        oauth::{
            authorization_code_grant, otp_grant, refresh_grant,
            token_error::{InvalidTokenRequest, TokenError},
        },
    },
    http::{body::Body, errors::ApiError, oauth::client_authentication},
};

/// Exchanges a grant for a pair of tokens.
pub async fn exchange(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    headers: HeaderMap,
    Body(request): Body<TokenRequest>,
) -> Result<Json<TokenResponse>, ApiError> {
    let mut request = request.without_empty();
    let client = client_authentication::presented(&headers, &mut request)?;
    let grant_type = request.grant_type.as_deref().ok_or(InvalidTokenRequest::MissingParameter("grant_type"))?;
    let pair = match GrantType::parse(grant_type).ok_or(TokenError::UnsupportedGrantType)? {
        GrantType::AuthorizationCode => authorization_code_grant::exchange_code(&app, &meta, &client, &request).await?,
        GrantType::Otp => otp_grant::exchange_otp(&app, &meta, &client, &request).await?,
        GrantType::RefreshToken => refresh_grant::refresh(&app, &meta, &client, &request, None).await?,
        GrantType::ClientCredentials => return Err(TokenError::UnauthorizedClient.into()),
    };
    Ok(Json(pair))
}
