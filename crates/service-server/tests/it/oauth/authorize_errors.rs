//! Requests at `/oauth/authorize` that are refused: on a page until the redirect address is known, to the client after that.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use service_testkit::{
    server::{TestServer, with_server},
    settings::BASE_URL,
    tab::{Shown, Tab},
};

use crate::support::authorize::{CALLBACK, VERIFIER, asking, go_through, register};

/// Fails unless a page says what is wrong and there is no redirect.
#[track_caller]
fn check_page(shown: &Shown, what: &str) {
    assert_eq!((shown.status.as_u16(), shown.location.as_deref()), (400, None), "{what}: {}", shown.text);
    let content_type = shown.headers.get("content-type").and_then(|value| value.to_str().ok());
    assert_eq!(content_type, Some("text/html; charset=utf-8"), "{what}");
}

/// Fails unless the client is told this error, with state and issuer.
#[track_caller]
fn check_told(shown: &Shown, error: &str, what: &str) {
    assert_eq!(shown.status, 303, "{what}: {}", shown.text);
    assert_eq!(shown.parameter("error").as_deref(), Some(error), "{what}: {:?}", shown.location);
    assert_eq!(shown.parameter("iss").as_deref(), Some(BASE_URL), "{what}");
    assert_eq!(shown.parameter("code"), None, "{what}");
    assert!(shown.parameter("error_description").is_some_and(|text| !text.is_empty()), "{what}");
}

async fn flows(server: &TestServer) -> Result<Option<String>> {
    server.sql("select count(*) from sign_in_flows").await
}

#[test]
fn without_a_client_or_its_address_there_is_no_redirect_az_01_az_02_az_03() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let two = register(server, "Two addresses", &[CALLBACK, "https://app.test/cb2"]).await?;
        let tab = Tab::open(server)?;
        for id in ["", "unknown", "service-mcp", "client_00000000000000000000000000", "'; drop table clients; --"] {
            check_page(&tab.get(&asking(id, &[])).await?, id);
        }
        let nul = asking(&client, &[]).replace(&client.replace('_', "%5F"), "%00");
        check_page(&tab.get(&nul).await?, "NUL");
        let evil =
            tab.get(&asking(&client, &[("redirect_uri", "https://evil.test/<script>alert(1)</script>")])).await?;
        check_page(&evil, "unregistered");
        assert!(!evil.text.contains("<script>"), "{}", evil.text);
        check_page(&tab.get(&asking(&two, &[("redirect_uri", "")])).await?, "left out among two");
        assert_eq!(tab.get(&asking(&client, &[("redirect_uri", "")])).await?.status, 303, "left out, and there is one");
        server.sql(&format!("update clients set disabled_at = created_at where id = '{client}'")).await?;
        check_page(&tab.get(&asking(&client, &[])).await?, "disabled");
        assert_eq!(flows(server).await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn what_cannot_be_granted_is_told_to_the_client_with_state_and_issuer_az_04_az_05_az_06_az_07_az_08_az_10_az_11_az_12()
-> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let long = "a".repeat(129);
        let cases: &[(&str, &str, &str)] = &[
            ("response_type", "", "invalid_request"),
            ("response_type", "token", "unsupported_response_type"),
            ("response_type", "id_token", "unsupported_response_type"),
            ("response_type", "code token", "unsupported_response_type"),
            ("code_challenge", "", "invalid_request"),
            ("code_challenge_method", "", "invalid_request"),
            ("code_challenge_method", "plain", "invalid_request"),
            ("code_challenge_method", "s256", "invalid_request"),
            ("code_challenge_method", "S512", "invalid_request"),
            ("code_challenge", &long[..42], "invalid_request"),
            ("code_challenge", &long, "invalid_request"),
            ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-c=", "invalid_request"),
            ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw+cM", "invalid_request"),
            ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw/cM", "invalid_request"),
            ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstwécM", "invalid_request"),
            ("scope", "admin", "invalid_scope"),
            ("scope", "read\nwrite", "invalid_scope"),
            ("scope", "\"", "invalid_scope"),
            ("response_mode", "fragment", "invalid_request"),
            ("response_mode", "form_post", "invalid_request"),
            ("response_mode", "query.jwt", "invalid_request"),
            ("response_mode", "web_message", "invalid_request"),
            ("request", "eyJhbGciOiJub25lIn0.e30.", "request_not_supported"),
            ("request_uri", "https://127.0.0.1:1/request", "request_uri_not_supported"),
            ("resource", "https://other.test", "invalid_target"),
            ("resource", "/rel", "invalid_target"),
            ("resource", "https://service.test/#f", "invalid_target"),
            ("prompt", "none login", "invalid_request"),
            ("prompt", "create", "invalid_request"),
            ("max_age", "-1", "invalid_request"),
        ];
        for (name, value, error) in cases {
            let shown = tab.get(&asking(&client, &[(name, value)])).await?;
            check_told(&shown, error, &format!("{name}={value}"));
            assert_eq!(shown.parameter("state").as_deref(), Some("a state"), "{name}={value}");
            assert!(!shown.next()?.contains("admin"), "what was asked for is echoed");
        }
        assert_eq!(flows(server).await?.as_deref(), Some("0"));
        // Words that do not exist are dropped beside one that does.
        assert_eq!(tab.get(&asking(&client, &[("scope", "read admin")])).await?.parameter("error"), None);
        Ok(())
    })
}

#[test]
fn a_parameter_sent_twice_is_refused_az_09() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let address = asking(&client, &[]);
        for name in ["client_id", "redirect_uri"] {
            check_page(&tab.get(&format!("{address}&{name}=x")).await?, name);
        }
        for name in ["state", "scope", "code_challenge", "code_challenge_method", "response_type"] {
            let shown = tab.get(&format!("{address}&{name}=x")).await?;
            check_told(&shown, "invalid_request", name);
            assert_eq!(shown.parameter("state").is_some(), name != "state");
        }
        let twice =
            format!("{address}&resource=https%3A%2F%2Fservice.test%2Fv1&resource=https%3A%2F%2Fservice.test%2Fv1");
        assert_eq!(tab.get(&twice).await?.parameter("error"), None, "resource may be there twice");
        Ok(())
    })
}

#[test]
fn state_comes_back_as_it_was_and_splits_nothing_az_13() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let hostile = "\r\nSet-Cookie: a=b <script>'\"&=+%é€";
        let shown = tab.get(&asking(&client, &[("state", hostile), ("response_type", "token")])).await?;
        check_told(&shown, "unsupported_response_type", "hostile state");
        assert_eq!(shown.parameter("state").as_deref(), Some(hostile));
        assert!(shown.next()?.is_ascii() && !shown.next()?.contains(['\r', '\n', '<']));
        for (length, kept) in [(2_048, true), (2_049, false), (4_097, false)] {
            let state = "s".repeat(length);
            let shown = tab.get(&asking(&client, &[("state", &state), ("response_type", "token")])).await?;
            assert_eq!(shown.parameter("state").is_some(), kept, "{length}");
        }
        let long = tab.get(&asking(&client, &[("state", &"s".repeat(2_049))])).await?;
        check_told(&long, "invalid_request", "long state");
        for broken in ["%", "%zz", "%ff"] {
            check_page(&tab.get(&format!("{}&x={broken}", asking(&client, &[]))).await?, broken);
        }
        Ok(())
    })
}

#[test]
fn silent_requests_show_no_page_and_tell_an_unverified_client_nothing_az_14() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let stranger = register(server, "Unverified", &["http://127.0.0.1/cb"]).await?;
        let tab = Tab::open(server)?;
        let silent = [("prompt", "none")];
        check_told(&tab.get(&asking(&client, &silent)).await?, "login_required", "no user is signed in");
        // An unverified client gets no response before a signed-in user can see where it goes.
        let local = [("prompt", "none"), ("redirect_uri", "http://127.0.0.1:5000/cb")];
        let offered = tab.get(&asking(&stranger, &local)).await?;
        check_page(&offered, "offer");
        assert!(offered.text.contains("127.0.0.1") && offered.text.contains("login_required"), "{}", offered.text);
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        let silently = tab.get(&asking(&client, &silent)).await?;
        assert!(silently.parameter("code").is_some(), "{:?}", silently.location);
        let other = register(server, "Other", &["https://other.test/cb"]).await?;
        let asked = asking(&other, &[("prompt", "none"), ("redirect_uri", "https://other.test/cb")]);
        check_told(&tab.get(&asked).await?, "consent_required", "another client");
        let more = asking(&client, &[("prompt", "none"), ("scope", "write")]);
        check_told(&tab.get(&more).await?, "consent_required", "more scopes");
        Ok(())
    })
}

#[test]
fn a_request_for_a_new_sign_in_gets_no_code_before_it_az_15() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        server.advance(61);
        for again in [("max_age", "0"), ("max_age", "60"), ("prompt", "login")] {
            let begun = tab.get(&asking(&client, &[again])).await?;
            let path = begun.next()?.to_owned();
            assert!(path.starts_with("/sign-in/"), "{again:?}: {path}");
            let consent = path.replace("/sign-in/", "/consent/");
            assert_eq!(tab.get(&consent).await?.next()?, path, "{again:?}: the sign-in can be skipped");
            tab.get(&path).await?;
            let decided = tab.submit(&consent, &[("decision", "allow"), ("space", "personal")]).await?;
            assert_eq!(decided.next()?, path, "{again:?}: the sign-in can be skipped by a form");
        }
        assert!(tab.get(&asking(&client, &[("max_age", "3600")])).await?.parameter("code").is_some());
        let begun = tab.get(&asking(&client, &[("max_age", "0")])).await?;
        let done = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        assert!(done.parameter("code").is_some(), "{:?}", done.location);
        Ok(())
    })
}

#[test]
fn a_registered_query_stays_and_no_fragment_is_inherited_az_18_az_19_az_20() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &["https://app.test/cb?t=1"]).await?;
        let tab = Tab::open(server)?;
        let at = [("redirect_uri", "https://app.test/cb?t=1")];
        let done = go_through(server, &tab, &asking(&client, &at), "ann@acme.test").await?;
        assert_eq!(done.status, 303);
        assert!(done.next()?.starts_with("https://app.test/cb?t=1&code=") && done.next()?.ends_with("#_"));
        let refused = tab.get(&asking(&client, &[at[0], ("response_type", "token")])).await?;
        assert!(refused.next()?.starts_with("https://app.test/cb?t=1&error=") && refused.next()?.ends_with("#_"));
        for shown in [&done, &refused] {
            assert_eq!(shown.parameter("iss").as_deref(), Some(BASE_URL));
        }
        let begun = tab.get(&asking(&client, &[at[0], ("scope", "write")])).await?;
        let path = begun.next()?.to_owned();
        tab.get(&path).await?;
        let denied = tab.submit(&path, &[("decision", "deny")]).await?;
        check_told(&denied, "access_denied", "deny");
        Ok(())
    })
}

#[test]
fn no_other_origin_reads_this_endpoint_az_22() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        for method in [Method::GET, Method::OPTIONS] {
            let request = tab.request(method, &asking(&client, &[])).header("origin", "https://app.test");
            let shown = tab.send(request.header("access-control-request-method", "GET")).await?;
            assert!(
                !shown.headers.keys().any(|name| name.as_str().starts_with("access-control")),
                "{:?}",
                shown.headers
            );
        }
        Ok(())
    })
}

#[test]
fn a_request_can_also_be_a_form() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let challenge = service_server::crypto::digest::pkce_challenge(VERIFIER);
        let fields = [
            ("client_id", client.as_str()),
            ("redirect_uri", CALLBACK),
            ("response_type", "code"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        let shown = tab.send(tab.request(Method::POST, "/oauth/authorize").form(&fields)).await?;
        assert!(shown.headers.get("set-cookie").is_none(), "a form from elsewhere replaces who is signed in");
        let begun = tab.get(shown.next()?).await?;
        assert!(begun.next()?.starts_with("/sign-in/"));
        Ok(())
    })
}

#[test]
fn an_apps_deep_link_is_a_redirect_only_as_that_app_registers_it_rv_22() -> Result<()> {
    with_server(async |server| {
        let ask = async |uri: &str| {
            let body = json!({ "client_name": "Editor", "redirect_uris": [uri] });
            server.http.post("/oauth/register", &body).await
        };
        for uri in ["raycast://oauth?package_name=Extension", "cursor://anysphere.cursor-mcp/oauth/callback"] {
            assert_eq!(ask(uri).await?.status, 201, "{uri}");
        }
        let install = "cursor://anysphere.cursor-deeplink/mcp/install?name=x";
        for uri in [install, "vscode://file/etc/passwd", "raycast://extensions/evil/run"] {
            let response = ask(uri).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_redirect_uri"), "{uri}");
        }
        // What was registered before the table of apps was made is refused with a page.
        let client = ask("cursor://anysphere.cursor-mcp/oauth/callback").await?.field("client_id").to_owned();
        server.sql(&format!("update clients set redirect_uris = array['{install}'] where id = '{client}'")).await?;
        let tab = Tab::open(server)?;
        for parameters in
            [&[("redirect_uri", install)][..], &[("redirect_uri", "")], &[("redirect_uri", ""), ("prompt", "none")]]
        {
            let shown = tab.get(&asking(&client, parameters)).await?;
            assert_eq!((shown.status.as_u16(), shown.location.as_deref()), (400, None), "{parameters:?}");
            assert!(!shown.text.contains("href=\"cursor:"), "{}", shown.text);
        }
        // No page of ours links to an app, not even with an error.
        let uri = "raycast://oauth?package_name=Extension";
        let client = ask(uri).await?.field("client_id").to_owned();
        let shown = tab.get(&asking(&client, &[("redirect_uri", uri), ("response_type", "token")])).await?;
        assert_eq!((shown.status.as_u16(), shown.location.as_deref()), (400, None));
        assert!(!shown.text.contains("href=\"raycast:") && !shown.text.contains("Return to"), "{}", shown.text);
        Ok(())
    })
}
