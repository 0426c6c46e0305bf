//! Access that the person narrows: read only in one click, what a client keeps when it asks for more, and what is taken back.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_testkit::{
    response::TestResponse,
    server::{TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::authorize::{CALLBACK, agree, asking, code, exchange, go_through, register};

const PERSONAL: (&str, &str) = ("space", "personal");

/// Tokens for the code that the browser was sent away with.
async fn redeem(server: &TestServer, client: &str, done: &Shown) -> Result<TestResponse> {
    let response = server.http.post("/oauth/token", &exchange(client, &code(done)?)).await?;
    assert_eq!(response.status, 200, "{}", response.text);
    Ok(response)
}

async fn is_alive(server: &TestServer, tokens: &TestResponse) -> Result<bool> {
    Ok(server.http.get("/v1/whoami", Some(tokens.field("access_token"))).await?.status == 200)
}

/// The scopes that a consent page asks for, and those that it shows as held.
fn boxes(page: &Shown) -> (Vec<&str>, Vec<&str>) {
    let (asked, held) = page.text.split_once("It already can").unwrap_or((&page.text, ""));
    let names = |part| str::split(part, "name=\"scope.").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    (names(asked), names(held))
}

/// Approves with the button for reading only.
async fn agree_to_read(tab: &Tab, path: &str) -> Result<Shown> {
    let page = tab.get(path).await?;
    assert!(page.text.contains("value=\"allow-read\""), "{}", page.text);
    tab.submit(path, &[("decision", "allow-read"), PERSONAL]).await
}

#[test]
fn read_only_is_one_click_and_the_rest_is_asked_for_later_rv_14() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let both = asking(&client, &[("scope", "read write packs:write audit:read")]);
        let begun = tab.get(&both).await?;
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let done = agree_to_read(&tab, shown.next()?).await?;
        let narrow = redeem(server, &client, &done).await?;
        assert_eq!(narrow.field("scope"), "read audit:read");
        let token = narrow.field("access_token").to_owned();
        let request = server.http.request(reqwest::Method::POST, "/v1/projects").bearer_auth(&token);
        let refused = server.http.send(request.json(&json!({ "name": "Mine" }))).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (403, "insufficient_scope"));
        assert_eq!(server.sql("select scopes from consents").await?.as_deref(), Some("read audit:read"));
        // The same request again asks for what is missing only.
        let begun = tab.get(&both).await?;
        let page = tab.get(begun.next()?).await?;
        assert_eq!(boxes(&page), (vec!["write", "packs:write"], vec!["read", "audit:read"]));
        let done = agree(&tab, begun, &[PERSONAL]).await?;
        assert_eq!(redeem(server, &client, &done).await?.field("scope"), "read write packs:write audit:read");
        assert!(is_alive(server, &narrow).await?, "a session with less is not revoked");
        // Where there is nothing to choose, there is no such button.
        let other = register(server, "Other app", &[CALLBACK]).await?;
        for one_sided in ["read audit:read", "write"] {
            let begun = tab.get(&asking(&other, &[("scope", one_sided)])).await?;
            assert!(!tab.get(begun.next()?).await?.text.contains("allow-read"), "{one_sided}");
        }
        // With nothing to read ticked, nothing is granted.
        let begun = tab.get(&asking(&other, &[("scope", "read write")])).await?;
        let fields = [("decision", "allow-read"), PERSONAL, ("scope.write", "true")];
        tab.get(begun.next()?).await?;
        let denied = tab.submit(begun.next()?, &fields).await?;
        assert_eq!(denied.parameter("error").as_deref(), Some("access_denied"), "{:?}", denied.location);
        Ok(())
    })
}

#[test]
fn a_client_that_asks_for_more_keeps_what_it_has_and_gets_nothing_unseen_rv_14() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let first = go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        assert_eq!(redeem(server, &client, &first).await?.field("scope"), "read");
        let more = asking(&client, &[("scope", "packs:write")]);
        let begun = tab.get(&more).await?;
        let page = tab.get(begun.next()?).await?;
        assert_eq!(boxes(&page), (vec!["packs:write"], vec!["read"]));
        let done = agree(&tab, begun, &[PERSONAL]).await?;
        assert_eq!(redeem(server, &client, &done).await?.field("scope"), "read packs:write");
        // Without a page it gets what it asks for, and no more.
        let silent = tab.get(&more).await?;
        assert_eq!(redeem(server, &client, &silent).await?.field("scope"), "packs:write");
        let silent = tab.get(&asking(&client, &[("prompt", "none"), ("scope", "packs:read")])).await?;
        assert_eq!(redeem(server, &client, &silent).await?.field("scope"), "packs:read");
        // What it has at one address it does not have at another, nor has another client.
        let elsewhere = register(server, "Other app", &[CALLBACK]).await?;
        let begun = tab.get(&asking(&elsewhere, &[("scope", "packs:write")])).await?;
        assert_eq!(boxes(&tab.get(begun.next()?).await?), (vec!["packs:write"], vec![]));
        let forged = [PERSONAL, ("scope.packs:write", "true"), ("scope.read", "true")];
        let done = agree(&tab, begun, &forged).await?;
        assert_eq!(redeem(server, &elsewhere, &done).await?.field("scope"), "packs:write");
        Ok(())
    })
}

#[test]
fn unticking_what_a_client_has_takes_it_from_its_sessions_too_rv_14() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let wide = asking(&client, &[("scope", "read audit:read")]);
        let wide = go_through(server, &tab, &wide, "ann@acme.test").await?;
        let wide = redeem(server, &client, &wide).await?;
        let narrow = redeem(server, &client, &tab.get(&asking(&client, &[])).await?).await?;
        // Plain `read` does not cover the audit events of the account.
        let begun = tab.get(&asking(&client, &[("scope", "write")])).await?;
        assert_eq!(boxes(&tab.get(begun.next()?).await?), (vec!["write"], vec!["read", "audit:read"]));
        let fields = [PERSONAL, ("scope.write", "true"), ("scope.read", "true")];
        let done = agree(&tab, begun, &fields).await?;
        let granted = redeem(server, &client, &done).await?;
        assert_eq!(granted.field("scope"), "read write");
        assert!(!is_alive(server, &wide).await?, "a session keeps what was taken back");
        assert!(is_alive(server, &narrow).await? && is_alive(server, &granted).await?);
        assert_eq!(server.sql("select scopes from consents").await?.as_deref(), Some("read write"));
        let begun = tab.get(&asking(&client, &[("scope", "audit:read")])).await?;
        assert!(begun.next()?.starts_with("/consent/"), "what was taken back came back");
        Ok(())
    })
}

#[test]
fn a_page_from_before_access_was_removed_gives_nothing_of_it_back() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let first = go_through(server, &tab, &asking(&client, &[("scope", "read write")]), "ann@acme.test").await?;
        redeem(server, &client, &first).await?;
        let old = tab.get(&asking(&client, &[("scope", "audit:read")])).await?;
        let page = tab.get(old.next()?).await?;
        assert_eq!(boxes(&page), (vec!["audit:read"], vec!["read", "write"]));
        // In another window the person removes the app.
        let apps = tab.get("/account/apps").await?;
        let remove = apps.text.split("href=\"").filter_map(|rest| rest.split('"').next());
        let remove = remove.into_iter().find(|path| path.ends_with("/remove")).context("no button")?.to_owned();
        tab.submit(&remove, &[]).await?;
        let fields = [
            ("decision", "allow"),
            PERSONAL,
            ("scope.audit:read", "true"),
            ("scope.read", "true"),
            ("scope.write", "true"),
        ];
        let done = tab.submit(old.next()?, &fields).await?;
        assert_eq!(redeem(server, &client, &done).await?.field("scope"), "audit:read");
        // Sent again, with more: the decision was made.
        let begun = tab.get(&asking(&client, &[("scope", "read write")])).await?;
        let path = begun.next()?.to_owned();
        agree_to_read(&tab, &path).await?;
        tab.get("/account/apps").await?;
        assert_eq!(tab.submit(&path, &[("decision", "allow"), PERSONAL, ("scope.write", "true")]).await?.status, 400);
        assert_eq!(tab.submit(&path, &[("decision", "allow"), PERSONAL, ("scope.nothing", "true")]).await?.status, 400);
        assert_eq!(server.sql("select scopes from consents").await?.as_deref(), Some("read audit:read"));
        Ok(())
    })
}

#[test]
fn a_sign_in_of_the_command_line_stands_for_itself() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let redirect_uri = "http://127.0.0.1:5000/callback";
        let redeem = async |done: &Shown| -> Result<TestResponse> {
            let mut body = exchange("service-cli", &code(done)?);
            body["redirect_uri"] = json!(redirect_uri);
            server.http.post("/oauth/token", &body).await
        };
        let address = asking("service-cli", &[("redirect_uri", redirect_uri), ("scope", "read write")]);
        let done = go_through(server, &tab, &address, "ann@acme.test").await?;
        let here = redeem(&done).await?;
        // On another machine, to read only. What is held elsewhere is not part of it, and stays as it is.
        let begun = tab.get(&address).await?;
        let page = tab.get(begun.next()?).await?;
        assert_eq!(boxes(&page), (vec!["read", "write"], vec![]));
        assert!(page.text.contains("Sign in read-only") && !page.text.contains("name=\"expires\""), "{}", page.text);
        let fields = [("decision", "allow-read"), PERSONAL, ("scope.read", "true"), ("expires", "1")];
        let done = tab.submit(begun.next()?, &fields).await?;
        let there = redeem(&done).await?;
        assert_eq!((there.field("scope"), here.field("scope")), ("read", "read write"));
        assert!(is_alive(server, &here).await? && is_alive(server, &there).await?);
        let days = "select string_agg(distinct extract(day from expires_at - created_at)::text, ' ') from grants";
        assert_eq!(server.sql(days).await?.as_deref(), Some("365"));
        Ok(())
    })
}
