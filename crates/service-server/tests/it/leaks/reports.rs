//! Leaked tokens: any holder may report one, it is revoked at once, and the response reveals nothing.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_testkit::{
    response::TestResponse,
    server::{Setup, TestServer, with_server},
};

use crate::support::{
    cli_tokens::{check, make, post, whoami},
    refresh::{check_refused, refreshed},
};

const PATH: &str = "/v1/token-leaks";

async fn report(server: &TestServer, tokens: &Value) -> Result<TestResponse> {
    server.http.post(PATH, &json!({ "tokens": tokens })).await
}

#[test]
fn a_reported_token_is_over_and_its_owner_is_told() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (_, cli) = make(server, &ann, &json!({ "name": "deploy" })).await?;
        assert_eq!(server.mailbox.next_mail_to("ann@acme.test").await?.subject, "New CLI token created");
        let mcp = post(server, "/v1/mcp/tokens", &ann.access_token, &json!({})).await?;
        let (mcp_access, mcp_refresh) = (mcp.field("access_token").to_owned(), mcp.field("refresh_token").to_owned());
        assert_eq!(whoami(server, &cli).await?.status, 200);
        let subject = server.mailbox.next_mail_to("ann@acme.test").await?.subject;
        assert_eq!(subject, "New MCP client connected");

        let mut responses = Vec::new();
        for tokens in [
            json!([cli]),
            json!(["garbage"]),
            json!([{ "token": cli, "url": "https://code.test/1" }]),
            json!([mcp_refresh]),
        ] {
            let response = report(server, &tokens).await?;
            responses.push((response.status.as_u16(), response.text.clone()));
        }
        responses.dedup();
        assert_eq!(responses, [(202, "{\"received\":true}".to_owned())], "the answer tells tokens apart");

        let dead = whoami(server, &cli).await?;
        check(&dead, 401, "invalid_token");
        assert_eq!(dead.body["details"]["reason"], "leaked");
        let refresh = json!({ "refresh_token": mcp_refresh });
        check_refused(&post(server, "/v1/mcp/tokens/refresh", &ann.access_token, &refresh).await?, Some("leaked"));
        check(&post(server, "/v1/mcp/tokens/refresh", &mcp_access, &refresh).await?, 401, "invalid_token");
        let mut told = String::new();
        for _ in 0..2 {
            let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
            assert_eq!(mail.subject, "Your leaked token was revoked");
            told += &mail.text;
        }
        assert!(told.contains("the token deploy (…") && told.contains("a session (The MCP client)"), "{told}");
        // Once for each, however often it is reported.
        while server.sql("select count(*) from outbox").await?.as_deref() != Some("0") {}
        assert_eq!(
            server.sql("select count(*) from audit_events where event = 'token.leaked'").await?.as_deref(),
            Some("2")
        );
        let next = refreshed(server, &ann.refresh_token).await?;
        assert_eq!(report(server, &json!([next.access_token])).await?.status, 202);
        check_refused(&server.refresh(&next.refresh_token).await?, Some("leaked"));
        Ok(())
    })
}

#[test]
fn a_report_names_some_tokens_and_not_thousands() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let forged = service_server::crypto::random::cli_token(service_server::crypto::random::id(server.now())?)?;
        let mut many = vec![json!("x"); 98];
        many.extend([
            json!(forged.expose()),
            json!({ "token": &ann.refresh_token, "type": "service", "source": "commit" }),
        ]);
        assert_eq!(report(server, &json!(many)).await?.status, 202);
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("leaked"));
        many.push(json!("x"));
        for wrong in [json!([]), json!(many)] {
            check(&report(server, &wrong).await?, 422, "validation_failed");
        }
        check(&server.http.post(PATH, &json!({})).await?, 422, "validation_failed");
        for body in [json!({ "tokens": "x" }), json!({ "tokens": [1] }), json!({ "token": "x" })] {
            check(&server.http.post(PATH, &body).await?, 400, "invalid_request");
        }
        Ok(())
    })
}

#[test]
fn reports_are_limited_by_network() -> Result<()> {
    Setup::default().set("limits.leak_reports_per_network", "2+60").run(async |server| {
        for _ in 0..2 {
            assert_eq!(report(server, &json!(["x"])).await?.status, 202);
        }
        check(&report(server, &json!(["x"])).await?, 429, "rate_limited");
        server.advance(60);
        assert_eq!(report(server, &json!(["x"])).await?.status, 202);
        Ok(())
    })
}

/// Runs `serviced scan-secrets` without any setting; its exit code and what it printed.
fn scan(arguments: &[&Path], input: &str) -> Result<(Option<i32>, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_serviced"));
    command.arg("scan-secrets").args(arguments).env_clear();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("no input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    Ok((output.status.code(), String::from_utf8([output.stdout, output.stderr].concat())?))
}

#[test]
fn tokens_are_found_in_files_offline() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (_, cli) = make(server, &ann, &json!({})).await?;
        let folder = tempfile::tempdir()?;
        let (dirty, clean) = (folder.path().join("dirty.env"), folder.path().join("clean.env"));
        std::fs::write(&dirty, format!("# settings\nTOKEN={cli}\nOTHER=\"{}\"\n", ann.refresh_token))?;
        std::fs::write(&clean, format!("TOKEN={}\n", &cli[..cli.len() - 1]))?;
        let (code, printed) = scan(&[&dirty, &clean], "")?;
        assert_eq!(code, Some(1), "{printed}");
        let expected = format!("{}:2: CLI token …{}\n", dirty.display(), &cli[cli.len() - 4..]);
        assert!(printed.contains(&expected) && printed.contains(":3: refresh token …"), "{printed}");
        assert!(printed.contains("found 2 tokens of this service"), "{printed}");
        server.leaks.assert_clean("what was printed", printed.as_bytes());
        assert_eq!(scan(&[&clean], "")?.0, Some(0));
        assert_eq!(scan(&[Path::new("-")], &cli)?.0, Some(1));
        Ok(())
    })
}

#[test]
fn leaked_cookies_and_client_secrets_are_revoked_rv_47() -> Result<()> {
    with_server(async |server| {
        let tab = service_testkit::tab::Tab::open(server)?;
        let begun = tab.get("/sign-in").await?;
        tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        tab.get("/account/tokens").await?;
        let form = [("name", "ci"), ("space", "personal"), ("read", "true"), ("days", "9")];
        let made = tab.submit("/account/tokens", &form).await?;
        let token = made.text.split("svc_cli_").nth(1).and_then(|rest| rest.split(['"', '<', ' ']).next());
        let token = format!("svc_cli_{}", token.context("no token")?);
        server.leaks.register("access_token", &token);
        assert_eq!(whoami(server, &token).await?.status, 200);
        let (client, secret) = crate::support::revoke::reports(server).await?;
        let introspect = async || {
            let request = server.http.request(reqwest::Method::POST, "/oauth/introspect");
            let request = request.basic_auth(&client, Some(&secret)).json(&json!({ "token": token }));
            Ok::<_, anyhow::Error>(server.http.send(request).await?.status.as_u16())
        };
        assert_eq!(introspect().await?, 200);

        let cookie = tab.cookie().context("no cookie")?;
        assert_eq!(report(server, &json!([cookie, secret])).await?.status, 202);
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in", "the browser is still signed in");
        check(&whoami(server, &token).await?, 401, "invalid_token");
        assert_eq!(introspect().await?, 401, "the secret still proves something");
        let told = loop {
            let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
            if mail.subject == "Your leaked token was revoked" {
                break mail.text;
            }
        };
        assert!(told.contains("cookie of a signed-in browser") && told.contains("CLI token ci"), "{told}");
        // Once more changes nothing.
        assert_eq!(report(server, &json!([cookie, secret])).await?.status, 202);
        Ok(())
    })
}
