//! The protocol, in every revision that clients of today speak.

use std::path::Path;

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use service_testkit::{
    process::Process,
    server::{Setup, with_server},
};

use crate::support::mcp::{NEWEST, REVISIONS, request, send, token};

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

#[test]
fn what_older_clients_do_not_send_is_not_required() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let token = token(server, &ann, "read").await?;
        let message = |body: serde_json::Value| {
            let request = server.http.request(Method::POST, "/mcp").bearer_auth(&token);
            request.header("accept", "application/json, text/event-stream").json(&body)
        };
        // Without MCP-Protocol-Version, as clients of 2025-03-26.
        let listed = server.http.send(message(json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/list" }))).await?;
        assert_eq!((listed.status.as_u16(), &listed.body["id"]), (200, &json!("a")), "{}", listed.text);
        let ping = server.http.send(message(json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" }))).await?;
        assert_eq!(ping.body["result"], json!({}), "{}", ping.text);
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let noted = server.http.send(message(note)).await?;
        assert_eq!((noted.status.as_u16(), noted.text.as_str()), (202, ""));
        // An unknown session id, as clients send it after an upgrade of a server with sessions.
        let body = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/list" });
        let known = server.http.send(message(body).header("mcp-session-id", "gone")).await?;
        assert_eq!(known.status, 200, "{}", known.text);
        Ok(())
    })
}

#[test]
fn mistakes_in_the_protocol_are_answered_as_its_newest_revision_says() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let token = token(server, &ann, "read").await?;
        let unknown = send(server, &token, NEWEST, "nothing/here", &json!({})).await?;
        assert_eq!(
            (unknown.status.as_u16(), &unknown.body["error"]["code"]),
            (404, &json!(-32601)),
            "{}",
            unknown.text
        );
        let no_tool = send(server, &token, NEWEST, "tools/call", &json!({ "name": "nothing" })).await?;
        assert_eq!(no_tool.body["error"]["code"], -32602, "{}", no_tool.text);
        let mut forged =
            request(server, NEWEST, "tools/call", &json!({ "name": "whoami" })).bearer_auth(&token).build()?;
        forged.headers_mut().insert("mcp-name", "list_projects".parse()?);
        let forged = reqwest::Client::new().execute(forged).await?;
        let status = forged.status().as_u16();
        let body: serde_json::Value = serde_json::from_str(&forged.text().await?)?;
        assert_eq!((status, &body["error"]["code"]), (400, &json!(-32020)), "{body}");
        for (header, value, status) in [
            ("accept", "application/json", 400),
            ("mcp-protocol-version", "1999-01-01", 400),
            ("content-type", "text/plain", 415),
        ] {
            let mut wrong = request(server, "2025-11-25", "tools/list", &json!({})).bearer_auth(&token).build()?;
            wrong.headers_mut().insert(header, value.parse()?);
            let response = reqwest::Client::new().execute(wrong).await?;
            assert_eq!(response.status(), status, "{header}");
            let body: serde_json::Value = serde_json::from_str(&response.text().await?)?;
            assert!(body["error_description"].is_string(), "{header}: {body}");
        }
        for method in [Method::GET, Method::DELETE] {
            let response = server.http.send(server.http.request(method, "/mcp").bearer_auth(&token)).await?;
            assert_eq!((response.status.as_u16(), response.header("allow")), (405, Some("POST")));
        }
        Ok(())
    })
}

#[test]
fn results_of_the_newest_revision_say_who_may_cache_them() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let token = token(server, &ann, "read").await?;
        let listed = send(server, &token, NEWEST, "tools/list", &json!({})).await?;
        let result = &listed.body["result"];
        assert_eq!((&result["resultType"], &result["cacheScope"]), (&json!("complete"), &json!("public")));
        assert!(result["ttlMs"].as_u64().is_some_and(|ttl| ttl > 0));
        let resources = send(server, &token, NEWEST, "resources/list", &json!({})).await?;
        assert_eq!(resources.body["result"]["cacheScope"], "private", "{}", resources.text);
        let old = send(server, &token, "2025-06-18", "tools/list", &json!({})).await?;
        assert!(old.body["result"]["resultType"].is_null(), "an older client gets what it does not know");
        Ok(())
    })
}

#[test]
fn the_trace_of_a_client_is_in_the_log_and_its_messages_are_not_whatever_the_filter() -> Result<()> {
    for filter in [
        "info,service_server=debug,rmcp=trace",
        "info,service_server=debug,rmcp::service=trace,rmcp::transport=trace",
        "info,service_server=debug,rmcp[serve_inner]=trace",
        "trace",
    ] {
        let setup = Setup::default().on_system_clock().set("log.filter", filter);
        setup.run(async |server| {
            let mut node = Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, &server.leaks)?;
            let ann = server.sign_in("ann@acme.test", "read write").await?;
            let token = token(server, &ann, "read write").await?;
            let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
            let params = json!({
                "name": "create_project", "arguments": { "name": "Lighthouse" },
                "_meta": { "traceparent": format!("00-{trace}-00f067aa00a902b7-01") },
            });
            let (client, request) = request(server, NEWEST, "tools/call", &params).bearer_auth(&token).build_split();
            let mut request = request?;
            *request.url_mut() = format!("{}/mcp", node.http.url).parse()?;
            assert_eq!(client.execute(request).await?.status(), 200);
            node.terminate()?;
            let log = String::from_utf8_lossy(&node.log()).into_owned();
            assert!(log.contains(trace), "{filter}: {log}");
            assert!(!log.contains("Lighthouse"), "{filter}: a message is in the log");
            Ok(())
        })?;
    }
    Ok(())
}
