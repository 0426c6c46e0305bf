//! What an authorization request asks for, and the answer that goes back to its client (RFC 6749, 7636, 9207).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use service_api::scope::Scopes;

use crate::{clients::Client, redirect, resources::Resource, scopes};

const LONGEST_STATE: usize = 2_048;
/// A SHA-256 in base64url.
const CHALLENGE_LENGTH: usize = 43;
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The parameters of a request, as they were sent.
pub struct Parameters<'a>(pub &'a [(String, String)]);

impl<'a> Parameters<'a> {
    fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        // A parameter without a value counts as left out (RFC 6749 section 3.1).
        self.0.iter().filter(move |(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// Only `resource` may be there several times.
    fn occurs_twice(&self, name: &str) -> bool {
        self.0.iter().filter(|(known, _)| known == name).count() > 1
    }
}

/// Why a request is answered to the person rather than to a client: there is no client whom it could be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoClient {
    Unknown,
    Disabled,
    /// The redirect URI is not one of the client's, or the client has several and the request names none.
    RedirectUri,
    Repeated,
}

/// Who asks: a client of ours, and where its answer goes.
pub struct Addressed<'c> {
    pub client: &'c Client,
    pub redirect_uri: String,
}

/// The name of the client that a request is from.
pub fn client_id<'a>(parameters: &Parameters<'a>) -> Result<&'a str, NoClient> {
    if parameters.occurs_twice("client_id") || parameters.occurs_twice("redirect_uri") {
        return Err(NoClient::Repeated);
    }
    parameters.get("client_id").ok_or(NoClient::Unknown)
}

/// Where the answer to a request goes. Until this is known, nothing is sent anywhere.
pub fn address<'c>(parameters: &Parameters<'_>, client: Option<&'c Client>) -> Result<Addressed<'c>, NoClient> {
    let client = client.ok_or(NoClient::Unknown)?;
    if client.disabled {
        return Err(NoClient::Disabled);
    }
    let redirect_uri = match (parameters.get("redirect_uri"), client.redirect_uris.as_slice()) {
        (Some(asked), registered) if registered.iter().any(|known| redirect::matches(known, asked)) => asked,
        (None, [only]) => only,
        _ => return Err(NoClient::RedirectUri),
    };
    Ok(Addressed { client, redirect_uri: redirect_uri.to_owned() })
}

/// What a client asked for, as it is kept while the person signs in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    pub client_id: String,
    pub redirect_uri: String,
    pub state: Option<String>,
    pub scopes: Scopes,
    pub audience: String,
    pub challenge: String,
    pub prompt: Prompt,
    pub max_age: Option<i64>,
}

/// What the person is to be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// Nothing: they may not be asked at all.
    pub none: bool,
    /// To sign in again.
    pub login: bool,
    /// To agree again.
    pub consent: bool,
}

/// Why a client is refused, as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    InvalidRequest(&'static str),
    UnsupportedResponseType,
    InvalidScope,
    InvalidTarget,
    RequestNotSupported,
    RequestUriNotSupported,
    LoginRequired,
    ConsentRequired,
    AccessDenied,
}

impl Refusal {
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

    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::InvalidRequest(what) => what,
            Self::UnsupportedResponseType => "Send response_type=code.",
            Self::InvalidScope => "None of these scopes exist; ask for read or write, or leave scope out.",
            Self::InvalidTarget => "There is no such resource here; see the protected resource metadata.",
            Self::RequestNotSupported => "Send the parameters themselves instead of request.",
            Self::RequestUriNotSupported => "Send the parameters themselves instead of request_uri.",
            Self::LoginRequired => "Nobody is signed in, and prompt=none forbids asking.",
            Self::ConsentRequired => "This person has not agreed yet, and prompt=none forbids asking.",
            Self::AccessDenied => "The person did not agree.",
        }
    }
}

/// The `state` that every answer carries; none if it cannot be sent back as it came.
#[must_use]
pub fn state(parameters: &Parameters<'_>) -> Option<String> {
    let usable = |state: &&str| state.len() <= LONGEST_STATE && !parameters.occurs_twice("state");
    parameters.get("state").filter(usable).map(str::to_owned)
}

/// Reads the rest of a request, of whose client and redirect URI nothing is in doubt any more.
pub fn read(parameters: &Parameters<'_>, to: &Addressed<'_>, base_url: &str) -> Result<Request, Refusal> {
    let once = [
        "response_type",
        "state",
        "scope",
        "code_challenge",
        "code_challenge_method",
        "response_mode",
        "prompt",
        "max_age",
        "request",
        "request_uri",
        "nonce",
    ];
    if once.iter().any(|name| parameters.occurs_twice(name)) {
        return Err(Refusal::InvalidRequest("A parameter occurs twice; send each once."));
    }
    if parameters.get("request").is_some() {
        return Err(Refusal::RequestNotSupported);
    }
    if parameters.get("request_uri").is_some() {
        return Err(Refusal::RequestUriNotSupported);
    }
    match parameters.get("response_type") {
        Some("code") => {}
        Some(_) => return Err(Refusal::UnsupportedResponseType),
        None => return Err(Refusal::InvalidRequest("response_type is missing; send response_type=code.")),
    }
    if parameters.get("response_mode").is_some_and(|mode| mode != "query") {
        return Err(Refusal::InvalidRequest("Only response_mode=query is served."));
    }
    if parameters.get("state").is_some_and(|state| state.len() > LONGEST_STATE) {
        return Err(Refusal::InvalidRequest("state is longer than 2048 bytes."));
    }
    let usual = if to.client.is_for_mcp() { Resource::Mcp } else { Resource::Api };
    let resource = Resource::of_all(parameters.all("resource"), base_url, usual).ok_or(Refusal::InvalidTarget)?;
    Ok(Request {
        client_id: to.client.id.clone(),
        redirect_uri: to.redirect_uri.clone(),
        state: state(parameters),
        scopes: read_scopes(parameters.get("scope"))?,
        audience: resource.audience(base_url),
        challenge: challenge(parameters)?.to_owned(),
        prompt: prompt(parameters.get("prompt"))?,
        max_age: max_age(parameters.get("max_age"))?,
    })
}

fn read_scopes(text: Option<&str>) -> Result<Scopes, Refusal> {
    // RFC 6749 section 3.3: printable ASCII without quotation marks and backslashes.
    let known = |byte: u8| byte == b' ' || (byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
    if !text.unwrap_or_default().bytes().all(known) {
        return Err(Refusal::InvalidScope);
    }
    scopes::grant(text).map_err(|_| Refusal::InvalidScope)
}

fn challenge<'a>(parameters: &Parameters<'a>) -> Result<&'a str, Refusal> {
    let missing = "code_challenge is missing; every client uses PKCE with S256.";
    let challenge = parameters.get("code_challenge").ok_or(Refusal::InvalidRequest(missing))?;
    if parameters.get("code_challenge_method") != Some("S256") {
        return Err(Refusal::InvalidRequest("code_challenge_method is not S256."));
    }
    let of_its_form = challenge.len() == CHALLENGE_LENGTH
        && challenge.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    of_its_form.then_some(challenge).ok_or(Refusal::InvalidRequest("code_challenge is not a SHA-256 in base64url."))
}

fn prompt(text: Option<&str>) -> Result<Prompt, Refusal> {
    let words: Vec<_> = text.unwrap_or_default().split(' ').filter(|word| !word.is_empty()).collect();
    let known = ["none", "login", "select_account", "consent"];
    if !words.iter().all(|word| known.contains(word)) {
        return Err(Refusal::InvalidRequest("prompt is not understood; known are none, login and consent."));
    }
    let has = |word| words.contains(&word);
    if has("none") && words.len() > 1 {
        return Err(Refusal::InvalidRequest("prompt=none goes with nothing else."));
    }
    Ok(Prompt { none: has("none"), login: has("login") || has("select_account"), consent: has("consent") })
}

fn max_age(text: Option<&str>) -> Result<Option<i64>, Refusal> {
    let seconds = |text: &str| text.parse::<u32>().ok().map(i64::from);
    text.map(|text| seconds(text).ok_or(Refusal::InvalidRequest("max_age is not a number of seconds."))).transpose()
}

/// Whether this is a code verifier (RFC 7636 section 4.1).
#[must_use]
pub fn is_verifier(text: &str) -> bool {
    (43..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

/// What a client is told in the end.
pub enum Answer<'a> {
    Code(&'a str),
    Refused(Refusal),
}

/// The address that an answer goes to. All answers are written here, so none lacks `iss`, and none inherits a fragment.
#[must_use]
pub fn response(redirect_uri: &str, state: Option<&str>, base_url: &str, answer: &Answer<'_>) -> String {
    let mut pairs = match answer {
        Answer::Code(code) => vec![("code", *code)],
        Answer::Refused(refusal) => vec![("error", refusal.code()), ("error_description", refusal.description())],
    };
    pairs.extend(state.map(|state| ("state", state)));
    pairs.push(("iss", base_url));
    let encode = |text| utf8_percent_encode(text, UNRESERVED).to_string();
    let query: Vec<_> = pairs.into_iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    let mark = if redirect_uri.contains('?') { '&' } else { '?' };
    format!("{redirect_uri}{mark}{}#_", query.join("&"))
}
