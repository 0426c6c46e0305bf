//! Redirect URIs: which may be registered, and whether one that a request names is one that was.
//!
//! Comparison is byte by byte. The one exception is the port of an address on the person's own machine, which a program
//! gets from its operating system when it starts (RFC 8252 section 7.3).

use url::{Host, Url};

const LONGEST: usize = 2_000;
/// The machine that the browser runs on, as programs name it.
const LOOPBACK: [&str; 3] = ["http://127.0.0.1", "http://[::1]", "http://localhost"];
/// Schemes without a dot that are known to be an app's own. Any other is to be a domain name backwards (RFC 8252 section
/// 7.1), which nothing that runs or opens something else is.
const APPS: [&str; 8] = ["cursor", "vscode", "vscode-insiders", "windsurf", "zed", "claude", "jetbrains", "raycast"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A web site, which its certificate names.
    Web,
    /// A program on the person's own machine: anybody can run one.
    Loopback,
    /// An app that the operating system starts by its scheme: any app can claim it.
    App,
}

/// Why a URI cannot be registered, for whoever wanted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRegistrable(pub &'static str);

/// Whether a URI may be registered.
pub fn check(uri: &str) -> Result<Kind, NotRegistrable> {
    let plain =
        uri.len() <= LONGEST && uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"*\\<>\"{}|^`".contains(&byte));
    if !plain {
        return Err(NotRegistrable("has characters that no redirect URI has, or too many"));
    }
    let parsed = Url::parse(uri).map_err(|_| NotRegistrable("is not an absolute URI"))?;
    if uri.contains('#') {
        return Err(NotRegistrable("has a fragment"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() || uri.contains('@') {
        return Err(NotRegistrable("has a user name or an @"));
    }
    // What would be written in another way could be read in another way, by us or by a browser.
    if parsed.as_str() != uri {
        return Err(NotRegistrable("is not in its normal form; write it as a browser shows it, with a path"));
    }
    match parsed.scheme() {
        "https" if parsed.host_str().is_some_and(|host| !host.is_empty()) => Ok(Kind::Web),
        "http" if loopback(uri).is_some() => Ok(Kind::Loopback),
        "http" => Err(NotRegistrable("is http and not on the person's own machine; use https")),
        scheme if scheme.contains('.') || APPS.contains(&scheme) => Ok(Kind::App),
        _ => Err(NotRegistrable("has a scheme without a dot, which any app could claim; use com.example.app:/…")),
    }
}

/// Whether a request may name `asked` where `registered` was registered.
#[must_use]
pub fn matches(registered: &str, asked: &str) -> bool {
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
            ("https://app.test/cb", Kind::Web),
            ("https://app.test/cb?tenant=1", Kind::Web),
            ("http://127.0.0.1/cb", Kind::Loopback),
            ("http://[::1]:7777/cb", Kind::Loopback),
            ("http://localhost/callback", Kind::Loopback),
            ("com.example.app:/cb", Kind::App),
            ("cursor://anysphere.cursor-mcp/oauth/callback", Kind::App),
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
