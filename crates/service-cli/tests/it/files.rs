//! Where the sign-in is kept: for its owner only, at the address it is of only, and nowhere else.

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
fn only_the_owner_can_read_it_and_one_file_holds_it() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        machine.expire()?;
        machine.run(&["whoami"]).await?;
        assert_eq!(mode(&machine.config())?, 0o700);
        assert_eq!(mode(&machine.file())?, 0o600);
        for entry in fs::read_dir(machine.config())? {
            let path = entry?.path();
            assert_eq!(mode(&path)?, 0o600, "{}", path.display());
            if path != machine.file() {
                machine.leaks.assert_clean("another file", &fs::read(&path)?);
                ensure!(fs::read(&path)?.is_empty(), "{}", path.display());
            }
        }
        fs::set_permissions(machine.file(), Permissions::from_mode(0o644))?;
        let shown = machine.show(&["whoami"]).await?;
        let warning = "E| warning: <config>/credentials.json could be read by other users (mode 644). Fixed to 600.\n";
        ensure!(shown.starts_with(warning), "{shown}");
        assert_eq!(mode(&machine.file())?, 0o600);
        Ok(())
    })
}

#[test]
fn what_a_killed_process_left_behind_is_cleared_away() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let left = machine.config().join("credentials.new");
        fs::write(&left, "half of a fi")?;
        machine.expire()?;
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        ensure!(!left.exists());
        Ok(())
    })
}

#[test]
fn a_symbolic_link_is_refused_in_the_place_of_the_file_and_of_the_folder() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let elsewhere = machine.home.path().join("elsewhere.json");
        fs::rename(machine.file(), &elsewhere)?;
        symlink(&elsewhere, machine.file())?;
        let refused = "E| error: <config>/credentials.json is a symbolic link; put a file there\nexit 1";
        assert_eq!(machine.show(&["whoami"]).await?, refused);
        assert_eq!(machine.show(&["logout"]).await?, refused);
        fs::remove_file(machine.file())?;
        fs::rename(&elsewhere, machine.file())?;
        // The folder: nothing is written behind a link.
        let folder = machine.home.path().join("folder");
        fs::rename(machine.config(), &folder)?;
        symlink(&folder, machine.config())?;
        machine_expired(machine, &folder)?;
        let shown = machine.show(&["project", "list"]).await?;
        assert_eq!(shown, "E| error: <config> is a symbolic link; put a folder there\nexit 1");
        Ok(())
    })
}

fn machine_expired(machine: &Machine, folder: &std::path::Path) -> Result<()> {
    let path = folder.join("credentials.json");
    let mut kept: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
    kept["profiles"]["default"]["signIns"][&machine.url]["accessExpiresAt"] = "2020-01-01T00:00:00.000Z".into();
    Ok(fs::write(path, serde_json::to_vec(&kept)?)?)
}

/// Only root can give a file away, so only root can see it refused.
#[test]
fn a_file_of_somebody_else_is_refused() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        if std::os::unix::fs::chown(machine.file(), Some(65_534), None).is_err() {
            return Ok(());
        }
        let refused = "E| error: <config>/credentials.json belongs to another user\nexit 1";
        assert_eq!(machine.show(&["whoami"]).await?, refused);
        Ok(())
    })
}

#[test]
fn a_sign_in_is_sent_only_to_the_address_that_it_is_of() -> Result<()> {
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
        ensure!(caught.await.is_err(), "something was sent elsewhere");
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        Ok(())
    })
}

#[test]
fn a_folder_that_is_there_is_left_as_it_is_and_one_that_others_change_is_not_used() -> Result<()> {
    run(async |server, machine| {
        fs::create_dir(machine.config())?;
        fs::set_permissions(machine.config(), Permissions::from_mode(0o755))?;
        machine.log_in(server).await?;
        assert_eq!((mode(&machine.config())?, mode(&machine.file())?), (0o755, 0o600));
        fs::set_permissions(machine.config(), Permissions::from_mode(0o777))?;
        machine.expire()?;
        let shown = machine.show(&["project", "list"]).await?;
        ensure!(shown.starts_with("E| error: <config> can be changed by other users;"), "{shown}");
        assert_eq!(mode(&machine.config())?, 0o777);
        Ok(())
    })
}

#[test]
fn a_token_is_sent_only_where_somebody_said() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let token = server.sign_in("bot@acme.test", "read").await?.access_token;
        let mut command = machine.command();
        command.env_remove("SERVICE_API_URL").env("SERVICE_TOKEN", &token).arg("whoami");
        let ran = machine.finish(&mut command).await?;
        ensure!(ran.stderr.starts_with("error: SERVICE_TOKEN is set, and SERVICE_API_URL is not."), "{ran:?}");
        assert_eq!(ran.code, Some(2));
        Ok(())
    })
}

#[test]
fn a_path_cannot_lead_a_sign_in_elsewhere() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        for path in ["//thief.example/", "https://thief.example/", "@thief.example/", ".thief.example/"] {
            assert_eq!(machine.run(&["api", "GET", path]).await?.code, Some(2), "{path}");
        }
        Ok(())
    })
}

#[test]
fn a_file_that_cannot_be_read_is_not_quoted() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let kept = fs::read_to_string(machine.file())?;
        fs::write(machine.file(), &kept[..kept.len() - 10])?;
        let ran = machine.run(&["whoami"]).await?;
        assert_eq!(ran.code, Some(1));
        ensure!(ran.stderr.contains("cannot be read (line "), "{}", ran.stderr);
        Ok(())
    })
}
