//! Creating a token on its page: the form, and the page that shows the secret once.

use anyhow::{Context as _, Result};
use service_testkit::{
    server::{TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::authorize::{CALLBACK, asking, go_through, register};

const CREATE: &str = "/account/tokens";

async fn signed_in(server: &TestServer) -> Result<Tab> {
    let client = register(server, "Web app", &[CALLBACK]).await?;
    let tab = Tab::open(server)?;
    go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
    Ok(tab)
}

/// The key of the form on a page.
fn key(page: &Shown) -> Result<String> {
    let found = page.text.split("name=\"key\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    Ok(found.context("a form without a key")?.to_owned())
}

fn secret(server: &TestServer, page: &Shown) -> Result<String> {
    let token = page.text.split("SERVICE_TOKEN=").nth(1).and_then(|rest| rest.split('<').next()).context("no token")?;
    server.leaks.register("access_token", token);
    Ok(token.to_owned())
}

async fn tokens(server: &TestServer) -> Result<Option<String>> {
    server.sql("select count(*) from cli_tokens").await
}

#[test]
fn a_new_token_is_shown_with_both_variables_in_full_fh_08() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in(server).await?;
        let form = tab.get(CREATE).await?;
        assert!(form.text.contains("<option value=\"90\" selected>90 days</option>"), "{}", form.text);
        let key = key(&form)?;
        let fields = [("key", key.as_str()), ("name", "Build server"), ("space", "personal"), ("read", "true")];
        let made = tab.submit(CREATE, &[&fields[..], &[("days", "30")]].concat()).await?;
        let token = secret(server, &made)?;
        assert!(made.status == 201 && made.location.is_none() && made.headers["cache-control"] == "no-store");
        assert!(made.text.contains("<code>SERVICE_API_URL=https://service.test</code>"), "{}", made.text);
        assert!(made.text.contains(&format!("<code>SERVICE_TOKEN={token}</code>")), "{}", made.text);
        assert!(made.text.contains("Build server") && !made.text.contains("Ctrl"), "{}", made.text);
        assert_eq!(server.http.get("/v1/whoami", Some(&token)).await?.status, 200);
        let style = tab.get("/assets/style.css").await?;
        assert!(style.text.contains(".usage, .secret { -webkit-user-select: all; user-select: all; }"));
        Ok(())
    })
}

#[test]
fn a_form_that_is_sent_again_creates_no_second_token_fh_08() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in(server).await?;
        let key = key(&tab.get(CREATE).await?)?;
        let fields = [("key", key.as_str()), ("name", "ci"), ("space", "personal"), ("read", "true"), ("days", "7")];
        let token = secret(server, &tab.submit(CREATE, &fields).await?)?;
        let again = tab.submit(CREATE, &fields).await?;
        assert_eq!((again.status.as_u16(), tokens(server).await?.as_deref()), (409, Some("1")));
        assert!(again.text.contains("we showed it once") && !again.text.contains(&token), "{}", again.text);
        // The page has a form with a key of its own.
        let fresh = self::key(&again)?;
        assert_ne!(fresh, key);
        let next = tab.submit(CREATE, &[&[("key", fresh.as_str())], &fields[1..]].concat()).await?;
        secret(server, &next)?;
        assert_eq!((next.status.as_u16(), tokens(server).await?.as_deref()), (201, Some("2")));
        // A key is the user's own.
        let bob = Tab::open(server)?;
        let client = register(server, "Other app", &[CALLBACK]).await?;
        go_through(server, &bob, &asking(&client, &[]), "bob@acme.test").await?;
        bob.get(CREATE).await?;
        secret(server, &bob.submit(CREATE, &fields).await?)?;
        Ok(())
    })
}

#[test]
fn a_form_without_permissions_is_refused_at_the_field_fh_08() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in(server).await?;
        tab.get(CREATE).await?;
        let refused = tab.submit(CREATE, &[("name", "Build server"), ("space", "personal"), ("days", "30")]).await?;
        assert_eq!((refused.status.as_u16(), tokens(server).await?.as_deref()), (422, Some("0")));
        let message = "id=\"scopes-problem\" role=\"alert\">Choose at least one permission.</p>";
        for part in [
            message,
            "<fieldset aria-describedby=\"scopes-problem\">",
            "value=\"Build server\"",
            "<option value=\"30\" selected>",
        ] {
            assert!(refused.text.contains(part), "{part}: {}", refused.text);
        }
        for (fields, part) in [
            (vec![("name", ""), ("space", "personal"), ("read", "true"), ("days", "7")], "id=\"name-problem\""),
            (vec![("name", "ci"), ("space", "personal"), ("read", "true"), ("days", "999")], "id=\"days-problem\""),
        ] {
            let refused = tab.submit(CREATE, &fields).await?;
            assert!(refused.status == 422 && refused.text.contains(part), "{}: {}", refused.status, refused.text);
        }
        assert_eq!(tokens(server).await?.as_deref(), Some("0"));
        Ok(())
    })
}
