//! Checks what MCP clients that run in a web page can read (CORS).

use service_client::PublicResponse;

use super::{
    check::Check,
    mcp::{ACCEPT, JSON, PING, Target},
    mcp_documents::RESOURCE_METADATA,
};

/// The origin of a web page on this computer, where tools such as the MCP Inspector run.
const PAGE: (&str, &str) = ("origin", "http://localhost:6274");
/// The headers that clients send to the endpoint, besides those that need no permission.
const MCP_HEADERS: [&str; 5] = ["authorization", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"];

pub(super) async fn check(target: &Target<'_>) -> Vec<Check> {
    let documents = check_documents(target).await;
    let preflight = preflight(target, &target.path, "POST", &MCP_HEADERS).await;
    let challenge = target.send("POST", &target.path, &[JSON, ACCEPT, PAGE], Some(PING)).await;
    vec![
        Check::required("cors-documents", documents),
        check_preflight(&target.url(), preflight),
        check_exposed(&target.url(), challenge),
    ]
}

async fn preflight(target: &Target<'_>, path: &str, method: &str, headers: &[&str]) -> Result<PublicResponse, String> {
    let names = headers.join(", ");
    let headers = [PAGE, ("access-control-request-method", method), ("access-control-request-headers", names.as_str())];
    target.send("OPTIONS", path, &headers, None).await
}

/// Checks that every page can read the metadata, also with the header that the SDKs add.
async fn check_documents(target: &Target<'_>) -> Result<String, String> {
    let own = target.metadata_path();
    for path in [own.as_str(), RESOURCE_METADATA, "/.well-known/oauth-authorization-server"] {
        let read = target.send("GET", path, &[PAGE], None).await?;
        let asked = preflight(target, path, "GET", &["mcp-protocol-version"]).await?;
        let is_open = read.status != 200 || is_allowed(&read);
        if !is_open || !is_allowed(&asked) || !allows_headers(&asked, &["mcp-protocol-version"]) {
            return Err(format!(
                "Web pages can't read {}{path}. It has to answer OPTIONS and GET with Access-Control-Allow-Origin: *, and \
                 allow the header mcp-protocol-version",
                target.origin
            ));
        }
    }
    Ok("Web pages can read the metadata".to_owned())
}

/// Checks the preflight request of the endpoint. An endpoint that allows no page works with every other client.
fn check_preflight(url: &str, response: Result<PublicResponse, String>) -> Check {
    const NAME: &str = "cors-preflight";
    let response = match response {
        Ok(response) => response,
        Err(message) => return Check::required(NAME, Err(message)),
    };
    if !(200..300).contains(&response.status) {
        let text = format!(
            "{url} answers {} to a preflight request (OPTIONS). It has to answer 204, without asking for a token",
            response.status
        );
        return Check::required(NAME, Err(text));
    }
    if !is_allowed(&response) {
        return Check::optional(NAME, Err(format!("{url} isn't open to web pages of other origins")));
    }
    let missing: Vec<_> = MCP_HEADERS.into_iter().filter(|name| !allows_headers(&response, &[name])).collect();
    Check::required(
        NAME,
        match missing.as_slice() {
            [] => Ok(format!("Web pages can send requests to {url}")),
            missing => Err(format!("Access-Control-Allow-Headers of {url} has to list {}", missing.join(", "))),
        },
    )
}

/// Checks that a page that may read the response can also read its challenge.
fn check_exposed(url: &str, response: Result<PublicResponse, String>) -> Check {
    const NAME: &str = "cors-challenge";
    let response = match response {
        Ok(response) => response,
        Err(message) => return Check::required(NAME, Err(message)),
    };
    if !is_allowed(&response) {
        return Check::optional(NAME, Err(format!("Responses of {url} can't be read by web pages of other origins")));
    }
    let exposed = response.header("access-control-expose-headers").unwrap_or_default().to_ascii_lowercase();
    Check::required(
        NAME,
        if exposed.contains("www-authenticate") {
            Ok("Web pages can read the challenge".to_owned())
        } else {
            Err("Access-Control-Expose-Headers has to list WWW-Authenticate, or web pages can't find out where to sign in".to_owned())
        },
    )
}

fn is_allowed(response: &PublicResponse) -> bool {
    response.header("access-control-allow-origin").is_some_and(|origin| origin == "*" || origin == PAGE.1)
}

fn allows_headers(response: &PublicResponse, names: &[&str]) -> bool {
    let allowed = response.header("access-control-allow-headers").unwrap_or_default().to_ascii_lowercase();
    // A `*` does not include `authorization`.
    let allows = |name: &&str| {
        allowed.split(',').any(|word| word.trim() == *name || (word.trim() == "*" && *name != "authorization"))
    };
    names.iter().all(allows)
}
