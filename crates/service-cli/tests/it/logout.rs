//! `service logout`, as it reads.

use std::fs;

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    machine::{EMAIL, run},
    whoami::make_token,
};

#[test]
fn signing_out_ends_the_session_on_the_server_too() -> Result<()> {
    run(async |server, machine| {
        assert_eq!(machine.show(&["logout"]).await?, "E| Not signed in. Nothing to do.\nexit 0");
        assert_eq!(machine.run(&["logout", "--json"]).await?.stdout, "{\"signedOut\":false}\n");
        machine.log_in(server).await?;
        let refresh_token = machine.sign_in()?["refreshToken"].as_str().unwrap_or_default().to_owned();
        let expected = "\
E| ok: Signed out ana@acme.test. The session was ended on the server and removed from this computer.
exit 0";
        assert_eq!(machine.show(&["logout"]).await?, expected);
        assert!(!fs::read_to_string(machine.file())?.contains("svc_rt_"));
        assert_eq!(server.refresh(&refresh_token).await?.error(), "invalid_grant");
        Ok(())
    })
}

#[test]
fn signing_out_here_does_not_wait_for_the_server() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let elsewhere = "http://127.0.0.1:9";
        let kept = fs::read_to_string(machine.file())?.replace(&machine.url, elsewhere);
        fs::write(machine.file(), kept)?;
        let expected = "\
E| ok: Signed out ana@acme.test on this computer.
E| warning: Could not tell the server (offline). The session ends there when it is not used for 30 days.
exit 0";
        assert_eq!(machine.show_with(&["logout"], &[("SERVICE_API_URL", elsewhere)]).await?, expected);
        assert!(!fs::read_to_string(machine.file())?.contains("svc_rt_"));
        Ok(())
    })
}

#[test]
fn a_token_in_the_environment_outlives_signing_out_and_is_named() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        server.advance(61);
        let (token, id) = make_token(server, EMAIL, &json!({})).await?;
        let ran = machine.run_with(&["logout"], &[("SERVICE_TOKEN", &token)]).await?;
        let warning =
            format!("warning: SERVICE_TOKEN is still set and still works. Revoke it with: service token revoke {id}\n");
        assert!(ran.stderr.ends_with(&warning), "{}", ran.stderr);
        Ok(())
    })
}

#[test]
fn every_sign_in_of_every_profile_can_be_ended_at_once() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let other = fs::read_to_string(machine.file())?.replace("\"default\"", "\"work\"");
        let mut both: Value = machine.kept()?;
        both["profiles"]["work"] = serde_json::from_str::<Value>(&other)?["profiles"]["work"].clone();
        fs::write(machine.file(), serde_json::to_vec(&both)?)?;
        assert_eq!(machine.run(&["whoami", "--profile", "work"]).await?.code, Some(0));
        let object: Value = serde_json::from_str(&machine.run(&["logout", "--all", "--json"]).await?.stdout)?;
        assert_eq!(object["signIns"].as_array().map(Vec::len), Some(2));
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(4));
        Ok(())
    })
}
