//! Asking the user back: to confirm a deletion, and where to create something.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_api::workspaces::Role;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, with_server},
    tab::Tab,
};

use crate::support::{
    contents::make,
    mcp::{NEWEST, call, done, refused, send, token},
    mcp_tokens,
};

/// A pack of the user, and a token that may delete it.
async fn pack(server: &TestServer, user: &SignedIn) -> Result<(String, String)> {
    let (id, _) = make(server, "/v1/packs", user, &json!({ "name": "Tone", "type": "context" })).await?;
    Ok((id, token(server, user, "read write").await?))
}

/// The id of the confirmation that a text asks for.
fn confirmation_in(text: &str) -> Result<String> {
    let id = text.split('"').nth(1).context("no confirmation")?;
    anyhow::ensure!(text.contains(&format!("/confirm/{id}")), "{text}");
    Ok(id.to_owned())
}

/// A browser in which the user is signed in.
async fn browser(server: &TestServer, email: &str) -> Result<Tab> {
    server.advance(61);
    let tab = Tab::open(server)?;
    let begun = tab.get("/sign-in").await?;
    tab.sign_in(&server.mailbox, begun.next()?, email).await?;
    // A page with a form, so that the tab has something to send.
    tab.get("/account").await?;
    Ok(tab)
}

async fn exists(server: &TestServer, token: &str, id: &str) -> Result<bool> {
    let response = call(server, token, "get_pack", &json!({ "packId": id })).await?;
    Ok(response.body["result"]["isError"] == false)
}

#[test]
fn nothing_is_deleted_before_its_user_has_confirmed_it_in_a_browser() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (id, token) = pack(server, &ann).await?;
        let arguments = json!({ "packId": id });
        let confirmation = confirmation_in(&refused(server, &token, "delete_pack", &arguments).await?)?;
        let with = json!({ "packId": id, "confirmation": confirmation });
        let again = refused(server, &token, "delete_pack", &with).await?;
        assert!(again.starts_with("Nothing was deleted yet") && exists(server, &token, &id).await?);

        let tab = browser(server, "ann@acme.test").await?;
        let path = format!("/confirm/{confirmation}");
        let page = tab.get(&path).await?;
        assert!(page.status == 200 && page.text.contains("Tone"), "{}", page.text);
        let answered = tab.submit(&path, &[("decision", "delete")]).await?;
        assert!(answered.status == 200 && answered.text.contains("Deletion confirmed"), "{}", answered.text);
        assert!(exists(server, &token, &id).await?, "the page deleted it");
        assert_eq!(done(server, &token, "delete_pack", &with).await?, json!({ "id": id, "deleted": true }));
        assert!(!exists(server, &token, &id).await?);
        // A confirmation counts once.
        let used = refused(server, &token, "delete_pack", &with).await?;
        assert!(used.contains("was used"), "{used}");
        Ok(())
    })
}

#[test]
fn a_confirmation_is_of_one_user_one_client_one_content_and_ten_minutes() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner), (bob.user_id, Role::Owner)]).await?;
        let make = async |name: &str| {
            let path = format!("/v1/packs?workspaceId={acme}");
            Ok::<_, anyhow::Error>(make(server, &path, &ann, &json!({ "name": name, "type": "context" })).await?.0)
        };
        let (one, other) = (make("One").await?, make("Other").await?);
        let (ann_token, bob_token) =
            (token(server, &ann, "read write").await?, token(server, &bob, "read write").await?);
        let ask = async |token: &str, id: &str, confirmation: Option<&str>| {
            let mut arguments = json!({ "packId": id, "workspaceId": acme });
            if let Some(confirmation) = confirmation {
                arguments["confirmation"] = json!(confirmation);
            }
            refused(server, token, "delete_pack", &arguments).await
        };
        let confirmation = confirmation_in(&ask(&ann_token, &one, None).await?)?;
        let path = format!("/confirm/{confirmation}");
        let foreign = browser(server, "bob@acme.test").await?;
        assert_eq!(foreign.get(&path).await?.status, 404, "another user sees it");
        assert_eq!(foreign.submit(&path, &[("decision", "delete")]).await?.status, 404, "another user confirms it");
        let tab = browser(server, "ann@acme.test").await?;
        assert_eq!(tab.submit(&path, &[("decision", "delete")]).await?.status, 200);
        assert_eq!(tab.submit(&path, &[("decision", "keep")]).await?.status, 404, "answered twice");
        for (name, token, id) in [("another user", &bob_token, &one), ("another content", &ann_token, &other)] {
            let text = ask(token, id, Some(&confirmation)).await?;
            assert!(text.contains("is for something else"), "{name}: {text}");
        }
        server.sql("update confirmations set client_id = 'client_other'").await?;
        assert!(ask(&ann_token, &one, Some(&confirmation)).await?.contains("is for something else"), "another client");
        server.sql("update confirmations set client_id = 'service-mcp'").await?;
        server.advance(601);
        assert!(ask(&ann_token, &one, Some(&confirmation)).await?.contains("has expired"), "after ten minutes");
        Ok(())
    })
}

#[test]
fn a_user_who_denies_a_deletion_keeps_the_content_and_both_answers_are_events() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (id, token) = pack(server, &ann).await?;
        let confirmation = confirmation_in(&refused(server, &token, "delete_pack", &json!({ "packId": id })).await?)?;
        let tab = browser(server, "ann@acme.test").await?;
        let kept = tab.submit(&format!("/confirm/{confirmation}"), &[("decision", "keep")]).await?;
        assert!(kept.text.contains("Nothing was deleted"), "{}", kept.text);
        let with = json!({ "packId": id, "confirmation": confirmation });
        assert!(refused(server, &token, "delete_pack", &with).await?.contains("decided against"));
        assert!(exists(server, &token, &id).await?);
        let events = server.sql("select count(*) from audit_events where event = 'content.deletion_denied'").await?;
        assert_eq!(events.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn at_most_fifty_deletions_of_a_client_wait_and_one_for_each_content() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (first, token) = pack(server, &ann).await?;
        let ask = async |id: &str| refused(server, &token, "delete_pack", &json!({ "packId": id })).await;
        let waiting = confirmation_in(&ask(&first).await?)?;
        for _ in 0..60 {
            assert_eq!(confirmation_in(&ask(&first).await?)?, waiting, "asked twice");
        }
        let mut packs = Vec::new();
        for _ in 0..50 {
            packs.push(make(server, "/v1/packs", &ann, &json!({ "name": "Tone", "type": "context" })).await?.0);
        }
        for id in &packs[..49] {
            confirmation_in(&ask(id).await?)?;
        }
        let text = ask(&packs[49]).await?;
        assert!(text.starts_with("50 deletions wait"), "{text}");
        // Other apps of the user are not concerned, and an answer makes room.
        server.sql("update confirmations set client_id = 'client_other' where confirmed is null").await?;
        confirmation_in(&ask(&packs[49]).await?)?;
        server.sql("update confirmations set client_id = 'service-mcp', confirmed = true").await?;
        confirmation_in(&ask(&packs[48]).await?)?;
        Ok(())
    })
}

#[test]
fn a_content_that_was_changed_after_its_user_was_asked_is_not_deleted() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (id, token) = pack(server, &ann).await?;
        let confirmation = confirmation_in(&refused(server, &token, "delete_pack", &json!({ "packId": id })).await?)?;
        let tab = browser(server, "ann@acme.test").await?;
        let path = format!("/confirm/{confirmation}");
        assert_eq!(tab.submit(&path, &[("decision", "delete")]).await?.status, 200);
        done(server, &token, "update_pack", &json!({ "packId": id, "text": "Something else" })).await?;
        let text =
            refused(server, &token, "delete_pack", &json!({ "packId": id, "confirmation": confirmation })).await?;
        assert!(text.contains("changed after the user was asked") && exists(server, &token, &id).await?, "{text}");
        // What waits is of the version that is gone, too.
        let waiting = confirmation_in(&refused(server, &token, "delete_pack", &json!({ "packId": id })).await?)?;
        done(server, &token, "update_pack", &json!({ "packId": id, "text": "Once more" })).await?;
        assert_eq!(tab.get(&format!("/confirm/{waiting}")).await?.status, 404, "the page shows another version");
        Ok(())
    })
}

/// Calls a tool as a client that can ask its user in these ways, with what an earlier round gave.
async fn ask(server: &TestServer, token: &str, can: &Value, params: &Value) -> Result<TestResponse> {
    let mut params = params.clone();
    params["_meta"] = json!({ "capabilities": { "elicitation": can } });
    send(server, token, NEWEST, "tools/call", &params).await
}

#[test]
fn a_client_that_can_open_a_page_is_asked_to() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (id, token) = pack(server, &ann).await?;
        let call = json!({ "name": "delete_pack", "arguments": { "packId": id } });
        let asked = ask(server, &token, &json!({ "url": {} }), &call).await?;
        let result = &asked.body["result"];
        assert_eq!(result["resultType"], "input_required", "{}", asked.text);
        let (question, state) = (&result["inputRequests"]["question"], &result["requestState"]);
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["mode"], "url");
        let url = question["params"]["url"].as_str().context("no url")?;
        assert!(url.ends_with(state.as_str().context("no state")?), "{url}");

        let mut answered = call.clone();
        answered["requestState"] = state.clone();
        answered["inputResponses"] = json!({ "question": { "action": "accept" } });
        let early = ask(server, &token, &json!({ "url": {} }), &answered).await?;
        assert_eq!(early.body["result"]["isError"], true, "the client says so, and the user has not confirmed");
        let tab = browser(server, "ann@acme.test").await?;
        let path = format!("/confirm/{}", state.as_str().unwrap_or_default());
        assert_eq!(tab.submit(&path, &[("decision", "delete")]).await?.status, 200);
        let done = ask(server, &token, &json!({ "url": {} }), &answered).await?;
        assert_eq!(done.body["result"]["structuredContent"]["deleted"], true, "{}", done.text);

        answered["inputResponses"] = json!({ "question": { "action": "decline" } });
        let declined = ask(server, &token, &json!({ "url": {} }), &answered).await?;
        assert_eq!(declined.body["result"]["isError"], true);
        Ok(())
    })
}

#[test]
fn a_client_that_can_show_a_form_is_asked_where_unless_something_says_it() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?;
        server.make_workspace("Read only", &[(ann.user_id, Role::Viewer)]).await?;
        let open = token(server, &ann, "read write").await?;
        let body = json!({ "scope": "read write", "workspaceId": acme });
        let bound = mcp_tokens::pair(server, &ann, &body).await?.access_token;
        let call = json!({ "name": "create_project", "arguments": { "name": "Pier" } });
        let asked = ask(server, &open, &json!({ "form": {} }), &call).await?;
        let question = &asked.body["result"]["inputRequests"]["question"]["params"];
        let property = &question["requestedSchema"]["properties"]["workspaceId"];
        assert!(property.to_string().contains("Acme") && !property.to_string().contains("Read only"), "{}", asked.text);

        let mut answered = call.clone();
        answered["inputResponses"] = json!({ "question": { "action": "accept", "content": { "workspaceId": acme } } });
        let made = ask(server, &open, &json!({ "form": {} }), &answered).await?;
        assert_eq!(made.body["result"]["structuredContent"]["workspaceId"], json!(acme), "{}", made.text);
        // A client that may not list workspaces does not learn of them by a question.
        let narrow = token(server, &ann, "projects:write").await?;
        let made = ask(server, &narrow, &json!({ "form": {} }), &call).await?;
        assert_eq!(made.body["result"]["structuredContent"]["scope"], "personal", "{}", made.text);
        // A token with a workspace of its own, and a client that cannot ask.
        let made = ask(server, &bound, &json!({ "form": {} }), &call).await?;
        assert_eq!(made.body["result"]["structuredContent"]["workspaceId"], json!(acme), "{}", made.text);
        let made = ask(server, &open, &json!(null), &call).await?;
        assert_eq!(made.body["result"]["structuredContent"]["scope"], "personal", "{}", made.text);
        Ok(())
    })
}
