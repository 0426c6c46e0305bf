//! Signing in, and the OAuth endpoints.

use serde_json::Value;

use super::{
    Access::{Client, Public},
    operation::{operations, post},
};
use crate::{
    JsonObject,
    errors::ErrorCode::*,
    oauth::{AboutToken, Introspection, TokenRequest, TokenResponse},
    openapi::Shape,
    sign_in::{LoginOptions, LoginOptionsRequest, OtpRequest, OtpRequested},
};

operations! {
    /// Get the sign-in methods of an email address
    LOGIN_OPTIONS(SignIn, "loginOptions"): LoginOptionsRequest => LoginOptions =
        post("/v1/login-options", Public).takes().returns(200).fails(&[RateLimited]);

    /// Send a one-time code to an email address
    OTP_TOKENS(SignIn, "requestCode"): OtpRequest => OtpRequested =
        post("/v1/otp-tokens", Public).takes().returns(201).fails(&[InvalidClient, UnauthorizedClient, RateLimited]);

    /// Exchange a code or a refresh token for tokens
    TOKEN(SignIn, "exchange"): TokenRequest => TokenResponse = post("/oauth/token", Public).takes().or_form().returns(200).fails(&[
        InvalidGrant,
        UnsupportedGrantType,
        UnauthorizedClient,
        InvalidScope,
        InvalidTarget,
        InvalidClient,
        RateLimited,
    ]);

    /// Revoke a token
    REVOKE(Oauth, "revoke"): AboutToken => () =
        post("/oauth/revoke", Public).takes().or_form().fails(&[InvalidGrant, InvalidClient, RateLimited]);

    /// Introspect a token
    INTROSPECT(Oauth, "introspect"): AboutToken => Introspection =
        post("/oauth/introspect", Client).takes().or_form().returns(200).fails(&[InvalidClient, RateLimited]);

    /// Register a client (RFC 7591)
    REGISTER(Oauth, "registerClient"): JsonObject => Value = post("/oauth/register", Public)
        .takes_shape(Shape::Standard)
        .returns_shape(201, Shape::Standard)
        .fails(&[InvalidRedirectUri, InvalidClientMetadata, RateLimited]);
}
