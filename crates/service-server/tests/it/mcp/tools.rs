//! The tools, on the flows of the API.

use anyhow::Result;
use serde_json::{Value, json};
use service_api::workspaces::Role;
use service_testkit::server::with_server;

use crate::support::{
    contents::kinds,
    mcp::{NEWEST, done, refused, send, token},
};

#[test]
fn packs_are_created_found_read_changed_and_listed() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let token = token(server, &ann, "read write").await?;
        let made = done(
            server,
            &token,
            "create_pack",
            &json!({ "name": "Tone", "type": "context", "text": "Friendly and short." }),
        )
        .await?;
        let id = made["id"].clone();
        let found = done(server, &token, "search_packs", &json!({ "type": "context", "query": "friendly" })).await?;
        assert_eq!(found["data"][0]["id"], id);
        done(server, &token, "update_pack", &json!({ "packId": id, "text": "Short." })).await?;
        let read = done(server, &token, "get_pack", &json!({ "packId": id })).await?;
        assert_eq!((&read["text"], &read["name"]), (&json!("Short."), &json!("Tone")));
        let listed = done(server, &token, "list_packs", &json!({})).await?;
        assert_eq!(listed["data"].as_array().map(Vec::len), Some(1));
        let text = refused(server, &token, "get_pack", &json!({ "packId": "pack_x" })).await?;
        assert!(text.contains("Not found"), "{text}");
        Ok(())
    })
}

#[test]
fn every_kind_of_content_has_the_same_five_tools() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Member)]).await?;
        let token = token(server, &ann, "read write").await?;
        for (_, path, body) in kinds() {
            let one = path.trim_start_matches("/v1/").trim_end_matches('s').to_owned();
            let id = format!("{one}Id");
            let mut fields = body.clone();
            fields["workspaceId"] = json!(acme);
            let made = done(server, &token, &format!("create_{one}"), &fields).await?;
            assert_eq!((&made["name"], &made["workspaceId"]), (&body["name"], &json!(acme)), "{one}");
            let change = json!({ id.as_str(): made["id"], "workspaceId": acme, "name": "Renamed" });
            assert_eq!(done(server, &token, &format!("update_{one}"), &change).await?["name"], "Renamed", "{one}");
            let named = json!({ id.as_str(): made["id"], "workspaceId": acme });
            assert_eq!(done(server, &token, &format!("get_{one}"), &named).await?["name"], "Renamed", "{one}");
            let listed = done(server, &token, &format!("list_{one}s"), &json!({ "workspaceId": acme })).await?;
            assert_eq!(listed["data"].as_array().map(Vec::len), Some(1), "{one}");
            let personal = done(server, &token, &format!("list_{one}s"), &json!({ "workspaceId": "personal" })).await?;
            assert_eq!(personal["data"], json!([]), "{one}");
            assert!(refused(server, &token, &format!("delete_{one}"), &named).await?.contains("/confirm/"), "{one}");
        }
        let listed = done(server, &token, "list_workspaces", &json!({})).await?;
        assert_eq!((&listed["data"][0]["name"], &listed["data"][0]["role"]), (&json!("Acme"), &json!("member")));
        Ok(())
    })
}

#[test]
fn every_caller_sees_every_tool_in_one_order_and_knows_what_it_does() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let all = async |token: &str| {
            let listed = send(server, token, NEWEST, "tools/list", &json!({})).await?;
            anyhow::Ok(listed.body["result"]["tools"].as_array().cloned().unwrap_or_default())
        };
        let tools = all(&token(server, &ann, "projects:read").await?).await?;
        assert_eq!(tools, all(&token(server, &bob, "read write").await?).await?);
        for tool in &tools {
            let name = tool["name"].as_str().unwrap_or_default();
            let hints = &tool["annotations"];
            let (reads, deletes) =
                (!name.starts_with("create_") && !name.starts_with("update_"), name.starts_with("delete_"));
            assert_eq!(hints["readOnlyHint"], reads && !deletes, "{name}");
            if hints["readOnlyHint"] == false {
                assert_eq!(hints["destructiveHint"], !name.starts_with("create_"), "{name}");
                assert_eq!(hints["idempotentHint"], !name.starts_with("create_"), "{name}");
            }
            assert_eq!(hints["openWorldHint"], false, "{name}");
            assert!(tool["description"].as_str().is_some_and(|text| text.len() > 20 && text.ends_with('.')), "{name}");
            for schema in [&tool["inputSchema"], &tool["outputSchema"]] {
                assert_eq!(schema["type"], "object", "{name}");
                assert!(!schema.to_string().contains("$ref"), "{name}: a reference leads nowhere");
            }
            assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        }
        let bytes = serde_json::to_string(&tools)?.len();
        println!("{} tools, {bytes} bytes", tools.len());
        assert!(bytes < 100_000, "{bytes}");
        Ok(())
    })
}

#[test]
fn arguments_that_are_wrong_are_explained_and_change_nothing() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let token = token(server, &ann, "read write").await?;
        let check = async |tool: &str, arguments: Value, says: &str| {
            let text = refused(server, &token, tool, &arguments).await?;
            assert!(text.contains(says), "{tool} {arguments}: {text}");
            anyhow::Ok(())
        };
        check("create_pack", json!({ "type": "context" }), "name").await?;
        check("create_pack", json!({ "name": "A", "type": "song" }), "type").await?;
        check("create_pack", json!({ "name": "A", "type": "context", "colour": "red" }), "unknown field").await?;
        check("get_pack", json!({}), "packId is missing").await?;
        check("get_pack", json!({ "packId": 7 }), "packId must be a string").await?;
        check("get_pack", json!({ "packId": "pack_x", "extra": 1 }), "unknown").await?;
        check("list_packs", json!({ "limit": 101 }), "1 to 100").await?;
        check("list_packs", json!({ "limit": "many" }), "wrong type").await?;
        check("list_packs", json!({ "cursor": "forged" }), "cursor").await?;
        check("list_packs", json!({ "workspaceId": "acme" }), "workspaceId must be").await?;
        check("whoami", json!({ "who": "me" }), "unknown").await?;
        assert_eq!(done(server, &token, "list_packs", &json!({})).await?["data"], json!([]));
        Ok(())
    })
}

#[test]
fn a_credential_in_an_argument_is_refused_and_its_owner_is_told() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let token = token(server, &ann, "read write").await?;
        for (tool, arguments) in [
            ("create_pack", json!({ "name": "Keys", "type": "context", "text": format!("use {}", ann.refresh_token) })),
            ("create_case", json!({ "name": "Keys", "inputs": { "deep": [{ "token": ann.refresh_token }] } })),
            ("create_project", json!({ "name": ann.refresh_token })),
        ] {
            let text = refused(server, &token, tool, &arguments).await?;
            assert!(text.contains("contains a token") && !text.contains(&ann.refresh_token), "{tool}: {text}");
        }
        assert_eq!(server.sql("select count(*) from contents").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn a_viewer_reads_and_does_not_write_whatever_the_scopes() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Viewer)]).await?;
        let token = token(server, &ann, "read write").await?;
        done(server, &token, "list_projects", &json!({ "workspaceId": acme })).await?;
        let text = refused(server, &token, "create_project", &json!({ "name": "Pier", "workspaceId": acme })).await?;
        assert!(text.contains("role"), "{text}");
        Ok(())
    })
}
