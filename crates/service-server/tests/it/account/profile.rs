//! The account itself: the name that members of the user's workspaces see.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::{Value, json};
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, with_server},
};

use crate::support::{
    new_sign_ins::ANN,
    passkeys::signed_in_tab,
    workspaces::{invite, join, make, send},
};

const PATH: &str = "/v1/account";
const BOB: &str = "bob@acme.test";

async fn rename(server: &TestServer, who: &SignedIn, name: &str) -> Result<TestResponse> {
    let request = server.http.request(Method::PATCH, PATH).bearer_auth(&who.access_token);
    server.http.send(request.json(&json!({ "name": name }))).await
}

/// The name that a member of a workspace sees of Ann.
async fn seen(server: &TestServer, by: &SignedIn, workspace: &str) -> Result<Option<String>> {
    let listed = send(server, "GET", &format!("/v1/workspaces/{workspace}/members"), by, None).await?;
    let members = listed.body["data"].as_array().with_context(|| listed.text.clone())?;
    let ann = members.iter().find(|member| member["email"] == ANN).context("Ann is no member")?;
    Ok(ann.get("name").and_then(Value::as_str).map(str::to_owned))
}

async fn renamed_events(server: &TestServer) -> Result<Option<String>> {
    server.sql("select count(*)::text from audit_events where event = 'account.renamed'").await
}

#[test]
fn members_of_a_workspace_see_the_name_until_it_is_removed_pn_01() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let docks = make(server, &ann, "Docks").await?;
        invite(server, &ann, &docks, BOB, "member").await?;
        let bob = join(server, BOB).await?;
        assert_eq!(seen(server, &bob, &docks).await?, None);

        let renamed = rename(server, &ann, "  Ann \"Dock\" Lee & Co ").await?;
        assert_eq!(renamed.status, 200, "{}", renamed.text);
        let own = server.http.get(PATH, Some(&ann.access_token)).await?;
        assert_eq!(own.body, renamed.body);
        assert_eq!(
            (own.field("email"), own.field("name"), own.field("id")),
            (ANN, "Ann \"Dock\" Lee & Co", &*ann.user_id.to_string())
        );
        assert_eq!(seen(server, &bob, &docks).await?.as_deref(), Some("Ann \"Dock\" Lee & Co"));
        let tab = signed_in_tab(server, BOB).await?;
        let page = tab.get(&format!("/workspaces/{docks}")).await?;
        assert!(page.text.contains("<bdi>Ann &#34;Dock&#34; Lee &#38; Co</bdi>"), "{}", page.text);

        let removed = rename(server, &ann, " ").await?;
        assert!(removed.status == 200 && removed.body.get("name").is_none(), "{}", removed.text);
        assert_eq!(seen(server, &bob, &docks).await?, None);
        assert_eq!(renamed_events(server).await?.as_deref(), Some("2"));
        Ok(())
    })
}

#[test]
fn a_name_that_misleads_is_refused_and_the_largest_one_is_kept_pn_02() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let largest = "ä".repeat(80);
        assert_eq!(rename(server, &ann, &largest).await?.field("name"), largest);
        for (name, why) in [
            ("eve@acme.test", "can't contain @"),
            ("eve＠acme.test", "can't contain @"),
            ("Service", "is reserved"),
            ("https://evil.test", "can't contain ://"),
            ("Ann\u{202e}eeL", "hide or reorder"),
            (&*"n".repeat(81), "must be 1 to 80 characters"),
        ] {
            let refused = rename(server, &ann, name).await?;
            assert!(refused.status == 422 && refused.error() == "validation_failed", "{name}: {}", refused.text);
            assert!(refused.text.contains(why), "{name}: {}", refused.text);
        }
        for body in [
            json!({}),
            json!({ "name": null }),
            json!({ "name": 1 }),
            json!({ "name": "Ann", "email": "eve@acme.test" }),
        ] {
            let request = server.http.request(Method::PATCH, PATH).bearer_auth(&ann.access_token).json(&body);
            let refused = server.http.send(request).await?;
            assert!(matches!(refused.status.as_u16(), 400 | 422), "{body}: {}", refused.text);
        }
        assert_eq!(server.http.get(PATH, Some(&ann.access_token)).await?.field("name"), largest);
        assert_eq!(renamed_events(server).await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn twenty_names_a_day_are_enough_and_the_same_one_does_not_count_pn_03() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        for number in 0..20 {
            for _ in 0..2 {
                assert_eq!(rename(server, &ann, &format!("Ann {number}")).await?.status, 200);
            }
        }
        let refused = rename(server, &ann, "Ann once more").await?;
        assert!(refused.status == 429 && refused.header("retry-after").is_some(), "{}", refused.text);
        assert_eq!(server.http.get(PATH, Some(&ann.access_token)).await?.field("name"), "Ann 19");
        assert_eq!(renamed_events(server).await?.as_deref(), Some("20"));
        assert_eq!(rename(server, &server.sign_in(BOB, "read write").await?, "Bob").await?.status, 200);
        Ok(())
    })
}

#[test]
fn who_is_no_member_is_not_told_the_name_pn_04() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let docks = make(server, &ann, "Docks").await?;
        assert_eq!(rename(server, &ann, "Annabelle").await?.status, 200);
        invite(server, &ann, &docks, BOB, "member").await?;
        let mail = server.mailbox.next_mail_to(BOB).await?;
        assert!(mail.text.contains(ANN) && !(mail.text + &mail.html).contains("Annabelle"), "the mail has it");
        let tab = signed_in_tab(server, BOB).await?;
        for path in ["/account", "/workspaces"] {
            let page = tab.get(path).await?;
            assert!(page.text.contains(ANN) && !page.text.contains("Annabelle"), "{}", page.text);
        }
        Ok(())
    })
}

#[test]
fn the_account_page_changes_the_name_and_says_what_is_wrong_with_another_pn_05() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in_tab(server, ANN).await?;
        let page = tab.get("/account").await?;
        assert!(
            page.text.contains("<input id=\"name\" name=\"name\" type=\"text\" value=\"\" maxlength=\"80\""),
            "{}",
            page.text
        );
        let done = tab.submit("/account/name", &[("name", "Ann \"Dock\" Lee")]).await?.next()?.to_owned();
        let page = tab.get(&done).await?;
        assert!(page.text.contains("Your name is now Ann &#34;Dock&#34; Lee."), "{}", page.text);
        assert!(page.text.contains("value=\"Ann &#34;Dock&#34; Lee\""), "{}", page.text);
        let refused = tab.submit("/account/name", &[("name", "ann@acme.test")]).await?;
        assert!(refused.status == 400 && refused.text.contains("The name can’t contain an @."), "{}", refused.text);
        assert!(refused.text.contains("value=\"ann@acme.test\""), "what was entered is gone: {}", refused.text);
        let activity = tab.get("/account/activity").await?;
        assert!(activity.text.contains("Name changed"), "{}", activity.text);
        let done = tab.submit("/account/name", &[("name", "")]).await?.next()?.to_owned();
        assert!(tab.get(&done).await?.text.contains("Your name was removed."));
        Ok(())
    })
}
