//! Tests of `service logout`.

use std::fs;

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    machine::{EMAIL, run},
    whoami::create_token,
};

#[test]
fn signing_out_revokes_the_session_on_the_server() -> Result<()> {
    run(async |server, machine| {
        assert_eq!(
            machine.show(&["logout"]).await?,
            "E| Not signed in to <server> (profile default). Nothing to do.\nexit 0"
        );
        assert_eq!(machine.run(&["logout", "--json"]).await?.stdout, "{\"signedOut\":false}\n");
        machine.log_in(server).await?;
        let refresh_token = machine.refresh_token()?;
        let expected = "\
E| ok: Signed out ana@acme.test. The session was revoked on the server and removed from this computer.
exit 0";
        assert_eq!(machine.show(&["logout"]).await?, expected);
        assert!(!fs::read_to_string(machine.credentials_path())?.contains("svc_rt_"));
        assert_eq!(server.refresh(&refresh_token).await?.error(), "invalid_grant");
        Ok(())
    })
}

#[test]
fn signing_out_works_without_the_server() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let elsewhere = "http://127.0.0.1:9";
        let credentials = fs::read_to_string(machine.credentials_path())?.replace(&machine.url, elsewhere);
        fs::write(machine.credentials_path(), credentials)?;
        let expected = "\
E| ok: Signed out ana@acme.test on this computer.
E| warning: Couldn't revoke the session on the server (offline). It expires there after 30 days without use.
exit 0";
        assert_eq!(machine.show_with(&["logout"], &[("SERVICE_API_URL", elsewhere)]).await?, expected);
        assert!(!fs::read_to_string(machine.credentials_path())?.contains("svc_rt_"));
        Ok(())
    })
}

#[test]
fn a_warning_names_the_token_that_still_works_after_logout() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        server.advance(61);
        let (token, id) = create_token(server, EMAIL, &json!({})).await?;
        let ran = machine.run_with(&["logout"], &[("SERVICE_TOKEN", &token)]).await?;
        let warning =
            format!("warning: SERVICE_TOKEN is still set and still works. Revoke it with: service token revoke {id}\n");
        assert!(ran.stderr.ends_with(&warning), "{}", ran.stderr);
        Ok(())
    })
}

#[test]
fn logout_all_signs_out_every_profile() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let other = fs::read_to_string(machine.credentials_path())?.replace("\"default\"", "\"work\"");
        let mut both: Value = machine.read_credentials()?;
        both["profiles"]["work"] = serde_json::from_str::<Value>(&other)?["profiles"]["work"].clone();
        fs::write(machine.credentials_path(), serde_json::to_vec(&both)?)?;
        assert_eq!(machine.run(&["whoami", "--profile", "work"]).await?.code, Some(0));
        let object: Value = serde_json::from_str(&machine.run(&["logout", "--all", "--json"]).await?.stdout)?;
        assert_eq!(object["signIns"].as_array().map(Vec::len), Some(2));
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(4));
        Ok(())
    })
}
