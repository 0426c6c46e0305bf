//! Tests of where the refresh token is stored, and of which service the command uses.

use std::{fs, os::unix::fs::PermissionsExt as _};

use anyhow::{Context as _, Result};

use crate::machine::run;

#[test]
fn a_refresh_token_has_its_own_file_rv_55() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let first = machine.refresh_token()?;
        assert!(
            !fs::read_to_string(machine.credentials_path())?.contains("svc_rt_"),
            "it is stored with the access token"
        );
        let path = machine.refresh_token_path()?;
        let mode = |path: &std::path::Path| Ok::<_, std::io::Error>(fs::metadata(path)?.permissions().mode() & 0o777);
        assert_eq!((mode(&path)?, mode(path.parent().context("no directory")?)?), (0o600, 0o700));
        // No command reads it while the access token is valid.
        let away = machine.home.path().join("away");
        fs::rename(&path, &away)?;
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        fs::rename(&away, &path)?;
        machine.expire_access_token()?;
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        assert_ne!(machine.refresh_token()?, first, "it was not replaced");
        let left = fs::read_dir(path.parent().context("no directory")?)?.count();
        assert_eq!(left, 1, "another file was left in the directory");
        assert_eq!(machine.run(&["logout"]).await?.code, Some(0));
        assert!(!path.exists(), "it was not deleted at logout");
        Ok(())
    })
}

#[test]
fn the_refresh_token_of_an_older_version_moves_to_its_own_file_rv_55() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let (path, token) = (machine.refresh_token_path()?, machine.refresh_token()?);
        fs::remove_file(&path)?;
        machine.edit_sign_in(|sign_in| {
            sign_in["refreshToken"] = token.clone().into();
            if let Some(members) = sign_in.as_object_mut() {
                members.remove("entry");
            }
        })?;
        machine.expire_access_token()?;
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        assert!(machine.sign_in()?["refreshToken"].is_null(), "it is still stored with the access token");
        assert!(machine.refresh_token()?.starts_with("svc_rt_"));
        machine.register_secrets();
        Ok(())
    })
}

#[test]
fn there_is_no_default_service_rv_44() -> Result<()> {
    run(async |_, machine| {
        for arguments in [["whoami"], ["login"], ["logout"]] {
            let ran = machine.run_command(machine.command().env_remove("SERVICE_API_URL").args(arguments)).await?;
            assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.stderr);
            assert!(ran.stderr.contains("Set SERVICE_API_URL"), "{}", ran.stderr);
        }
        Ok(())
    })
}
