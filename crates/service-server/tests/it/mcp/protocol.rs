//! The protocol, in every revision that clients of today speak.

use anyhow::Result;
use serde_json::json;
use service_testkit::server::with_server;

use crate::support::mcp::{NEWEST, REVISIONS, send, token};

#[test]
fn a_client_of_every_revision_lists_the_tools_and_calls_one() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let token = token(server, &ann, "read").await?;
        for revision in REVISIONS {
            if revision < NEWEST {
                let params = json!({
                    "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
                });
                let hello = send(server, &token, revision, "initialize", &params).await?;
                assert_eq!(hello.body["result"]["protocolVersion"], revision, "{}", hello.text);
                assert!(hello.header("mcp-session-id").is_none(), "a session was opened");
            } else {
                let discovered = send(server, &token, revision, "server/discover", &json!({})).await?;
                assert_eq!(discovered.status, 200, "{}", discovered.text);
            }
            let listed = send(server, &token, revision, "tools/list", &json!({})).await?;
            assert_eq!(listed.status, 200, "{}", listed.text);
            let tools = listed.body["result"]["tools"].as_array().map_or(0, Vec::len);
            assert_eq!(tools, 28, "{revision}");
            let called = send(server, &token, revision, "tools/call", &json!({ "name": "whoami" })).await?;
            let result = &called.body["result"];
            assert_eq!(result["structuredContent"]["user"]["email"], "ann@acme.test", "{}", called.text);
            assert_eq!(result["structuredContent"]["credential"]["client"], "service-mcp");
            assert_eq!(listed.header("content-type"), Some("application/json"));
        }
        Ok(())
    })
}
