//! Tests of `service whoami`.

use anyhow::Result;
use serde_json::{Value, json};
use service_api::workspaces::Role;
use service_testkit::server::TestServer;

use crate::machine::{EMAIL, Machine, run};

/// Creates a CLI token for a user who is not signed in on the machine. Returns the token and its ID.
pub(crate) async fn create_token(server: &TestServer, email: &str, wanted: &Value) -> Result<(String, String)> {
    let ana = server.sign_in(email, "read write").await?;
    let request = server.http.request(reqwest::Method::POST, "/v1/cli/tokens").bearer_auth(&ana.access_token);
    let created = server.http.send(request.json(wanted)).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text);
    Ok((created.field("access_token").to_owned(), created.field("id").to_owned()))
}

#[test]
fn whoami_shows_where_the_session_is_stored() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let transcript = "\
O| ana@acme.test
O| Workspace    Personal (default)
O| Credential   session, scopes: read, write
O| Stored in    <config>/credentials.json (not encrypted)
O| Server       <server>
exit 0";
        assert_eq!(machine.show(&["whoami"]).await?, transcript);
        let object: Value = serde_json::from_str(&machine.run(&["whoami", "--json"]).await?.stdout)?;
        assert_eq!(object["authenticated"], true);
        assert_eq!(object["status"], "valid");
        assert_eq!(object["user"]["email"], EMAIL);
        assert_eq!(object["credential"]["kind"], "session");
        assert_eq!(object["credential"]["source"], "file");
        assert_eq!(object["credential"]["tokenId"], Value::Null);
        assert_eq!(object["credential"]["scopes"], json!(["read", "write"]));
        assert_eq!(object["workspace"]["source"], "default");
        assert_eq!(object["apiUrl"], machine.url);
        Ok(())
    })
}

#[test]
fn without_a_session_the_object_is_still_on_standard_output() -> Result<()> {
    run(async |_, machine| {
        let transcript = machine.show(&["whoami"]).await?;
        assert_eq!(
            transcript,
            "E| error: Not signed in to <server> (profile default).\nE| next: service login\nE| next: In CI: set SERVICE_TOKEN\nexit 4"
        );
        let ran = machine.run(&["whoami", "--json"]).await?;
        let object: Value = serde_json::from_str(&ran.stdout)?;
        assert_eq!((object["authenticated"].clone(), object["status"].clone()), (json!(false), json!("not_signed_in")));
        assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(4)));
        Ok(())
    })
}

#[test]
fn service_token_is_named_and_takes_precedence() -> Result<()> {
    run(async |server, machine| {
        machine.log_in_as(server, "own@acme.test").await?;
        let (token, id) =
            create_token(server, EMAIL, &json!({ "workspaceId": "personal", "scopes": ["read"] })).await?;
        let ran = machine.run_with(&["whoami"], &[("SERVICE_TOKEN", &token)]).await?;
        let transcript = machine.transcript(&ran);
        let expected = "\
O| ana@acme.test
O| Workspace    Personal, set by SERVICE_TOKEN
O| Credential   CLI token <clit> from SERVICE_TOKEN, scopes: read
O| Server       <server>
exit 0";
        assert_eq!(transcript, expected);
        assert!(ran.stdout.contains(&id));
        let ran = machine.run_with(&["whoami", "--json"], &[("SERVICE_TOKEN", &token)]).await?;
        let object: Value = serde_json::from_str(&ran.stdout)?;
        assert_eq!(object["credential"]["source"], "SERVICE_TOKEN");
        assert_eq!(object["credential"]["tokenId"], id.as_str());
        machine.leaks.assert_clean("whoami", ran.stdout.as_bytes());
        Ok(())
    })
}

#[test]
fn a_saved_workspace_does_not_override_the_one_of_a_token() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let ana = machine.sign_in()?["user"]["id"].as_str().unwrap_or_default().parse()?;
        let beta = server.make_workspace("Beta", &[(ana, Role::Member)]).await?;
        assert_eq!(machine.run(&["workspace", "use", &beta.to_string()]).await?.code, Some(0));
        let own = machine.show(&["whoami"]).await?;
        assert!(own.contains("Workspace    Beta (<wsp>), set by: service workspace use"), "{own}");
        server.advance(61);
        let (token, _) = create_token(server, EMAIL, &json!({ "workspaceId": "personal" })).await?;
        let shadowed = machine.show_with(&["whoami"], &[("SERVICE_TOKEN", &token)]).await?;
        let warning = "E| warning: The saved workspace Beta (<wsp>) is ignored while SERVICE_TOKEN is set.\n";
        assert!(shadowed.starts_with(warning), "{shadowed}");
        Ok(())
    })
}

#[test]
fn a_rejected_token_is_named_and_an_unreachable_server_is_not_blamed_on_it() -> Result<()> {
    run(async |server, machine| {
        let (token, _) = create_token(server, EMAIL, &json!({ "expiresInDays": 1 })).await?;
        let with = |token: &str| [("SERVICE_TOKEN".to_owned(), token.to_owned())];
        let show = async |token: &str| {
            let variables = with(token);
            let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            machine.show_with(&["whoami"], &variables).await
        };
        let line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        for (token, first, exit) in [
            ("", "E| error: SERVICE_TOKEN is set but empty. In CI, this usually means that the secret is missing.", 4),
            ("hunter2", "E| error: SERVICE_TOKEN isn't a valid token: it doesn't start with svc_cli_.", 4),
            ("Bearer abc", "E| error: SERVICE_TOKEN isn't a valid token: it starts with \"Bearer \".", 4),
            ("a\nb", "E| error: SERVICE_TOKEN isn't a valid token: it contains a line break.", 4),
            ("a.b.c", "E| error: The token in SERVICE_TOKEN isn't valid for this server.", 4),
        ] {
            let shown = show(token).await?;
            assert_eq!(line(&shown), first);
            assert!(shown.ends_with(&format!("exit {exit}")), "{shown}");
        }
        server.advance(86_401);
        assert_eq!(line(&show(&token).await?), "E| error: The token in SERVICE_TOKEN has expired.");
        let silent = machine
            .run_with(&["whoami", "--json"], &[("SERVICE_TOKEN", &token), ("SERVICE_API_URL", "http://127.0.0.1:9")])
            .await?;
        let object: Value = serde_json::from_str(&silent.stdout)?;
        assert_eq!((object["authenticated"].clone(), object["status"].clone()), (Value::Null, json!("unverified")));
        assert_eq!((object["reason"].clone(), silent.code), (json!("offline"), Some(7)));
        Ok(())
    })
}

#[test]
fn a_revoked_token_is_named() -> Result<()> {
    run(async |server, machine| {
        let (token, id) = create_token(server, EMAIL, &json!({})).await?;
        let own = Machine::new(&machine.url, &machine.leaks)?;
        let revoked = own.show_with(&["token", "revoke", &id, "--yes"], &[("SERVICE_TOKEN", &token)]).await?;
        let expected = "\
E| warning: <clit> is the token in SERVICE_TOKEN. Later commands that use it will fail.
E| ok: Revoked <clit>. It no longer works.
exit 0";
        assert_eq!(revoked, expected);
        let shown = own.show_with(&["whoami"], &[("SERVICE_TOKEN", &token)]).await?;
        let expected = "\
E| error: The token in SERVICE_TOKEN was revoked.
E| next: Replace it where it is set, for example in a CI secret or your shell profile
exit 4";
        assert_eq!(shown, expected);
        Ok(())
    })
}
