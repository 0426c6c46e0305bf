//! Packs as resources, and completion.

use anyhow::Result;
use serde_json::{Value, json};
use service_api::workspaces::Role;
use service_testkit::{
    response::TestResponse,
    server::{TestServer, with_server},
};

use crate::support::{
    contents::make,
    mcp::{NEWEST, send, token},
};

async fn complete(
    server: &TestServer,
    token: &str,
    name: &str,
    typed: &str,
    space: Option<&str>,
) -> Result<Vec<String>> {
    let params = json!({
        "ref": { "type": "ref/resource", "uri": "service://{space}/packs/{packId}" },
        "argument": { "name": name, "value": typed },
        "context": { "arguments": space.map(|space| json!({ "space": space })).unwrap_or(json!({})) },
    });
    let response = send(server, token, NEWEST, "completion/complete", &params).await?;
    anyhow::ensure!(response.status == 200, "{}", response.text);
    Ok(serde_json::from_value(response.body["result"]["completion"]["values"].clone())?)
}

async fn read(server: &TestServer, token: &str, uri: &str) -> Result<TestResponse> {
    send(server, token, NEWEST, "resources/read", &json!({ "uri": uri })).await
}

#[test]
fn packs_are_listed_read_and_completed_as_resources() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?;
        let token = token(server, &ann, "read").await?;
        let (mut ids, path) = (Vec::new(), format!("/v1/packs?workspaceId={acme}"));
        for name in ["Tone", "Terms", "Pricing"] {
            let body = json!({ "name": name, "type": "context", "text": format!("All about {name}") });
            // Whatever is made is younger than what was made before.
            server.advance(1);
            ids.push(make(server, &path, &ann, &body).await?.0);
        }
        let templates = send(server, &token, NEWEST, "resources/templates/list", &json!({})).await?;
        assert_eq!(templates.body["result"]["resourceTemplates"][0]["uriTemplate"], "service://{space}/packs/{packId}");
        let request = crate::support::mcp::request(server, NEWEST, "resources/list", &json!({}));
        let listed = server.http.send(request.query(&[("workspaceId", acme.to_string())]).bearer_auth(&token)).await?;
        let resources = listed.body["result"]["resources"].as_array().cloned().unwrap_or_default();
        assert_eq!(resources.len(), 3, "{}", listed.text);
        assert_eq!(listed.body["result"]["cacheScope"], "private");
        let uri = format!("service://{acme}/packs/{}", ids[0]);
        assert_eq!((&resources[0]["uri"], &resources[0]["name"]), (&json!(uri), &json!("Tone")));
        let text = read(server, &token, &uri).await?;
        assert_eq!(text.body["result"]["contents"][0]["text"], "All about Tone", "{}", text.text);
        assert_eq!(text.body["result"]["cacheScope"], "private");

        let elsewhere = crate::support::mcp::request(server, NEWEST, "resources/read", &json!({ "uri": uri }));
        let elsewhere = server.http.send(elsewhere.query(&[("workspaceId", "personal")]).bearer_auth(&token)).await?;
        assert_eq!(elsewhere.body["error"]["code"], -32602, "a connection to one space reads another");

        assert_eq!(complete(server, &token, "packId", "T", Some(&acme.to_string())).await?, ids[..2]);
        assert_eq!(complete(server, &token, "packId", &ids[2], Some(&acme.to_string())).await?, ids[2..]);
        assert_eq!(complete(server, &token, "space", "acm", None).await?, [acme.to_string()]);
        assert_eq!(complete(server, &token, "space", "pers", None).await?, ["personal"]);
        Ok(())
    })
}

#[test]
fn resources_of_others_are_like_those_that_do_not_exist() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(bob.user_id, Role::Owner)]).await?;
        let path = format!("/v1/packs?workspaceId={acme}");
        let (foreign, _) = make(server, &path, &bob, &json!({ "name": "Tone", "type": "context" })).await?;
        let token = token(server, &ann, "read").await?;
        let mut answers = Vec::new();
        for uri in [
            format!("service://{acme}/packs/{foreign}"),
            format!("service://personal/packs/{foreign}"),
            "service://wsp_01m955vw00fjqrz47smcqrkmzz/packs/pack_01m955vw00fjqrz47smcqrkmzz".to_owned(),
            "service://personal/packs/x".to_owned(),
            "service://personal/projects/x".to_owned(),
            "service://..%2f/packs/x".to_owned(),
            "file:///etc/passwd".to_owned(),
        ] {
            let response = read(server, &token, &uri).await?;
            assert_eq!(response.body["error"]["code"], -32602, "{uri}: {}", response.text);
            assert_eq!(response.body["error"]["data"], json!({ "uri": uri }));
            answers.push(response.body["error"]["message"].clone());
        }
        assert!(answers.iter().all(|answer: &Value| *answer == answers[0]), "{answers:?}");
        Ok(())
    })
}

#[test]
fn a_client_that_may_not_read_packs_has_no_resources_and_is_asked_for_the_scope_when_it_reads_one() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        make(server, "/v1/packs", &ann, &json!({ "name": "Tone", "type": "context" })).await?;
        let token = token(server, &ann, "projects:read").await?;
        // Many clients list resources as soon as they connect. That must not send the user to consent.
        let listed = send(server, &token, NEWEST, "resources/list", &json!({})).await?;
        assert_eq!(listed.body["result"]["resources"], json!([]), "{}", listed.text);
        assert_eq!(complete(server, &token, "packId", "", None).await?, [""; 0]);
        let refused = read(server, &token, "service://personal/packs/pack_x").await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (403, "insufficient_scope"));
        Ok(())
    })
}
