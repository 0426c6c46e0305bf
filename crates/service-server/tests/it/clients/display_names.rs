//! Names that other people read: of workspaces, shared content, clients and tokens.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_api::workspaces::Role;
use service_testkit::{server::with_server, tab::Tab};

use crate::support::{
    authorize::{CALLBACK, asking, register},
    workspaces::{make, send},
};

const HOSTILE: [&str; 12] = [
    "see https://evil.test",
    "https://evil.test",
    "<b>Harbour</b>",
    "a\u{202e}b",
    "a\u{2066}b\u{2069}",
    "a\u{200b}b",
    "a\u{200d}b",
    "a\u{feff}b",
    "a\u{3164}b",
    "P\u{430}yments",
    "Your personal space",
    "Your personaI  space",
];

#[test]
fn a_name_that_others_read_cannot_lead_hide_or_pretend_rv_03() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Customer Service").await?;
        for name in HOSTILE {
            for (method, path) in [
                ("POST", "/v1/workspaces".to_owned()),
                ("PATCH", format!("/v1/workspaces/{id}")),
                ("POST", "/v1/cli/tokens".to_owned()),
            ] {
                let refused = send(server, method, &path, &ann, Some(&json!({ "name": name }))).await?;
                assert_eq!((refused.status.as_u16(), refused.error()), (422, "validation_failed"), "{path} {name:?}");
                assert!(refused.body["details"]["fields"]["name"].is_string(), "{}", refused.text);
            }
            assert!(crate::support::admin::run(server, &["client", "create", name]).is_err(), "{name:?}");
        }
        for name in ["👩🏽‍💻 Family 👨‍👩‍👧‍👦 ☀️", "تیم می‌خواهم", "प्रोजेक्ट क्‍ष", "日本語 T"]
        {
            let made = send(server, "POST", "/v1/workspaces", &ann, Some(&json!({ "name": name }))).await?;
            assert_eq!((made.status.as_u16(), made.field("name")), (201, name));
        }
        Ok(())
    })
}

#[test]
fn an_unverified_client_is_named_without_what_leads_or_hides_rv_03() -> Result<()> {
    with_server(async |server| {
        for (said, name) in [
            ("see https://evil.test", "see https evil.test"),
            ("a\u{202e}b\u{2066}c\u{2069}", "abc"),
            ("a\u{200b}b\u{200d}c\u{feff}", "abc"),
            ("a\u{3164}b\u{e000}c", "abc"),
            ("\u{3164}", "app.test"),
        ] {
            let body = json!({ "redirect_uris": ["https://app.test/cb"], "client_name": said });
            let registered = server.http.post("/oauth/register", &body).await?;
            assert_eq!((registered.status.as_u16(), registered.field("client_name")), (201, name), "{said:?}");
        }
        Ok(())
    })
}

#[test]
fn the_record_names_a_client_as_the_operator_did() -> Result<()> {
    with_server(async |server| {
        crate::support::admin::run(server, &["client", "create", "Harbour backend"])?;
        let recorded = "select details->>'name' from audit_events where event = 'client.created'";
        assert_eq!(server.sql(recorded).await?.as_deref(), Some("Harbour backend"));
        Ok(())
    })
}

#[test]
fn a_token_that_was_named_before_names_were_checked_is_rotated() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let made = send(server, "POST", "/v1/cli/tokens", &ann, Some(&json!({ "name": "Build" }))).await?;
        server.leaks.register("CLI token", made.field("access_token"));
        server.sql("update cli_tokens set name = 'a > b'").await?;
        let path = format!("/v1/cli/tokens/{}/rotate", made.field("id"));
        let rotated = send(server, "POST", &path, &ann, Some(&json!({}))).await?;
        assert_eq!((rotated.status.as_u16(), rotated.field("name")), (201, "a > b"), "{}", rotated.text);
        server.leaks.register("CLI token", rotated.field("access_token"));
        Ok(())
    })
}

#[test]
fn content_that_others_read_has_a_name_for_others_rv_03() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        let shared = format!("/v1/projects?workspaceId={id}");
        let hostile = json!({ "name": "see https://evil.test" });
        let refused = send(server, "POST", &shared, &ann, Some(&hostile)).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (422, "validation_failed"), "{}", refused.text);
        // In personal space no other user reads it; it cannot be moved to a workspace.
        let own = send(server, "POST", "/v1/projects", &ann, Some(&hostile)).await?;
        assert_eq!(own.status, 201, "{}", own.text);
        let path = format!("/v1/projects/{}?workspaceId={id}", own.field("id"));
        let moved = send(server, "PATCH", &path, &ann, Some(&json!({ "scope": "workspace" }))).await?;
        assert_eq!((moved.status.as_u16(), moved.error()), (422, "validation_failed"), "{}", moved.text);
        let moved = send(server, "PATCH", &path, &ann, Some(&json!({ "scope": "workspace", "name": "Docs" }))).await?;
        assert_eq!(moved.status, 200, "{}", moved.text);
        // What was named before stays, and can be changed in all but its name.
        let sql = "update contents set fields = jsonb_set(fields, '{name}', '\"a > b\"')";
        server.sql(sql).await?;
        let kept = send(server, "PATCH", &path, &ann, Some(&json!({ "scope": "workspace" }))).await?;
        assert_eq!(kept.status, 200, "{}", kept.text);
        let refused = send(server, "PATCH", &path, &ann, Some(&json!({ "name": "c > d" }))).await?;
        assert_eq!(refused.status, 422, "{}", refused.text);
        Ok(())
    })
}

#[test]
fn personal_space_is_set_apart_and_a_workspace_shows_its_owner_rv_03() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        // From before names were checked.
        let members = [(ann.user_id, Role::Member), (bob.user_id, Role::Owner)];
        server.make_workspace("<i>Your personal space</i>", &members).await?;
        server.advance(61);
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let begun = tab.get(&asking(&client, &[])).await?;
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let consent = tab.get(shown.next()?).await?;
        let picks = consent.text.split("<label class=\"pick\">").skip(1);
        let picks: Vec<_> = picks.filter(|pick| pick.contains("name=\"space\"")).collect();
        assert_eq!(picks.len(), 2, "{}", consent.text);
        let personal = picks.iter().find(|pick| pick.contains("value=\"personal\"")).context("no personal space")?;
        assert!(personal.contains("only you can see it") && !personal.contains("Workspace of"), "{personal}");
        let workspace = picks.iter().find(|pick| pick.contains("value=\"wsp_")).context("no workspace")?;
        assert!(workspace.contains("Workspace of <bdi>bob@acme.test</bdi>"), "{workspace}");
        assert!(workspace.contains("&#60;i&#62;Your personal space"), "{workspace}");
        for path in ["/account/workspaces", "/workspaces"] {
            let page = tab.get(path).await?;
            assert!(page.text.contains("bob@acme.test") && !page.text.contains("<i>"), "{path}: {}", page.text);
        }
        Ok(())
    })
}
