//! The way through the pages: only in the browser where it was begun, step by step, and by our own forms.

use anyhow::Result;
use reqwest::Method;
use service_api::endpoints::{self, Access, Endpoint};
use service_testkit::{
    server::{TestServer, with_server},
    tab::Tab,
};

use crate::support::authorize::{CALLBACK, agree, asking, code, go_through, register};

#[test]
fn the_cookie_changes_with_every_step_and_the_old_one_is_dead_bw_04() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let mut cookies = Vec::new();
        let begun = tab.get(&asking(&client, &[])).await?;
        cookies.push(tab.cookie());
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        cookies.push(tab.cookie());
        agree(&tab, shown, &[("space", "personal")]).await?;
        cookies.push(tab.cookie());
        server.advance(61);
        let begun = tab.get(&asking(&client, &[("prompt", "login")])).await?;
        tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        cookies.push(tab.cookie());
        let page = tab.get("/account").await?;
        assert!(page.text.contains("ann@acme.test"));
        let current = tab.cookie();
        for old in &cookies[..3] {
            assert_ne!(*old, current);
            tab.set_cookie(old.clone());
            assert_eq!(tab.get("/account").await?.next()?, "/sign-in", "an old cookie still works");
        }
        tab.set_cookie(current.clone());
        tab.get("/account").await?;
        assert_eq!(tab.submit("/sign-out", &[]).await?.status, 303);
        assert_eq!(tab.cookie(), None);
        tab.set_cookie(current);
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in", "signing out ends nothing");
        // However often it is used, it ends a month after signing in.
        let distinct: std::collections::BTreeSet<_> = cookies.iter().collect();
        assert_eq!(distinct.len(), 4);
        Ok(())
    })
}

/// The path of every form with a CSRF token. Clients send the form of an authorization request, and the forms behind links of mails
/// have the secret of the link.
async fn forms(server: &TestServer, tab: &Tab, client: &str) -> Result<Vec<String>> {
    let begun = tab.get(&asking(client, &[("prompt", "consent")])).await?;
    let flow_id = begun.next()?.rsplit('/').next().unwrap_or_default().to_owned();
    let session_id = server.sql("select id from grants limit 1").await?.unwrap_or_default();
    let others = [
        &endpoints::AUTHORIZE_BY_FORM,
        &endpoints::REVOKE_REPORTED_SIGN_IN,
        &endpoints::KEEP_ACCOUNT,
        &endpoints::USE_ADDRESS_LINK,
    ];
    let is_form = |endpoint: &&&Endpoint| {
        endpoint.method == endpoints::Method::Post
            && endpoint.access == Access::Browser
            && others.iter().all(|other| other.path != endpoint.path)
    };
    let path = |endpoint: &&Endpoint| {
        let path = endpoint.path.replace("{flowId}", &flow_id).replace("{sessionId}", &session_id);
        path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect::<Vec<_>>().join("/")
    };
    Ok(endpoints::ALL.iter().filter(is_form).map(path).collect())
}

#[test]
fn no_form_does_anything_that_our_page_did_not_send_bw_01_bw_11() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let (tab, mallory) = (Tab::open(server)?, Tab::open(server)?);
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        go_through(server, &mallory, &asking(&client, &[("prompt", "consent")]), "mallory@evil.test").await?;
        mallory.get("/account").await?;
        let foreign = mallory.csrf();
        tab.get("/account").await?;
        let own = tab.csrf();
        let counted = "select (select count(*) from browser_sessions) || ' ' || (select count(*) from cli_tokens)
                        || ' ' || (select count(*) from authorization_codes) || ' ' || (select count(*) from outbox)
                        || ' ' || (select count(*) from grants where revoked_at is null)";
        let paths = forms(server, &tab, &client).await?;
        assert!(paths.len() > 30, "{paths:?}");
        let before = server.sql(counted).await?;
        for path in &paths {
            let with = |csrf: &str| {
                let fields = [
                    ("csrf", csrf),
                    ("decision", "allow"),
                    ("space", "personal"),
                    ("email", "x@acme.test"),
                    ("name", "x"),
                    ("read", "true"),
                    ("days", "9"),
                ];
                tab.request(Method::POST, path).form(&fields)
            };
            let plain =
                tab.request(Method::POST, path).header("content-type", "text/plain").body(format!("csrf={own}"));
            let cases = [
                ("no token", with("")),
                ("another session's token", with(&foreign)),
                ("another origin", with(&own).header("origin", "https://evil.test")),
                ("another site", with(&own).header("sec-fetch-site", "cross-site")),
                ("a neighbour's site", with(&own).header("sec-fetch-site", "same-site")),
                ("plain text", plain),
            ];
            for (what, request) in cases {
                assert_eq!(tab.send(request).await?.status, 403, "{path}: {what}");
            }
        }
        assert_eq!(server.sql(counted).await?, before);
        // A stranger without any cookie cannot send the victim's form either.
        let naked = Tab::open(server)?;
        assert_eq!(
            naked.send(naked.request(Method::POST, "/sign-out").form(&[("csrf", own.as_str())])).await?.status,
            403
        );
        Ok(())
    })
}

#[test]
fn a_flow_goes_on_only_where_it_was_begun_bw_05() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let (attacker, victim) = (Tab::open(server)?, Tab::open(server)?);
        go_through(server, &victim, &asking(&client, &[]), "ann@acme.test").await?;
        victim.get("/account").await?;
        let begun = attacker.get(&asking(&client, &[])).await?;
        let path = begun.next()?.to_owned();
        let consent = path.replace("/sign-in/", "/consent/");
        for address in [&path, &consent, &format!("{path}/code")] {
            assert_eq!(victim.get(address).await?.status, 403, "{address}");
            let sent = victim
                .submit(
                    address,
                    &[("decision", "allow"), ("space", "personal"), ("email", "ann@acme.test"), ("code", "12345678")],
                )
                .await?;
            assert_eq!((sent.status.as_u16(), sent.location), (403, None), "{address}");
        }
        for nonsense in ["/consent/flow_00000000000000000000000000", "/consent/x", "/sign-in/%00", "/consent/flow_"] {
            assert_eq!(victim.get(nonsense).await?.status, 403, "{nonsense}");
        }
        Ok(())
    })
}

#[test]
fn nothing_in_a_request_decides_what_follows_but_the_flow_itself_bw_06_bw_07() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK, "https://app.test/other"]).await?;
        let tab = Tab::open(server)?;
        for evil in [
            "https://evil.test",
            "//evil.test",
            "/\\evil.test",
            "/%2f/evil.test",
            "https:evil.test",
            "javascript:alert(1)",
        ] {
            for name in ["return_to", "next", "redirect", "continue"] {
                let shown = tab.get(&format!("/sign-in?{name}={evil}")).await?;
                assert!(shown.next()?.starts_with("/sign-in/flow_"), "{name}={evil}");
            }
        }
        let begun = tab.get(&asking(&client, &[])).await?;
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let path = shown.next()?.to_owned();
        tab.get(&path).await?;
        let fields = [
            ("decision", "allow"),
            ("space", "personal"),
            ("client_id", "service-cli"),
            ("scope", "read write"),
            ("redirect_uri", "https://app.test/other"),
            ("response_type", "token"),
            ("state", "other"),
        ];
        let done = tab.submit(&path, &fields).await?;
        assert!(done.next()?.starts_with("https://app.test/cb?code="), "{:?}", done.location);
        assert_eq!(done.parameter("state").as_deref(), Some("a state"));
        let response =
            server.http.post("/oauth/token", &crate::support::authorize::exchange(&client, &code(&done)?)).await?;
        assert_eq!(response.field("scope"), "read");
        Ok(())
    })
}

#[test]
fn a_finished_flow_gives_no_second_code_and_no_step_is_skipped_bw_08_bw_09() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let begun = tab.get(&asking(&client, &[])).await?;
        let path = begun.next()?.to_owned();
        let consent = path.replace("/sign-in/", "/consent/");
        tab.get(&path).await?;
        // Before signing in there is nothing to decide.
        assert_eq!(tab.get(&consent).await?.next()?, path);
        let allow = [("decision", "allow"), ("space", "personal")];
        assert_eq!(tab.submit(&consent, &allow).await?.next()?, path);
        assert_eq!(tab.submit(&format!("{path}/code"), &[("code", "12345678")]).await?.status, 400, "no code was sent");
        tab.sign_in(&server.mailbox, &path, "ann@acme.test").await?;
        tab.get(&consent).await?;
        let done = tab.submit(&consent, &allow).await?;
        assert!(done.parameter("code").is_some());
        let back = tab.get(&consent).await?;
        assert!(back.status == 400 && back.text.contains("already been completed"), "{}", back.text);
        tab.get("/account").await?;
        assert_eq!(tab.submit(&consent, &allow).await?.status, 400);
        let begun = tab.get(&asking(&client, &[("prompt", "consent")])).await?;
        let consent = begun.next()?.to_owned();
        tab.get(&consent).await?;
        assert_eq!(
            tab.submit(&consent, &[("decision", "deny")]).await?.parameter("error").as_deref(),
            Some("access_denied")
        );
        assert_eq!(tab.submit(&consent, &allow).await?.status, 400, "denied, then allowed");
        assert_eq!(server.sql("select count(*) from authorization_codes").await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn only_a_navigation_begins_a_sign_in_rv_45() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let begun = "select (select count(*) from sign_in_flows) || ' ' || (select count(*) from browser_sessions)
                     || ' ' || (select count(*) from rates)";
        let before = server.sql(begun).await?;
        for path in ["/sign-in".to_owned(), asking(&client, &[])] {
            let fetched = |mode: &str, destination: &str| {
                let tab = Tab::open(server)?;
                let request = tab.request(Method::GET, &path).header("sec-fetch-site", "cross-site");
                let request = request.header("sec-fetch-mode", mode).header("sec-fetch-dest", destination);
                anyhow::Ok((tab, request))
            };
            let refused = [("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")];
            for (mode, destination) in refused {
                let (tab, request) = fetched(mode, destination)?;
                let shown = tab.send(request).await?;
                assert_eq!((shown.status.as_u16(), tab.cookie()), (403, None), "{path}: {destination}");
            }
            let (tab, request) = fetched("navigate", "document")?;
            assert_eq!(tab.send(request.header("sec-purpose", "prefetch")).await?.status, 403);
            let tab = Tab::open(server)?;
            assert_eq!(tab.send(tab.request(Method::HEAD, &path)).await?.status, 403);
            assert_eq!(server.sql(begun).await?, before, "{path}");
        }
        // A program that is no browser may say how it fetches.
        let program = Tab::open(server)?;
        let shown = program.send(program.request(Method::GET, "/sign-in").header("sec-fetch-mode", "cors")).await?;
        assert!(shown.next()?.starts_with("/sign-in/flow_"));
        let tab = Tab::open(server)?;
        let request = tab.request(Method::GET, "/sign-in").header("sec-fetch-mode", "navigate");
        let shown = tab.send(request.header("sec-fetch-dest", "document")).await?;
        assert!(shown.next()?.starts_with("/sign-in/flow_"));
        Ok(())
    })
}
