//! What people agreed to: for whom it counts, when they are asked again, and what is added later.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_api::{ids::UserId, workspaces::Role};
use service_testkit::{
    response::TestResponse,
    server::{TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::authorize::{CALLBACK, agree, asking, code, exchange, go_through, register};

#[test]
fn consent_is_for_one_client_one_host_and_what_was_shown_az_16_az_17() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK, "https://elsewhere.test/cb"]).await?;
        let other = register(server, "Other app", &[CALLBACK]).await?;
        let local = register(server, "Local app", &["http://127.0.0.1/cb"]).await?;
        let tab = Tab::open(server)?;
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        assert!(tab.get(&asking(&client, &[])).await?.parameter("code").is_some(), "asked again");
        for (id, changes) in [
            (&other, vec![]),
            (&client, vec![("redirect_uri", "https://elsewhere.test/cb")]),
            (&client, vec![("scope", "read write")]),
            (&client, vec![("prompt", "consent")]),
        ] {
            let shown = tab.get(&asking(id, &changes)).await?;
            assert!(shown.next()?.starts_with("/consent/"), "{changes:?}: {:?}", shown.location);
        }
        let at = [("redirect_uri", "http://127.0.0.1:5000/cb")];
        for _ in 0..2 {
            let shown = tab.get(&asking(&local, &at)).await?;
            let path = shown.next()?.to_owned();
            assert!(path.starts_with("/consent/"), "a program on this machine is not asked about again");
            let page = tab.get(&path).await?;
            assert!(page.text.contains("127.0.0.1") && page.text.contains("We can’t verify this app"), "{}", page.text);
            let done = tab.submit(&path, &[("decision", "allow"), ("space", "personal")]).await?;
            assert!(done.next()?.starts_with("http://127.0.0.1:5000/cb?code="), "{:?}", done.location);
        }
        Ok(())
    })
}

/// Tokens for the code that the browser was sent away with.
async fn redeem(server: &TestServer, client: &str, done: &Shown) -> Result<TestResponse> {
    let response = server.http.post("/oauth/token", &exchange(client, &code(done)?)).await?;
    assert_eq!(response.status, 200, "{}", response.text);
    Ok(response)
}

#[test]
fn a_client_is_granted_no_scope_that_it_does_not_ask_for_now_rv_14() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let wide = go_through(server, &tab, &asking(&client, &[("scope", "read write")]), "ann@acme.test").await?;
        assert_eq!(redeem(server, &client, &wide).await?.field("scope"), "read write");
        // Silently, and asked again: no more than it asks for.
        let silent = tab.get(&asking(&client, &[("scope", "read")])).await?;
        assert_eq!(redeem(server, &client, &silent).await?.field("scope"), "read");
        // On the page, what it has is ticked, can be unticked, and is granted as the person leaves it.
        let begun = tab.get(&asking(&client, &[("scope", "packs:read"), ("prompt", "consent")])).await?;
        let page = tab.get(begun.next()?).await?;
        let (asked, held) = page.text.split_once("It already can").unwrap_or_default();
        assert!(!asked.contains("scope."), "nothing is missing: {}", page.text);
        assert!(held.contains("name=\"scope.read\"") && held.contains("name=\"scope.write\""), "{}", page.text);
        let done = agree(&tab, begun, &[("space", "personal"), ("scope.read", "true")]).await?;
        assert_eq!(redeem(server, &client, &done).await?.field("scope"), "read packs:read");
        // A scope that was not shown cannot be granted.
        let begun = tab.get(&asking(&client, &[("scope", "packs:read"), ("prompt", "consent")])).await?;
        let fields = [("space", "personal"), ("scope.packs:read", "true"), ("scope.audit:read", "true")];
        let done = agree(&tab, begun, &fields).await?;
        assert_eq!(redeem(server, &client, &done).await?.field("scope"), "packs:read");
        assert_eq!(server.sql("select scopes from consents").await?.as_deref(), Some("packs:read"));
        Ok(())
    })
}

#[test]
fn a_person_leaves_scopes_out_and_nothing_ticked_is_denied_rv_14() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let address = asking(&client, &[("scope", "read write")]);
        let wide = go_through(server, &tab, &address, "ann@acme.test").await?;
        let wide = redeem(server, &client, &wide).await?;
        let again = asking(&client, &[("scope", "read write"), ("prompt", "consent")]);
        let begun = tab.get(&again).await?;
        let done = agree(&tab, begun, &[("space", "personal"), ("scope.read", "true")]).await?;
        let narrow = redeem(server, &client, &done).await?;
        assert_eq!(narrow.field("scope"), "read");
        // What has more than was left is revoked; the client is asked about again before it gets more.
        assert_eq!(server.http.get("/v1/whoami", Some(wide.field("access_token"))).await?.status, 401);
        assert_eq!(server.http.get("/v1/whoami", Some(narrow.field("access_token"))).await?.status, 200);
        assert!(tab.get(&address).await?.next()?.starts_with("/consent/"), "access that was narrowed came back");
        let begun = tab.get(&again).await?;
        let path = begun.next()?.to_owned();
        tab.get(&path).await?;
        tab.submit(&path, &[("decision", "deny"), ("space", "personal"), ("scope.nothing", "true")]).await?;
        assert_eq!(server.sql("select scopes from consents").await?.as_deref(), Some("read"), "Cancel changes nothing");
        // Nothing ticked, and allowed: what it had is taken back.
        let begun = tab.get(&again).await?;
        let denied = agree(&tab, begun, &[("space", "personal"), ("scope.nothing", "true")]).await?;
        assert_eq!(denied.parameter("error").as_deref(), Some("access_denied"));
        assert_eq!(denied.parameter("code"), None);
        assert_eq!(server.http.get("/v1/whoami", Some(narrow.field("access_token"))).await?.status, 401);
        assert_eq!(server.sql("select count(*) from consents").await?.as_deref(), Some("0"));
        let recorded = "select details ->> 'sessions' from audit_events where event = 'consent.withdrawn'";
        assert_eq!(server.sql(recorded).await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn the_page_of_a_first_party_client_says_what_it_reaches_rv_04() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let at = [("redirect_uri", "http://127.0.0.1:5000/callback"), ("scope", "read write")];
        let begun = tab.get(&asking("service-cli", &at)).await?;
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let page = tab.get(shown.next()?).await?;
        let text =
            page.text.replace("<bdi>", "").replace("</bdi>", "").replace("<strong>", "").replace("</strong>", "");
        for expected in [
            "Sign in to Service command line",
            "The command line will be signed in as you, with access to your personal space and all your workspaces",
            "Default workspace",
            "The command line can access your other workspaces too",
            "Never share the address you’re sent to",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("Give it access to"), "{text}");
        // It is as the page says.
        let path = shown.next()?.to_owned();
        let done = tab.submit(&path, &[("decision", "allow"), ("space", "personal")]).await?;
        let mut body = exchange("service-cli", &code(&done)?);
        body["redirect_uri"] = json!("http://127.0.0.1:5000/callback");
        let response = server.http.post("/oauth/token", &body).await?;
        let token = response.field("access_token").to_owned();
        let who = server.http.get("/v1/whoami", Some(&token)).await?;
        let ann: UserId = who.body["user"]["id"].as_str().context("no user")?.parse()?;
        let workspace = server.make_workspace("Acme", &[(ann, Role::Owner)]).await?;
        let there = server.http.get(&format!("/v1/projects?workspaceId={workspace}"), Some(&token)).await?;
        assert_eq!(there.status, 200, "{}", there.text);
        Ok(())
    })
}

#[test]
fn one_click_does_not_connect_an_unverified_client_rv_20() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Local app", &["http://127.0.0.1/cb"]).await?;
        let tab = Tab::open(server)?;
        let begun = tab.get(&asking(&client, &[("redirect_uri", "http://127.0.0.1:5000/cb")])).await?;
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let path = shown.next()?.to_owned();
        let page = tab.get(&path).await?;
        let space = |page: &Shown| {
            let rest = page.text.split_once("type=\"radio\" name=\"space\"").map(|(_, rest)| rest.to_owned());
            rest.and_then(|rest| rest.split('>').next().map(str::to_owned)).unwrap_or_default()
        };
        assert!(space(&page).contains("required") && !space(&page).contains("checked"), "{}", page.text);
        // As the page comes, its form connects nothing.
        assert_eq!(tab.submit(&path, &[("decision", "allow")]).await?.status, 400);
        assert_eq!(server.sql("select count(*) from authorization_codes").await?.as_deref(), Some("0"));
        let done = tab.submit(&path, &[("decision", "allow"), ("space", "personal")]).await?;
        assert!(done.parameter("code").is_some());
        // A client that an operator vouches for, at its own site, is as before.
        let known = register(server, "Web app", &[CALLBACK]).await?;
        let begun = tab.get(&asking(&known, &[])).await?;
        assert!(space(&tab.get(begun.next()?).await?).contains("checked"));
        Ok(())
    })
}

#[test]
fn a_name_that_a_client_chose_is_marked_beside_its_redirect_host_rv_52() -> Result<()> {
    with_server(async |server| {
        let body = json!({ "client_name": "Service command line", "redirect_uris": ["https://evil.test/cb"] });
        let made = server.http.post("/oauth/register", &body).await?;
        assert_eq!(made.status, 201, "{}", made.text);
        let client = made.field("client_id").to_owned();
        let tab = Tab::open(server)?;
        let address = asking(&client, &[("redirect_uri", "https://evil.test/cb")]);
        let begun = tab.get(&address).await?;
        let page = tab.get(begun.next()?).await?;
        assert!(page.text.contains("evil.test") && !page.text.contains("Service command line"), "{}", page.text);
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let page = tab.get(shown.next()?).await?;
        let heading = page.text.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next()).unwrap_or_default();
        assert!(heading.contains("evil.test") && !heading.contains("Service"), "{heading}");
        assert!(page.text.contains("Unverified name") && page.text.contains("calls itself"), "{}", page.text);
        let done = tab.submit(shown.next()?, &[("decision", "allow"), ("space", "personal")]).await?;
        let mut body = exchange(&client, &code(&done)?);
        body["redirect_uri"] = json!("https://evil.test/cb");
        assert_eq!(server.http.post("/oauth/token", &body).await?.status, 200);
        for path in ["/account/apps", "/account/sessions"] {
            assert!(tab.get(path).await?.text.contains("Unverified name"), "{path}");
        }
        Ok(())
    })
}

#[test]
fn a_code_from_before_a_consent_was_narrowed_is_worth_nothing() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let address = asking(&client, &[("scope", "read write")]);
        let wide = go_through(server, &tab, &address, "ann@acme.test").await?;
        let narrow = tab.get(&asking(&client, &[("scope", "read")])).await?;
        let begun = tab.get(&asking(&client, &[("scope", "read write"), ("prompt", "consent")])).await?;
        agree(&tab, begun, &[("space", "personal"), ("scope.read", "true")]).await?;
        let refused = server.http.post("/oauth/token", &exchange(&client, &code(&wide)?)).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (400, "invalid_grant"), "{}", refused.text);
        // What the person left is enough for the other code.
        assert_eq!(redeem(server, &client, &narrow).await?.field("scope"), "read");
        assert_eq!(server.sql("select count(*) from grants").await?.as_deref(), Some("1"));
        Ok(())
    })
}

/// Sends a request while the user is locked, narrows the consent to `read` when the request waits, and lets it go on.
async fn narrow_meanwhile(server: &TestServer, request: impl Future<Output = Result<Shown>>) -> Result<Shown> {
    let held = server.app.database.begin().await?;
    held.execute("select from users for update", &[]).await?;
    let narrow = async {
        while server.sql("select count(*) from pg_locks where not granted").await?.as_deref() == Some("0") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        held.execute("update consents set scopes = 'read'", &[]).await?;
        held.commit().await?;
        anyhow::Ok(())
    };
    let (shown, narrowed) = tokio::join!(request, narrow);
    narrowed?;
    shown
}

#[test]
fn a_consent_that_is_narrowed_meanwhile_is_not_widened_by_what_was_read_before() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let wide = asking(&client, &[("scope", "read write")]);
        go_through(server, &tab, &wide, "ann@acme.test").await?;
        // Silently.
        let shown = narrow_meanwhile(server, tab.get(&wide)).await?;
        assert!(shown.next()?.starts_with("/consent/"), "a code for what is no longer agreed to: {:?}", shown.location);
        assert_eq!(server.sql("select count(*) from authorization_codes").await?.as_deref(), Some("1"));
        server.sql("update consents set scopes = 'read write'").await?;
        // With the person's decision about something else.
        let begun = tab.get(&asking(&client, &[("scope", "audit:read")])).await?;
        let path = begun.next()?.to_owned();
        tab.get(&path).await?;
        let fields = [("decision", "allow"), ("space", "personal")];
        let done = narrow_meanwhile(server, tab.submit(&path, &fields)).await?;
        assert!(done.parameter("code").is_some(), "{}", done.text);
        assert_eq!(server.sql("select scopes from consents").await?.as_deref(), Some("read audit:read"));
        Ok(())
    })
}
