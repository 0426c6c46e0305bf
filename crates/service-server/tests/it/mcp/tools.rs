//! The tools, on the flows of the API.

use anyhow::Result;
use serde_json::json;
use service_testkit::server::with_server;

use crate::support::mcp::{done, refused, token};

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
