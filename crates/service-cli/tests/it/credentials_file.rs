//! The files with the credentials: only their owner can read them, and they are sent only to their own origin.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
};

use anyhow::{Result, ensure};
use tokio::{io::AsyncReadExt as _, net::TcpListener};

use crate::machine::{Machine, run};

fn mode(path: &std::path::Path) -> Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

#[test]
fn only_the_owner_can_read_the_files_and_each_refresh_token_has_its_own_ci_03() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire_access_token()?;
        machine.run(&["whoami"]).await?;
        assert_eq!(mode(&machine.config_dir())?, 0o700);
        assert_eq!(mode(&machine.credentials_path())?, 0o600);
        for entry in fs::read_dir(machine.config_dir())? {
            let path = entry?.path();
            if path.is_dir() {
                assert_eq!((mode(&path)?, fs::read_dir(&path)?.count()), (0o700, 1), "{}", path.display());
                assert_eq!(mode(&machine.refresh_token_path()?)?, 0o600);
                continue;
            }
            assert_eq!(mode(&path)?, 0o600, "{}", path.display());
            // Device secrets grant no access, and are kept when the user signs out.
            if path != machine.credentials_path() && !path.ends_with("devices.json") {
                machine.leaks.assert_clean("another file", &fs::read(&path)?);
                ensure!(fs::read(&path)?.is_empty(), "{}", path.display());
            }
        }
        fs::set_permissions(machine.credentials_path(), Permissions::from_mode(0o644))?;
        let shown = machine.show(&["whoami"]).await?;
        let warning =
            "E| warning: <config>/credentials.json was readable by other users (mode 644). Changed its mode to 600.\n";
        ensure!(shown.starts_with(warning), "{shown}");
        assert_eq!(mode(&machine.credentials_path())?, 0o600);
        Ok(())
    })
}

#[test]
fn the_temporary_file_of_a_killed_process_is_removed() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let left = machine.config_dir().join("credentials.new");
        fs::write(&left, "half of a fi")?;
        machine.expire_access_token()?;
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        ensure!(!left.exists());
        Ok(())
    })
}

#[test]
fn a_symbolic_link_is_refused_as_file_and_as_directory() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let elsewhere = machine.home.path().join("elsewhere.json");
        fs::rename(machine.credentials_path(), &elsewhere)?;
        symlink(&elsewhere, machine.credentials_path())?;
        let refused = "E| error: <config>/credentials.json is a symbolic link. Replace it with a file.\nexit 1";
        assert_eq!(machine.show(&["whoami"]).await?, refused);
        assert_eq!(machine.show(&["logout"]).await?, refused);
        fs::remove_file(machine.credentials_path())?;
        fs::rename(&elsewhere, machine.credentials_path())?;
        // The directory: nothing is written through a link.
        let directory = machine.home.path().join("folder");
        fs::rename(machine.config_dir(), &directory)?;
        symlink(&directory, machine.config_dir())?;
        expire_access_token_in(machine, &directory)?;
        let shown = machine.show(&["project", "list"]).await?;
        assert_eq!(shown, "E| error: <config> is a symbolic link. Replace it with a directory.\nexit 1");
        Ok(())
    })
}

fn expire_access_token_in(machine: &Machine, directory: &std::path::Path) -> Result<()> {
    let path = directory.join("credentials.json");
    let mut credentials: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
    credentials["profiles"]["default"]["signIns"][&machine.url]["accessExpiresAt"] = "2020-01-01T00:00:00.000Z".into();
    Ok(fs::write(path, serde_json::to_vec(&credentials)?)?)
}

/// Only root can change the owner of a file, so the test does nothing for other users.
#[test]
fn a_file_owned_by_another_user_is_refused() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        if std::os::unix::fs::chown(machine.credentials_path(), Some(65_534), None).is_err() {
            return Ok(());
        }
        let refused =
            "E| error: <config>/credentials.json belongs to another user. Change its owner, or delete it.\nexit 1";
        assert_eq!(machine.show(&["whoami"]).await?, refused);
        Ok(())
    })
}

#[test]
fn credentials_are_sent_only_to_their_own_origin() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let thief = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", thief.local_addr()?);
        for arguments in [&["whoami"][..], &["token", "list"], &["api", "GET", "/v1/whoami"], &["logout"]] {
            let ran = machine.run_with(arguments, &[("SERVICE_API_URL", &url)]).await?;
            ensure!(ran.code == Some(4) || arguments == ["logout"], "{ran:?}");
        }
        let caught = tokio::time::timeout(std::time::Duration::from_millis(50), async {
            let mut bytes = Vec::new();
            thief.accept().await?.0.read_to_end(&mut bytes).await?;
            anyhow::Ok(bytes)
        });
        ensure!(caught.await.is_err(), "credentials were sent to another origin");
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        Ok(())
    })
}

#[test]
fn an_existing_directory_keeps_its_mode_and_one_that_others_can_write_is_refused() -> Result<()> {
    run(async |server, machine| {
        fs::create_dir(machine.config_dir())?;
        fs::set_permissions(machine.config_dir(), Permissions::from_mode(0o755))?;
        machine.log_in(server).await?;
        assert_eq!((mode(&machine.config_dir())?, mode(&machine.credentials_path())?), (0o755, 0o600));
        fs::set_permissions(machine.config_dir(), Permissions::from_mode(0o777))?;
        machine.expire_access_token()?;
        let shown = machine.show(&["project", "list"]).await?;
        ensure!(shown.starts_with("E| error: <config> is writable by other users."), "{shown}");
        assert_eq!(mode(&machine.config_dir())?, 0o777);
        Ok(())
    })
}

#[test]
fn a_token_needs_an_explicit_api_url() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let token = server.sign_in("bot@acme.test", "read").await?.access_token;
        let mut command = machine.command();
        command.env_remove("SERVICE_API_URL").env("SERVICE_TOKEN", &token).arg("whoami");
        let ran = machine.run_command(&mut command).await?;
        ensure!(ran.stderr.starts_with("error: SERVICE_TOKEN is set, but SERVICE_API_URL is not."), "{ran:?}");
        assert_eq!(ran.code, Some(2));
        Ok(())
    })
}

#[test]
fn an_api_path_cannot_name_another_host() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        for path in ["//thief.example/", "https://thief.example/", "@thief.example/", ".thief.example/"] {
            assert_eq!(machine.run(&["api", "GET", path]).await?.code, Some(2), "{path}");
        }
        Ok(())
    })
}

#[test]
fn errors_do_not_quote_an_invalid_file() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let credentials = fs::read_to_string(machine.credentials_path())?;
        fs::write(machine.credentials_path(), &credentials[..credentials.len() - 10])?;
        let ran = machine.run(&["whoami"]).await?;
        assert_eq!(ran.code, Some(1));
        ensure!(ran.stderr.contains("is invalid (line "), "{}", ran.stderr);
        Ok(())
    })
}
