//! `service doctor --mcp`: checks an MCP endpoint from outside, as MCP clients see it. It sends only requests without a token,
//! and creates nothing.

use std::process::ExitCode;

use serde_json::json;
use service_api::endpoints;
use service_client::{Client, PublicResponse};
use url::Url;

use super::{
    check::{Check, report},
    mcp_cors, mcp_documents,
};
use crate::{
    context::Context,
    explain,
    failure::{Failure, FailureCode},
    origin::Origin,
};

/// A message as a client of any revision could send it first.
pub(super) const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
pub(super) const JSON: (&str, &str) = ("content-type", "application/json");
pub(super) const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");

/// An MCP endpoint, and the context to reach servers with.
pub(super) struct Target<'a> {
    pub(super) context: &'a Context,
    pub(super) origin: Origin,
    pub(super) path: String,
}

impl Target<'_> {
    /// The URL of the endpoint, which is also the resource of its tokens.
    pub(super) fn url(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }

    /// The path of the metadata of the endpoint: the well-known path, before the path of the endpoint (RFC 9728).
    pub(super) fn metadata_path(&self) -> String {
        format!("{}{}", mcp_documents::RESOURCE_METADATA, self.path)
    }

    /// Sends a request to the server of the endpoint.
    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Result<PublicResponse, String> {
        send(self.context, &self.origin, Request { method, path, headers, body }).await
    }
}

/// A request without a token.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: Option<&'a str>,
}

/// Sends a request. The error is a sentence for the user.
pub(super) async fn send(
    context: &Context,
    origin: &Origin,
    Request { method, path, headers, body }: Request<'_>,
) -> Result<PublicResponse, String> {
    let client: Client = context.client(origin).map_err(|failure| failure.message)?;
    let sent = context.spin_while(client.public(method, path, headers, body)).await;
    sent.map_err(|error| explain::explain_error(origin, &error).message)
}

/// Sends a request to a URL that a document names.
pub(super) async fn send_to(context: &Context, url: &str, request: Request<'_>) -> Result<PublicResponse, String> {
    let (origin, path) = split_url(url).ok_or_else(|| format!("{url} isn't an https URL. Correct the base URL."))?;
    send(context, &origin, Request { path: &path, ..request }).await
}

/// The origin of a URL, and its path with the query.
pub(super) fn split_url(url: &str) -> Option<(Origin, String)> {
    let parsed = Url::parse(url).ok()?;
    let origin = Origin::parse(&parsed.origin().ascii_serialization()).ok()?;
    let query = parsed.query().map(|query| format!("?{query}")).unwrap_or_default();
    Some((origin, format!("{}{query}", parsed.path())))
}

pub(in crate::commands) async fn run(context: &Context, url: Option<&str>) -> Result<ExitCode, Failure> {
    let url = match url {
        Some(url) => url.to_owned(),
        None => format!("{}{}", context.origin()?, endpoints::MCP.path()),
    };
    let target = parse_target(context, &url)?;
    let mut checks = vec![check_https(&target)];
    match target.send("POST", &target.path, &[JSON, ACCEPT], Some(PING)).await {
        Err(message) => checks.push(Check::required("reachable", Err(message))),
        Ok(response) => {
            checks.extend(check_challenge(&target, &response));
            checks.extend(mcp_documents::check(&target).await);
            checks.extend(mcp_cors::check(&target).await);
        }
    }
    report(context, &checks, json!({ "url": target.url() }))
}

/// Parses the URL of an endpoint. The URL of a server stands for its `/mcp`.
fn parse_target<'a>(context: &'a Context, text: &str) -> Result<Target<'a>, Failure> {
    let invalid = |why: &str| {
        Failure::new(FailureCode::Usage, format!("The URL of the MCP endpoint {why}."))
            .hint("service doctor --mcp https://service.example/mcp")
    };
    let url = Url::parse(text).map_err(|_| invalid("is invalid"))?;
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("must not have a query, a fragment or a user"));
    }
    let origin = Origin::parse(&url.origin().ascii_serialization())
        .map_err(|_| invalid("must start with https://, because clients send it tokens"))?;
    let path = if url.path() == "/" { endpoints::MCP.path().to_owned() } else { url.path().to_owned() };
    Ok(Target { context, origin, path })
}

fn check_https(target: &Target<'_>) -> Check {
    let url = target.url();
    if url.starts_with("https://") {
        return Check::required("https", Ok(format!("{url} uses https")));
    }
    let text = format!("{url} uses plain http, which clients only accept on this computer");
    Check::optional("https", Err(text))
}

/// Checks the response to a request without a token: it tells a client where to sign in.
fn check_challenge(target: &Target<'_>, response: &PublicResponse) -> Vec<Check> {
    let url = target.url();
    let challenge = response.header("www-authenticate").unwrap_or_default();
    let is_bearer = challenge.to_ascii_lowercase().starts_with("bearer");
    let result = match response.status {
        401 if is_bearer => Ok(format!("{url} asks for a token (401)")),
        401 => Err(format!(
            "{url} answers 401 without `WWW-Authenticate: Bearer`, so clients don't know where to sign in. Check that no \
             proxy removes the header"
        )),
        404 | 405 => Err(format!(
            "No MCP endpoint answers at {url} ({}). Check the URL, and that the proxy forwards POST requests",
            response.status
        )),
        status @ 300..=399 => {
            Err(format!("{url} redirects ({status}). Clients don't follow redirects: use the URL that it redirects to"))
        }
        403 => Err(format!(
            "{url} answers 403 to a request without a token. Clients sign in only after a 401. Check for a firewall or a \
             bot protection in front of it"
        )),
        status => Err(format!("{url} answers {status} to a request without a token. It has to answer 401")),
    };
    let has_challenge = result.is_ok();
    let mut checks = vec![Check::required("challenge", result)];
    if has_challenge {
        let expected = format!("{}{}", target.origin, target.metadata_path());
        checks.push(Check::required("challenge-metadata", check_metadata_url(&challenge, &expected)));
        checks.push(Check::required("challenge-scope", check_scope(&challenge)));
        checks.push(Check::required("challenge-error", check_no_error(&challenge)));
    }
    checks
}

fn check_metadata_url(challenge: &str, expected: &str) -> Result<String, String> {
    match parameter(challenge, "resource_metadata") {
        Some(named) if named == expected => Ok("The challenge names the metadata of the endpoint".to_owned()),
        Some(named) => {
            Err(format!("The challenge names {named} instead of {expected}. Set base_url to the public URL"))
        }
        None => Err(format!("The challenge has no resource_metadata. It has to name {expected}")),
    }
}

fn check_scope(challenge: &str) -> Result<String, String> {
    match parameter(challenge, "scope") {
        Some(scope) => Ok(format!("The challenge names the scope to request ({scope})")),
        None => Err("The challenge has no scope, so clients guess which scopes to request".to_owned()),
    }
}

fn check_no_error(challenge: &str) -> Result<String, String> {
    match parameter(challenge, "error") {
        None => Ok("The challenge reports no error for a request without a token".to_owned()),
        Some(error) => Err(format!(
            "The challenge says error=\"{error}\" although no token was sent, so clients discard tokens that they have. It \
             has to leave the error out"
        )),
    }
}

/// The value of a parameter of a challenge, as the SDKs find it: the first match, quoted or not.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let (_, rest) = challenge.split_once(&format!("{name}="))?;
    let value = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split([' ', ',']).next(),
    };
    value.filter(|value| !value.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_as_the_sdks_find_them() {
        let challenge = r#"Bearer resource_metadata="https://a.example/x", scope="read write", error=invalid_token"#;
        assert_eq!(parameter(challenge, "resource_metadata").unwrap(), "https://a.example/x");
        assert_eq!(parameter(challenge, "scope").unwrap(), "read write");
        assert_eq!(parameter(challenge, "error").unwrap(), "invalid_token");
        assert_eq!(parameter("Bearer scope=\"\"", "scope"), None);
        assert_eq!(parameter("Bearer", "scope"), None);
    }
}
