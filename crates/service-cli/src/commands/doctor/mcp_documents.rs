//! Checks the documents by which MCP clients discover an authorization server, and the errors of its endpoints.

use serde_json::Value;
use service_client::PublicResponse;
use url::Url;

use super::{
    check::Check,
    mcp::{JSON, Request, Target, send_to, split_url},
};

/// The well-known path of the metadata of a protected resource (RFC 9728).
pub(super) const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource";
/// The well-known path of the metadata of an authorization server (RFC 8414).
const SERVER_METADATA: &str = "/.well-known/oauth-authorization-server";
/// A well-known path that no service has. Clients derive such paths from URLs that they guess.
const UNKNOWN_PATH: &str = "/.well-known/oauth-protected-resource/no-such-resource";
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

pub(super) async fn check(target: &Target<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    let metadata = read_document(target, &target.metadata_path()).await;
    let url = target.url();
    checks.push(Check::required("resource-metadata", metadata.as_ref().map_err(Clone::clone).and_then(|metadata| {
        match metadata["resource"].as_str() {
            Some(resource) if resource == url => Ok(format!("Its metadata names the resource {url}")),
            other => Err(format!(
                "Its metadata names the resource {} instead of {url}, so clients refuse it. Use the URL that the service \
                 has in base_url, without a slash at the end",
                other.unwrap_or("(none)")
            )),
        }
    })));
    let issuer = metadata.as_ref().ok().and_then(|metadata| metadata["authorization_servers"][0].as_str());
    let root = read_document(target, RESOURCE_METADATA).await;
    checks.push(Check::required("resource-metadata-root", check_root(root.as_ref(), issuer)));
    let unknown = target.send("GET", UNKNOWN_PATH, &[], None).await;
    checks.push(Check::required("unknown-well-known", check_unknown(unknown)));
    let Some(issuer) = issuer else {
        let text = "The metadata of the endpoint names no authorization server (authorization_servers is empty)";
        checks.push(Check::required("authorization-server", Err(text.to_owned())));
        return checks;
    };
    let server = read_server_metadata(target, issuer).await;
    checks.push(Check::required(
        "authorization-server",
        match &server {
            Ok(_) => Ok(format!("The authorization server {issuer} has metadata")),
            Err(message) => Err(message.clone()),
        },
    ));
    let mut documents: Vec<_> = [metadata.as_ref(), root.as_ref()].into_iter().flatten().collect();
    if let Ok(server) = &server {
        documents.push(server);
        checks.extend(check_server(target, issuer, server).await);
    }
    checks.push(Check::required("null-members", check_nulls(&documents)));
    checks
}

/// Reads a JSON object from the server of the endpoint. The error is a sentence for the user.
async fn read_document(target: &Target<'_>, path: &str) -> Result<Value, String> {
    let url = format!("{}{path}", target.origin);
    parse_document(&url, target.send("GET", path, &[("accept", "application/json")], None).await)
}

/// Reads the metadata of an authorization server at the place that RFC 8414 names.
async fn read_server_metadata(target: &Target<'_>, issuer: &str) -> Result<Value, String> {
    let (origin, path) = split_url(issuer).ok_or_else(|| {
        format!("The authorization server {issuer} isn't an https URL. Set base_url to the public URL")
    })?;
    let url = format!("{origin}{SERVER_METADATA}{}", path.trim_end_matches('/'));
    let request = Request { method: "GET", path: "", headers: &[("accept", "application/json")], body: None };
    parse_document(&url, send_to(target.context, &url, request).await)
}

fn parse_document(url: &str, response: Result<PublicResponse, String>) -> Result<Value, String> {
    let response = response?;
    if response.status != 200 {
        let status = response.status;
        return Err(format!("{url} answers {status} instead of 200. Check that the proxy forwards /.well-known/"));
    }
    match serde_json::from_slice::<Value>(&response.body) {
        Ok(document) if document.is_object() && is_json(&response) => Ok(document),
        _ => Err(format!(
            "{url} isn't a JSON document (Content-Type: application/json). Check that the proxy forwards it"
        )),
    }
}

fn is_json(response: &PublicResponse) -> bool {
    response.header("content-type").is_some_and(|kind| kind.to_ascii_lowercase().starts_with("application/json"))
}

/// Checks the metadata without a path, which some clients read instead.
fn check_root(root: Result<&Value, &String>, issuer: Option<&str>) -> Result<String, String> {
    let named = root.map_err(Clone::clone)?["authorization_servers"][0].as_str();
    if named.is_some() && named == issuer {
        return Ok("The metadata without a path names the same authorization server".to_owned());
    }
    Err(format!(
        "{RESOURCE_METADATA} names the authorization server {} and the metadata of the endpoint names {}. They have to be \
         the same",
        named.unwrap_or("(none)"),
        issuer.unwrap_or("(none)")
    ))
}

/// Checks that a document that does not exist is a JSON 404. Clients take anything else for a document.
fn check_unknown(response: Result<PublicResponse, String>) -> Result<String, String> {
    let response = response?;
    let parsed = serde_json::from_slice::<Value>(&response.body);
    if response.status == 404 && is_json(&response) && parsed.is_ok() {
        return Ok("An unknown well-known document is a JSON 404".to_owned());
    }
    let kind = response.header("content-type").unwrap_or_else(|| "no Content-Type".to_owned());
    Err(format!(
        "An unknown well-known document is answered with {} ({kind}) instead of a JSON 404, which clients take for a \
         document. Check that no proxy answers for the service",
        response.status
    ))
}

async fn check_server(target: &Target<'_>, issuer: &str, server: &Value) -> Vec<Check> {
    let named = server["issuer"].as_str().unwrap_or("(none)");
    let has = |name: &str, value: &str| {
        server[name].as_array().is_some_and(|values| values.iter().any(|found| found == value))
    };
    let issuer = if named == issuer {
        Ok("The issuer is the same in both documents".to_owned())
    } else {
        Err(format!(
            "The authorization server names itself {named} instead of {issuer}. Strict clients stop here: both have to be \
             the same, character by character"
        ))
    };
    let pkce = if has("code_challenge_methods_supported", "S256") {
        Ok("PKCE with S256 is supported".to_owned())
    } else {
        Err("code_challenge_methods_supported doesn't list S256, so clients refuse to sign in".to_owned())
    };
    let iss = if server["authorization_response_iss_parameter_supported"] == true {
        Ok("Authorization responses name their issuer".to_owned())
    } else {
        Err("authorization_response_iss_parameter_supported isn't true, so clients can't detect mixed-up servers"
            .to_owned())
    };
    vec![
        Check::required("issuer", issuer),
        Check::required("endpoints", check_endpoints(server)),
        Check::required("pkce", pkce),
        Check::optional("iss-parameter", iss),
        Check::required("registration", check_registration(target, server).await),
        Check::required("token-errors", check_token_errors(target, server).await),
    ]
}

/// Checks that the endpoints for signing in are URLs that clients accept.
fn check_endpoints(server: &Value) -> Result<String, String> {
    for name in ["authorization_endpoint", "token_endpoint"] {
        let url = server[name].as_str().ok_or_else(|| format!("The authorization server has no {name}"))?;
        if split_url(url).is_none() || Url::parse(url).is_ok_and(|url| url.fragment().is_some()) {
            return Err(format!("The {name} {url} isn't an https URL. Set base_url to the public URL"));
        }
    }
    Ok("The endpoints for signing in use https".to_owned())
}

/// Checks that a client can register. The request is invalid, so nothing is registered.
async fn check_registration(target: &Target<'_>, server: &Value) -> Result<String, String> {
    let by_document = server["client_id_metadata_document_supported"] == true;
    let Some(url) = server["registration_endpoint"].as_str() else {
        return if by_document {
            Ok("Clients register by metadata document (no registration_endpoint, which older clients need)".to_owned())
        } else {
            Err("Clients can't register: there is no registration_endpoint, and \
                 client_id_metadata_document_supported isn't true"
                .to_owned())
        };
    };
    let request = Request { method: "POST", path: "", headers: &[JSON], body: Some(r#"{"redirect_uris":[]}"#) };
    let response = send_to(target.context, url, request).await?;
    let error = json_error(&response);
    match (response.status, error) {
        (400, Some(_)) if by_document => Ok("Clients can register, dynamically and by metadata document".to_owned()),
        (400, Some(_)) => Ok("Clients can register dynamically (but not by metadata document)".to_owned()),
        (status, _) => Err(format!(
            "{url} answers {status} to an invalid registration instead of a JSON 400. Check that the proxy forwards it, and \
             that registration is enabled"
        )),
    }
}

/// Checks that errors of the token endpoint are JSON. Clients sign in again for any other response.
async fn check_token_errors(target: &Target<'_>, server: &Value) -> Result<String, String> {
    let Some(url) = server["token_endpoint"].as_str() else { return Err("There is no token_endpoint".to_owned()) };
    let request = Request { method: "POST", path: "", headers: &[FORM], body: Some("grant_type=none") };
    let response = send_to(target.context, url, request).await?;
    match (response.status, json_error(&response)) {
        (400 | 401, Some(_)) => Ok("Errors of the token endpoint are JSON".to_owned()),
        (status, _) => Err(format!(
            "{url} answers {status} to an invalid request instead of a JSON error, so clients ask users to sign in again. \
             Check that no proxy answers for the service"
        )),
    }
}

/// The `error` of a JSON error response.
fn json_error(response: &PublicResponse) -> Option<String> {
    let body: Value = serde_json::from_slice(&response.body).ok().filter(|_| is_json(response))?;
    body["error"].as_str().map(str::to_owned)
}

/// Checks that no member is null: several SDKs reject the whole document.
fn check_nulls(documents: &[&Value]) -> Result<String, String> {
    let members = documents.iter().filter_map(|document| document.as_object()).flatten();
    match members.into_iter().find(|(_, value)| has_null(value)) {
        None => Ok("No document has a null member".to_owned()),
        Some((name, _)) => Err(format!("The member {name} is null, so some clients refuse the document. Leave it out")),
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nulls_are_found_at_every_depth() {
        assert!(check_nulls(&[&json!({ "a": [1, { "b": "c" }] })]).is_ok());
        for document in [json!({ "a": null }), json!({ "a": [null] }), json!({ "a": { "b": null } })] {
            assert!(check_nulls(&[&document]).is_err(), "{document}");
        }
    }

    #[test]
    fn endpoints_have_to_be_https() {
        let at = |url: &str| json!({ "authorization_endpoint": url, "token_endpoint": "https://a.example/token" });
        assert!(check_endpoints(&at("https://a.example/authorize")).is_ok());
        for wrong in ["http://a.example/authorize", "https://a.example/authorize#x", "authorize"] {
            assert!(check_endpoints(&at(wrong)).is_err(), "{wrong}");
        }
        assert!(check_endpoints(&json!({})).is_err());
    }
}
