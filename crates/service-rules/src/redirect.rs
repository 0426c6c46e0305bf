//! Redirect URIs: which may be registered, and whether the one in a request is registered.
//!
//! URIs are compared byte by byte. The one exception is the port of a loopback URI, which a native app gets from its
//! operating system when it starts (RFC 8252 section 7.3).

use url::{Host, Url};

/// Bytes of the longest redirect URI.
const MAX_URI_BYTES: usize = 2_000;
/// The user's own machine, as native apps name it.
const LOOPBACK: [&str; 3] = ["http://127.0.0.1", "http://[::1]", "http://localhost"];
/// Known apps whose schemes have no dot, and which of their URIs receive authorization responses. Other URIs of these
/// schemes open files, run commands or install extensions. The scheme of any other app has to be a reversed domain name
/// (RFC 8252 section 7.1); no scheme that runs or opens something else has that form.
const APPS: [KnownApp; 8] = [
    KnownApp { scheme: "cursor", host: AppHost::Extension, path: AppPath::Callback, query: None },
    KnownApp { scheme: "vscode", host: AppHost::Extension, path: AppPath::Callback, query: None },
    KnownApp { scheme: "vscode-insiders", host: AppHost::Extension, path: AppPath::Callback, query: None },
    KnownApp { scheme: "windsurf", host: AppHost::Extension, path: AppPath::Callback, query: None },
    KnownApp { scheme: "zed", host: AppHost::Exactly("oauth"), path: AppPath::Callback, query: None },
    KnownApp { scheme: "claude", host: AppHost::Exactly("oauth"), path: AppPath::Callback, query: None },
    KnownApp { scheme: "jetbrains", host: AppHost::Product, path: AppPath::Exactly("/oauth/callback"), query: None },
    KnownApp { scheme: "raycast", host: AppHost::Exactly("oauth"), path: AppPath::Empty, query: Some("package_name") },
];

/// An app, and which of its URIs receive authorization responses.
struct KnownApp {
    scheme: &'static str,
    host: AppHost,
    path: AppPath,
    /// The only parameter that the query may have.
    query: Option<&'static str>,
}

enum AppHost {
    /// An extension of an editor, as `publisher.name`. A host without a dot is the editor itself.
    Extension,
    Exactly(&'static str),
    /// A product name, in lower-case letters.
    Product,
}

enum AppPath {
    /// One of its segments is `callback`.
    Callback,
    Exactly(&'static str),
    Empty,
}

impl KnownApp {
    fn takes(&self, uri: &Url) -> bool {
        let host = uri.host_str().unwrap_or_default();
        let host_fits = match self.host {
            AppHost::Extension => {
                host.split('.').count() == 2 && host.split('.').all(|part| !part.is_empty()) && !host.starts_with('-')
            }
            AppHost::Exactly(known) => host == known,
            AppHost::Product => {
                host != "file" && host.bytes().all(|byte| byte.is_ascii_lowercase()) && !host.is_empty()
            }
        };
        let path_fits = match self.path {
            AppPath::Callback => uri.path().split('/').any(|segment| segment == "callback"),
            AppPath::Exactly(known) => uri.path() == known,
            AppPath::Empty => matches!(uri.path(), "" | "/"),
        };
        let mut parameters = uri.query_pairs();
        let query_fits = match (self.query, uri.query()) {
            (_, None) => true,
            (Some(known), Some(_)) => {
                parameters.next().is_some_and(|(name, _)| name == known) && parameters.next().is_none()
            }
            (None, Some(_)) => false,
        };
        uri.port().is_none() && host_fits && path_fits && query_fits
    }
}

/// What receives the response at a redirect URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectKind {
    /// A web site, which TLS authenticates.
    Web,
    /// A program on the user's own machine. Any program there can receive the response.
    Loopback,
    /// An app that the operating system starts by its scheme. Any app can claim the scheme.
    App,
}

/// Why a URI cannot be registered, as the end of a sentence that begins with the URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the redirect URI {0}")]
pub struct RedirectUriError(pub &'static str);

/// Checks that a URI may be registered.
///
/// # Errors
/// Why it may not.
pub fn check(uri: &str) -> Result<RedirectKind, RedirectUriError> {
    let plain = uri.len() <= MAX_URI_BYTES
        && uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"*\\<>\"{}|^`".contains(&byte));
    if !plain {
        return Err(RedirectUriError("has characters that aren't allowed, or is too long"));
    }
    let parsed = Url::parse(uri).map_err(|_| RedirectUriError("is not an absolute URI"))?;
    if uri.contains('#') {
        return Err(RedirectUriError("has a fragment"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() || uri.contains('@') {
        return Err(RedirectUriError("has a user name or an @"));
    }
    // What would be written in another way could be read in another way, by us or by a browser.
    if parsed.as_str() != uri {
        return Err(RedirectUriError("is not normalized. Write it as a browser shows it, with a path"));
    }
    match parsed.scheme() {
        "https" if parsed.host_str().is_some_and(|host| !host.is_empty()) => Ok(RedirectKind::Web),
        "http" if loopback(uri).is_some() => Ok(RedirectKind::Loopback),
        "http" => Err(RedirectUriError("uses http. Use https, or a loopback address")),
        scheme if scheme.contains('.') => Ok(RedirectKind::App),
        scheme if APPS.iter().any(|app| app.scheme == scheme) => {
            let takes = APPS.iter().any(|app| app.scheme == scheme && app.takes(&parsed));
            let refusal = RedirectUriError("is not a callback address of that app");
            if takes { Ok(RedirectKind::App) } else { Err(refusal) }
        }
        _ => Err(RedirectUriError(
            "has a scheme without a dot. Use a reversed domain name, such as com.example.app:/callback",
        )),
    }
}

/// Whether a request may name `asked` where `registered` was registered. An app's address has to be one that could be
/// registered today: which ones those are may have changed since.
#[must_use]
pub fn matches(registered: &str, asked: &str) -> bool {
    let on_the_web = asked.starts_with("https://") || asked.starts_with("http://");
    if !on_the_web && check(asked) != Ok(RedirectKind::App) {
        return false;
    }
    registered == asked
        || matches!((loopback(registered), loopback(asked)), (Some(registered), Some(asked)) if registered == asked)
}

/// What a URI on the person's own machine says beside its port: its host, and everything behind the port.
fn loopback(uri: &str) -> Option<(&'static str, &str)> {
    let (host, rest) = LOOPBACK.iter().find_map(|host| Some((*host, uri.strip_prefix(host)?)))?;
    let Some(with_port) = rest.strip_prefix(':') else { return rest.starts_with('/').then_some((host, rest)) };
    let (port, rest) = with_port.split_at(with_port.find('/')?);
    let usual = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
    (usual && port.parse::<u16>().is_ok()).then_some((host, rest))
}

/// What people are shown of where they will be sent.
#[must_use]
pub fn host(uri: &str) -> String {
    let Ok(parsed) = Url::parse(uri) else { return String::new() };
    match (parsed.scheme(), parsed.host()) {
        ("https" | "http", Some(Host::Domain(host))) => host.to_owned(),
        ("https" | "http", Some(host)) => host.to_string(),
        (scheme, _) => format!("the app for {scheme}:"),
    }
}

/// Where a form of ours may lead in the end, as a Content-Security-Policy names it.
#[must_use]
pub fn policy_source(uri: &str) -> String {
    let Ok(parsed) = Url::parse(uri) else { return String::new() };
    match parsed.scheme() {
        // Policies know no addresses but this one.
        "http" if matches!(parsed.host(), Some(Host::Ipv6(_))) => "http:".into(),
        "https" if !matches!(parsed.host(), Some(Host::Domain(_))) => "https:".into(),
        "https" | "http" => parsed.origin().ascii_serialization(),
        scheme => format!("{scheme}:"),
    }
}

/// The origin whose scripts may read our answers to this client; none for apps.
#[must_use]
pub fn origin(uri: &str) -> Option<String> {
    let parsed = Url::parse(uri).ok()?;
    matches!(parsed.scheme(), "https" | "http").then(|| parsed.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuses(registered: &str, others: &[&str]) {
        assert!(matches(registered, registered));
        for other in others {
            assert!(!matches(registered, other), "{other}");
        }
    }

    #[test]
    fn a_registered_uri_is_compared_byte_by_byte() {
        let registered = "https://app.test/cb";
        refuses(registered, &["https://app.test/cb/"]); // RU-01
        refuses(registered, &["https://app.test/CB", "https://APP.test/cb", "https://app.test:443/cb"]);
        refuses(registered, &["https://app.test/cb?x=1", "https://app.test/cb#f", "http://app.test/cb"]);
        refuses(
            registered,
            &["https://app.test/cb/../evil", "https://app.test/cb%2f..%2fevil", "https://app.test/./cb"],
        );
        refuses(
            registered,
            &["https://app.test@evil.test/cb", "https://app.test%40evil.test/cb", "https://app.test\\@evil.test/cb"],
        );
        refuses(
            registered,
            &["https://app.test.evil.test/cb", "https://evil.test/?https://app.test/cb", "https://fooapp-test/cb"],
        );
        refuses(
            registered,
            &["https://xn--app-.test/cb", "https://app。test/cb", " https://app.test/cb", "https://app.test/cb\n"],
        );
    }

    #[test]
    fn the_port_on_the_persons_own_machine_is_free_ru_14_ru_15_ru_16() {
        for registered in ["http://127.0.0.1/cb", "http://127.0.0.1:33418/cb"] {
            for asked in [
                "http://127.0.0.1/cb",
                "http://127.0.0.1:1/cb",
                "http://127.0.0.1:53682/cb",
                "http://127.0.0.1:65535/cb",
            ] {
                assert!(matches(registered, asked), "{asked}");
            }
            refuses(
                registered,
                &["http://localhost:53682/cb", "http://[::1]:1/cb", "http://127.0.0.2:1/cb", "http://127.1:1/cb"],
            );
            refuses(registered, &["http://2130706433:1/cb", "http://0.0.0.0:1/cb", "https://127.0.0.1:1/cb"]);
            refuses(registered, &["http://127.0.0.1:53682/cb2", "http://127.0.0.1:0/cb", "http://127.0.0.1:65536/cb"]);
            refuses(
                registered,
                &["http://127.0.0.1:80a/cb", "http://127.0.0.1:/cb", "http://127.0.0.1:080/cb", "http://127.0.0.1:1"],
            );
            refuses(
                registered,
                &["http://127.0.0.1:1/cb?x=1", "http://127.0.0.1:1/cb#f", "http://127.0.0.1.evil.test/cb"],
            );
            refuses(registered, &["http://127.0.0.1:1@evil.test/cb", "http://127.0.0.1:+1/cb"]);
        }
        assert!(matches("http://[::1]/cb", "http://[::1]:5000/cb"));
        assert!(matches("http://localhost/callback", "http://localhost:5000/callback"));
    }

    #[test]
    fn only_uris_that_lead_somewhere_safe_are_registered_ru_11_ru_17() {
        for (uri, kind) in [
            ("https://app.test/cb", RedirectKind::Web),
            ("https://app.test/cb?tenant=1", RedirectKind::Web),
            ("http://127.0.0.1/cb", RedirectKind::Loopback),
            ("http://[::1]:7777/cb", RedirectKind::Loopback),
            ("http://localhost/callback", RedirectKind::Loopback),
            ("com.example.app:/cb", RedirectKind::App),
            ("cursor://anysphere.cursor-mcp/oauth/callback", RedirectKind::App),
        ] {
            assert_eq!(check(uri), Ok(kind), "{uri}");
        }
        for uri in [
            "javascript:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc/passwd",
            "blob:https://app.test/1",
            "myapp:/cb",
            "ssh://evil.test/x",
            "smb://evil.test/x",
            "search-ms://a.b/",
            "myapp://cb",
            "http://app.test/cb",
            "http://127.0.0.2/cb",
            "http://127.1/cb",
            "https://app.test",
            "https://app.test/cb#f",
            "https://app.test/cb#",
            "https://user@app.test/cb",
            "https://app.test:443/cb",
            "https://APP.test/cb",
            "https://app.test/a/../cb",
            "https://app。test/cb",
            "https://*.app.test/cb",
            "https:/app.test/cb",
            "https://",
            "/cb",
            "",
            " https://app.test/cb",
            "https://app.test/cb\r\n",
            "https://app.test\\cb",
        ] {
            assert!(check(uri).is_err(), "{uri}");
        }
        assert!(check(&format!("https://app.test/{}", "a".repeat(2_000))).is_err());
    }

    #[test]
    fn a_known_app_takes_answers_at_its_own_address_only_rv_22() {
        for uri in [
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "vscode://publisher.extension/mcp-auth/callback/0a1b",
            "vscode-insiders://publisher.extension/callback",
            "windsurf://publisher.extension/oauth/callback",
            "zed://oauth/callback",
            "claude://oauth/callback",
            "jetbrains://idea/oauth/callback",
            "raycast://oauth?package_name=Extension",
            "com.raycast:/oauth?package_name=Extension",
        ] {
            assert_eq!(check(uri), Ok(RedirectKind::App), "{uri}");
            assert!(matches(uri, uri), "{uri}");
        }
        for uri in [
            "cursor://anysphere.cursor-deeplink/mcp/install?name=x&config=e30",
            "cursor://anysphere.cursor-mcp/oauth/callback?config=e30",
            "cursor://file/etc/callback",
            "vscode://file/etc/passwd",
            "vscode://file/callback",
            "vscode:extension/evil.callback",
            "vscode://vscode-remote/ssh-remote+host/callback",
            "vscode://publisher.extension/run",
            "vscode://a.b.c/callback",
            "windsurf://windsurf-mcp-registry?serverName=x",
            "zed://file/etc/callback",
            "zed://ssh/evil.example/callback",
            "claude://file/callback",
            "jetbrains://idea/checkout/git/callback",
            "jetbrains://file/oauth/callback",
            "zed://oauth/callback?x=1",
            "jetbrains://idea/checkout/git",
            "raycast://extensions/evil/run",
            "raycast://oauth?package_name=x&arguments=y",
            "raycast://oauth?arguments=y",
        ] {
            assert!(check(uri).is_err(), "{uri}");
            assert!(!matches(uri, uri), "{uri}");
        }
    }

    #[test]
    fn people_see_the_host_and_the_policy_names_it() {
        for (uri, shown, source) in [
            ("https://app.test/cb", "app.test", "https://app.test"),
            ("http://127.0.0.1:53682/cb", "127.0.0.1", "http://127.0.0.1:53682"),
            ("http://[::1]:5/cb", "[::1]", "http:"),
            ("com.example.app:/cb", "the app for com.example.app:", "com.example.app:"),
        ] {
            assert_eq!((host(uri).as_str(), policy_source(uri).as_str()), (shown, source));
        }
        assert_eq!(origin("https://app.test:8443/cb").as_deref(), Some("https://app.test:8443"));
        assert_eq!(origin("com.example.app:/cb"), None);
    }
}
