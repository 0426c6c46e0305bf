//! `POST /v1/packs/search`: what is found, in which order, and by whom.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use service_api::workspaces::Role;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, with_server},
};

async fn make(server: &TestServer, who: &SignedIn, query: &str, name: &str, text: &str) -> Result<()> {
    let request = server.http.request(Method::POST, &format!("/v1/packs{query}")).bearer_auth(&who.access_token);
    let made = server.http.send(request.json(&json!({ "name": name, "type": "context", "text": text }))).await?;
    ensure!(made.status == 201, "{}", made.text);
    Ok(())
}

async fn search(server: &TestServer, token: &str, query: &str, body: &Value) -> Result<TestResponse> {
    let request = server.http.request(Method::POST, &format!("/v1/packs/search{query}")).bearer_auth(token);
    server.http.send(request.json(body)).await
}

async fn names(server: &TestServer, token: &str, query: &str, body: &Value) -> Result<Vec<String>> {
    let response = search(server, token, query, body).await?;
    let data = response.body["data"].as_array().with_context(|| response.text.clone())?;
    Ok(data.iter().map(|found| found["name"].as_str().unwrap_or_default().to_owned()).collect())
}

fn for_words(words: &str) -> Value {
    json!({ "type": "context", "query": words })
}

#[test]
fn packs_are_found_by_their_words_and_by_words_like_them() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        make(server, &ann, "", "Tides of the harbour", "High water comes twice a day.").await?;
        make(server, &ann, "", "Winds", "The harbour lies open to the north, and ships wait there.").await?;
        make(server, &ann, "", "Cooking", "How to boil an egg.").await?;
        let token = &ann.access_token;
        let found = names(server, token, "", &for_words("harbour")).await?;
        assert_eq!(found, ["Tides of the harbour", "Winds"], "the name counts more than the text");
        assert_eq!(names(server, token, "", &for_words("ship")).await?, ["Winds"], "another form of the word");
        assert_eq!(names(server, token, "", &for_words("harbuor tides")).await?, ["Tides of the harbour"], "a typo");
        assert_eq!(names(server, token, "", &for_words("\"boil an egg\"")).await?, ["Cooking"]);
        assert!(names(server, token, "", &for_words("zeppelin")).await?.is_empty());
        for odd in ["'; drop table contents; --", "& | ! ( )", "%", "\\", "a:*", "<script>"] {
            assert_eq!(search(server, token, "", &for_words(odd)).await?.status, 200, "{odd}");
        }
        let response = search(server, token, "", &for_words("north")).await?;
        let snippet = response.body["data"][0]["snippet"].as_array().context("no snippet")?;
        let matched: Vec<_> = snippet.iter().filter(|part| part["match"] == true).collect();
        assert_eq!(matched.len(), 1);
        assert_eq!(matched[0]["text"], "north");
        let whole: String = snippet.iter().filter_map(|part| part["text"].as_str()).collect();
        assert!(whole.contains("open to the north, and"), "{whole}");
        Ok(())
    })
}

#[test]
fn only_what_the_caller_may_see_is_found_ws_02() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let shared =
            server.make_workspace("Shared", &[(ann.user_id, Role::Viewer), (bob.user_id, Role::Owner)]).await?;
        let bobs = server.make_workspace("Bob's", &[(bob.user_id, Role::Owner)]).await?;
        make(server, &ann, "", "Ann's harbour", "").await?;
        make(server, &bob, "", "Bob's harbour", "").await?;
        make(server, &bob, &format!("?workspaceId={shared}"), "Shared harbour", "").await?;
        make(server, &bob, &format!("?workspaceId={bobs}"), "Bob's other harbour", "").await?;
        let token = &ann.access_token;
        let body = for_words("harbour");
        assert_eq!(names(server, token, "", &body).await?, ["Ann's harbour"]);
        let here = format!("?workspaceId={shared}");
        let mut both = names(server, token, &here, &body).await?;
        both.sort();
        assert_eq!(both, ["Ann's harbour", "Shared harbour"]);
        let mut only = body.clone();
        only["scopes"] = json!(["workspace"]);
        assert_eq!(names(server, token, &here, &only).await?, ["Shared harbour"]);
        assert_eq!(search(server, token, "", &only).await?.status, 422, "there is no workspace to look in");
        assert_eq!(search(server, token, &format!("?workspaceId={bobs}"), &body).await?.status, 404);
        let scopes = json!({ "scopes": ["read"], "workspaceId": shared });
        let (_, bound) = crate::support::cli_tokens::make(server, &ann, &scopes).await?;
        assert_eq!(names(server, &bound, "", &body).await?, ["Shared harbour"], "a bound token looks elsewhere");
        only["scopes"] = json!(["personal"]);
        assert_eq!(search(server, &bound, "", &only).await?.error(), "workspace_mismatch");
        Ok(())
    })
}

#[test]
fn what_is_found_comes_in_pages() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        for number in 0..7 {
            make(server, &ann, "", &format!("Harbour {number}"), "").await?;
        }
        let (mut seen, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let mut body = json!({ "type": "context", "query": "harbour", "limit": 3 });
            if !cursor.is_null() {
                body["cursor"] = cursor.clone();
            }
            let response = search(server, &ann.access_token, "", &body).await?;
            let data = response.body["data"].as_array().with_context(|| response.text.clone())?;
            seen.extend(data.iter().map(|found| found["id"].as_str().unwrap_or_default().to_owned()));
            cursor = response.body["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
            let mut other = json!({ "type": "context", "query": "other", "cursor": cursor });
            assert_eq!(search(server, &ann.access_token, "", &other).await?.status, 400, "another search's cursor");
            other["cursor"] = "x".into();
            assert_eq!(search(server, &ann.access_token, "", &other).await?.status, 400);
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 7);
        for (wrong, field) in [
            (json!({ "type": "other", "query": "a" }), "type"),
            (json!({ "type": "context", "query": " " }), "query"),
            (json!({ "type": "context", "query": "a".repeat(501) }), "query"),
            (json!({ "type": "context", "query": "a", "limit": 101 }), "limit"),
        ] {
            let response = search(server, &ann.access_token, "", &wrong).await?;
            assert_eq!(response.status, 422, "{wrong}");
            assert!(response.body["details"]["fields"][field].is_string());
        }
        Ok(())
    })
}
