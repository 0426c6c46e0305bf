//! Tests of `service doctor --mcp`.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::machine::{Machine, run, run_with};

/// The names of the checks that found a problem, and the messages.
async fn problems(machine: &Machine, arguments: &[&str]) -> Result<(Vec<String>, Value)> {
    let ran = machine.run(&[&["doctor", "--json", "--mcp"], arguments].concat()).await?;
    let object: Value = serde_json::from_str(&ran.stdout).with_context(|| ran.stderr.clone())?;
    let checks = object["checks"].as_array().context("no checks")?;
    let failed = checks.iter().filter(|check| check["ok"] == false).filter_map(|check| check["name"].as_str());
    let failed: Vec<_> = failed.map(str::to_owned).collect();
    assert_eq!(object["ok"], failed.is_empty());
    assert_eq!(ran.code, Some(i32::from(!failed.is_empty())), "{object}");
    Ok((failed, object))
}

#[test]
fn a_deployment_that_clients_can_use_has_no_problem() -> Result<()> {
    run(async |server, machine| {
        let clients = "select count(*) from clients";
        let before = server.sql(clients).await?;
        let expected = "\
O| -- <server>/mcp uses plain http, which clients only accept on this computer
O| ok <server>/mcp asks for a token (401)
O| ok The challenge names the metadata of the endpoint
O| ok The challenge names the scope to request (read write)
O| ok The challenge reports no error for a request without a token
O| ok Its metadata names the resource <server>/mcp
O| ok The metadata without a path names the same authorization server
O| ok An unknown well-known document is a JSON 404
O| ok The authorization server <server> has metadata
O| ok The issuer is the same in both documents
O| ok The endpoints for signing in use https
O| ok PKCE with S256 is supported
O| ok Authorization responses name their issuer
O| ok Clients can register, dynamically and by metadata document
O| ok Errors of the token endpoint are JSON
O| ok No document has a null member
O| ok Web pages can read the metadata
O| ok Web pages can send requests to <server>/mcp
O| ok Web pages can read the challenge
exit 0";
        assert_eq!(machine.show(&["doctor", "--mcp"]).await?, expected);
        // The URL of the server stands for its endpoint.
        assert_eq!(machine.show(&["doctor", "--mcp", &machine.url]).await?, expected);
        let (failed, object) = problems(machine, &[&format!("{}/mcp", machine.url)]).await?;
        assert_eq!((failed.len(), &object["url"]), (0, &format!("{}/mcp", machine.url).into()));
        assert_eq!(server.sql(clients).await?, before, "it registered a client");
        Ok(())
    })
}

#[test]
fn an_endpoint_that_is_not_there_is_a_problem() -> Result<()> {
    run(async |_, machine| {
        let (failed, object) = problems(machine, &[&format!("{}/other", machine.url)]).await?;
        ensure!(
            failed.contains(&"challenge".to_owned()) && failed.contains(&"resource-metadata".to_owned()),
            "{object}"
        );
        let (failed, object) = problems(machine, &["http://127.0.0.1:9/mcp"]).await?;
        assert_eq!(failed, ["reachable"], "{object}");
        for wrong in ["http://service.example/mcp", "https://service.example/mcp?a=b", "mcp"] {
            let ran = machine.run(&["doctor", "--mcp", wrong]).await?;
            assert_eq!(ran.code, Some(2), "{wrong}: {}", ran.stderr);
        }
        Ok(())
    })
}

#[test]
fn a_server_with_another_public_url_is_a_problem() -> Result<()> {
    run_with(&[("base_url", "http://127.0.0.1:1")], async |_, machine| {
        let (failed, object) = problems(machine, &[]).await?;
        for name in ["challenge-metadata", "resource-metadata", "authorization-server"] {
            ensure!(failed.contains(&name.to_owned()), "{name}: {object}");
        }
        let text = object.to_string();
        ensure!(text.contains("Set base_url to the public URL"), "{text}");
        Ok(())
    })
}
