//! Reads an authorization request, and writes the response that goes back to its client (RFC 6749, 7636, 9207).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use service_api::scope::Scopes;

use crate::{clients::Client, redirect, resources::Resource, scopes};

/// Bytes of the longest `state` that is accepted.
const MAX_STATE_BYTES: usize = 2_048;
/// Bytes of the longest email address. A longer `login_hint` is ignored.
const MAX_LOGIN_HINT_BYTES: usize = 254;
/// Characters of a SHA-256 in base64url.
const CHALLENGE_LENGTH: usize = 43;
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The parameters that name the client and where its response goes.
const TARGET_PARAMETERS: [&str; 2] = ["client_id", "redirect_uri"];
/// The other parameters that may occur at most once.
const SINGLE_PARAMETERS: [&str; 12] = [
    "response_type",
    "state",
    "scope",
    "code_challenge",
    "code_challenge_method",
    "response_mode",
    "prompt",
    "max_age",
    "login_hint",
    "request",
    "request_uri",
    "nonce",
];

/// The parameters of an authorization request, as the client sent them.
pub struct Parameters<'a>(pub &'a [(String, String)]);

impl<'a> Parameters<'a> {
    fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        // A parameter without a value counts as left out (RFC 6749 section 3.1).
        self.0.iter().filter(move |(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// Whether the parameters name a client, so that they are an authorization request.
    #[must_use]
    pub fn has_client(&self) -> bool {
        self.get("client_id").is_some()
    }

    /// The connection through which the user is to sign in. `None`: it is missing or repeated.
    #[must_use]
    pub fn connection(&self) -> Option<&'a str> {
        self.get("connection").filter(|_| !self.occurs_twice("connection"))
    }

    /// The parameters that this service reads. They can be stored and judged later; other parameters are dropped.
    #[must_use]
    pub fn known(&self) -> Vec<(String, String)> {
        let known =
            |name: &str| TARGET_PARAMETERS.contains(&name) || SINGLE_PARAMETERS.contains(&name) || name == "resource";
        self.0.iter().filter(|(name, _)| known(name)).cloned().collect()
    }

    /// Whether a parameter is repeated. Only `resource` may be.
    fn occurs_twice(&self, name: &str) -> bool {
        self.0.iter().filter(|(known, _)| known == name).count() > 1
    }
}

/// Why no response can be sent to a client: the client or its redirect URI is not known (RFC 6749 section 4.1.2.1).
///
/// The user sees the error on a page instead, so that this service is no open redirector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    #[error("the client is unknown")]
    UnknownClient,
    #[error("the client is disabled")]
    DisabledClient,
    /// The redirect URI is not registered for the client, or the client has several and the request names none.
    #[error("the redirect URI is not registered")]
    UnregisteredUri,
    #[error("client_id or redirect_uri is repeated")]
    Repeated,
}

/// The client of a request, and the redirect URI that its response goes to.
pub struct RedirectTarget<'c> {
    pub client: &'c Client,
    pub redirect_uri: String,
}

/// The id of the client that sent a request.
///
/// # Errors
/// The parameter is missing, or the request repeats it or its redirect URI.
pub fn client_id<'a>(parameters: &Parameters<'a>) -> Result<&'a str, RedirectError> {
    if TARGET_PARAMETERS.iter().any(|name| parameters.occurs_twice(name)) {
        return Err(RedirectError::Repeated);
    }
    parameters.get("client_id").ok_or(RedirectError::UnknownClient)
}

/// Finds where the response to a request goes. Until this is known, no browser may be redirected.
///
/// # Errors
/// The client is unknown or disabled, or the redirect URI is not registered for it.
pub fn find_target<'c>(
    parameters: &Parameters<'_>,
    client: Option<&'c Client>,
) -> Result<RedirectTarget<'c>, RedirectError> {
    let client = client.ok_or(RedirectError::UnknownClient)?;
    if client.disabled {
        return Err(RedirectError::DisabledClient);
    }
    let redirect_uri = match (parameters.get("redirect_uri"), client.redirect_uris.as_slice()) {
        (Some(asked), registered) if registered.iter().any(|known| redirect::matches(known, asked)) => asked,
        // A URI that could not be registered today gets no response either.
        (None, [only]) if redirect::matches(only, only) => only,
        _ => return Err(RedirectError::UnregisteredUri),
    };
    Ok(RedirectTarget { client, redirect_uri: redirect_uri.to_owned() })
}

/// A request that was read. It is stored while the user signs in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuthorizationRequest {
    pub client_id: String,
    pub redirect_uri: String,
    pub state: Option<String>,
    pub scopes: Scopes,
    pub audience: String,
    pub challenge: String,
    pub prompt: Prompt,
    pub max_age: Option<i64>,
    /// The email address that the client expects the user to sign in with.
    #[serde(default)]
    pub login_hint: Option<String>,
}

/// What the client wants the user to be prompted for (`prompt`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// The user must not be prompted at all.
    pub none: bool,
    /// The user has to sign in again.
    pub login: bool,
    /// The user has to consent again.
    pub consent: bool,
}

/// Why a client gets an error response (RFC 6749 section 4.1.2.1, OpenID Connect Core section 3.1.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizationRequestError {
    #[error("invalid_request: {0}")]
    InvalidRequest(&'static str),
    #[error("unsupported_response_type")]
    UnsupportedResponseType,
    #[error("invalid_scope")]
    InvalidScope,
    #[error("invalid_target")]
    InvalidTarget,
    #[error("request_not_supported")]
    RequestNotSupported,
    #[error("request_uri_not_supported")]
    RequestUriNotSupported,
    #[error("login_required")]
    LoginRequired,
    #[error("consent_required")]
    ConsentRequired,
    #[error("access_denied")]
    AccessDenied,
}

impl AuthorizationRequestError {
    /// The value of `error`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::InvalidRequest(_) => "invalid_request",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::InvalidScope => "invalid_scope",
            Self::InvalidTarget => "invalid_target",
            Self::RequestNotSupported => "request_not_supported",
            Self::RequestUriNotSupported => "request_uri_not_supported",
            Self::LoginRequired => "login_required",
            Self::ConsentRequired => "consent_required",
            Self::AccessDenied => "access_denied",
        }
    }

    /// The value of `error_description`, for the client's developer.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::InvalidRequest(what) => what,
            Self::UnsupportedResponseType => "Send response_type=code.",
            Self::InvalidScope => "Unknown scopes. Request read or write, or leave scope out.",
            Self::InvalidTarget => "Unknown resource. The protected resource metadata lists the known ones.",
            Self::RequestNotSupported => "Request objects aren't supported. Send the parameters instead of request.",
            Self::RequestUriNotSupported => {
                "Request objects aren't supported. Send the parameters instead of request_uri."
            }
            Self::LoginRequired => "The user isn't signed in, and prompt=none doesn't allow a prompt.",
            Self::ConsentRequired => "The user hasn't consented yet, and prompt=none doesn't allow a prompt.",
            Self::AccessDenied => "The user denied access.",
        }
    }
}

/// The `state` that every response carries. `None`: it is absent, repeated or too long to be sent back unchanged.
#[must_use]
pub fn state(parameters: &Parameters<'_>) -> Option<String> {
    let usable = |state: &&str| state.len() <= MAX_STATE_BYTES && !parameters.occurs_twice("state");
    parameters.get("state").filter(usable).map(str::to_owned)
}

/// The email address that a client expects the user to sign in with.
#[must_use]
pub fn login_hint<'a>(parameters: &Parameters<'a>) -> Option<&'a str> {
    parameters.get("login_hint").filter(|hint| hint.len() <= MAX_LOGIN_HINT_BYTES)
}

/// Whether a request forbids every prompt (`prompt=none`).
#[must_use]
pub fn is_silent(parameters: &Parameters<'_>) -> bool {
    parameters.all("prompt").any(|prompt| prompt.split(' ').any(|word| word == "none"))
}

/// Reads the rest of a request, once its client and redirect URI are known.
///
/// # Errors
/// The error response that the client gets.
pub fn read(
    parameters: &Parameters<'_>,
    to: &RedirectTarget<'_>,
    base_url: &str,
) -> Result<AuthorizationRequest, AuthorizationRequestError> {
    if SINGLE_PARAMETERS.iter().any(|name| parameters.occurs_twice(name)) {
        return Err(AuthorizationRequestError::InvalidRequest("A parameter is repeated. Send each one once."));
    }
    if parameters.get("request").is_some() {
        return Err(AuthorizationRequestError::RequestNotSupported);
    }
    if parameters.get("request_uri").is_some() {
        return Err(AuthorizationRequestError::RequestUriNotSupported);
    }
    match parameters.get("response_type") {
        Some("code") => {}
        Some(_) => return Err(AuthorizationRequestError::UnsupportedResponseType),
        None => {
            return Err(AuthorizationRequestError::InvalidRequest(
                "response_type is missing. Send response_type=code.",
            ));
        }
    }
    if parameters.get("response_mode").is_some_and(|mode| mode != "query") {
        return Err(AuthorizationRequestError::InvalidRequest("Only response_mode=query is supported."));
    }
    if parameters.get("state").is_some_and(|state| state.len() > MAX_STATE_BYTES) {
        return Err(AuthorizationRequestError::InvalidRequest("state must not be longer than 2048 bytes."));
    }
    let usual = if to.client.is_for_mcp() { Resource::Mcp } else { Resource::Api };
    let resource = Resource::of_all(parameters.all("resource"), base_url, usual)
        .ok_or(AuthorizationRequestError::InvalidTarget)?;
    Ok(AuthorizationRequest {
        client_id: to.client.id.clone(),
        redirect_uri: to.redirect_uri.clone(),
        state: state(parameters),
        scopes: read_scopes(parameters.get("scope"))?,
        audience: resource.audience(base_url),
        challenge: challenge(parameters)?.to_owned(),
        prompt: prompt(parameters.get("prompt"))?,
        max_age: max_age(parameters.get("max_age"))?,
        login_hint: login_hint(parameters).map(str::to_owned),
    })
}

fn read_scopes(text: Option<&str>) -> Result<Scopes, AuthorizationRequestError> {
    // RFC 6749 section 3.3: printable ASCII without quotation marks and backslashes.
    let known = |byte: u8| byte == b' ' || (byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
    if !text.unwrap_or_default().bytes().all(known) {
        return Err(AuthorizationRequestError::InvalidScope);
    }
    scopes::grant(text).map_err(|_| AuthorizationRequestError::InvalidScope)
}

fn challenge<'a>(parameters: &Parameters<'a>) -> Result<&'a str, AuthorizationRequestError> {
    let missing = "code_challenge is missing. Every client has to use PKCE with S256.";
    let challenge = parameters.get("code_challenge").ok_or(AuthorizationRequestError::InvalidRequest(missing))?;
    if parameters.get("code_challenge_method") != Some("S256") {
        return Err(AuthorizationRequestError::InvalidRequest("code_challenge_method must be S256."));
    }
    let of_its_form = challenge.len() == CHALLENGE_LENGTH
        && challenge.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    of_its_form
        .then_some(challenge)
        .ok_or(AuthorizationRequestError::InvalidRequest("code_challenge must be a SHA-256 in base64url."))
}

fn prompt(text: Option<&str>) -> Result<Prompt, AuthorizationRequestError> {
    let words: Vec<_> = text.unwrap_or_default().split(' ').filter(|word| !word.is_empty()).collect();
    let known = ["none", "login", "select_account", "consent"];
    if !words.iter().all(|word| known.contains(word)) {
        return Err(AuthorizationRequestError::InvalidRequest(
            "Unknown prompt. Supported values are none, login and consent.",
        ));
    }
    let has = |word| words.contains(&word);
    if has("none") && words.len() > 1 {
        return Err(AuthorizationRequestError::InvalidRequest("prompt=none can't be combined with other values."));
    }
    Ok(Prompt { none: has("none"), login: has("login") || has("select_account"), consent: has("consent") })
}

fn max_age(text: Option<&str>) -> Result<Option<i64>, AuthorizationRequestError> {
    let seconds = |text: &str| text.parse::<u32>().ok().map(i64::from);
    text.map(|text| {
        seconds(text).ok_or(AuthorizationRequestError::InvalidRequest("max_age must be a number of seconds."))
    })
    .transpose()
}

/// Whether a text has the form of a code verifier (RFC 7636 section 4.1).
#[must_use]
pub fn is_verifier(text: &str) -> bool {
    (43..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

/// What an authorization response says.
pub enum AuthorizationResponse<'a> {
    Code(&'a str),
    Error(AuthorizationRequestError),
}

/// The URL that a browser is redirected to with a response.
///
/// All responses are written here, so each has `iss` (RFC 9207) and none inherits a fragment.
#[must_use]
pub fn response_url(
    redirect_uri: &str,
    state: Option<&str>,
    base_url: &str,
    response: &AuthorizationResponse<'_>,
) -> String {
    let mut pairs = match response {
        AuthorizationResponse::Code(code) => vec![("code", *code)],
        AuthorizationResponse::Error(error) => {
            vec![("error", error.code()), ("error_description", error.description())]
        }
    };
    pairs.extend(state.map(|state| ("state", state)));
    pairs.push(("iss", base_url));
    let encode = |text| utf8_percent_encode(text, UNRESERVED).to_string();
    let query: Vec<_> = pairs.into_iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    let mark = if redirect_uri.contains('?') { '&' } else { '?' };
    format!("{redirect_uri}{mark}{}#_", query.join("&"))
}
