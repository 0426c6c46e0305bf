//! Tests of `service account`.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{
    machine::{EMAIL, run},
    passkey::make_passkey_that_counts,
};

#[test]
fn securing_lists_what_is_revoked_and_keeps_this_session() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let other = server.sign_in(EMAIL, "read write").await?;
        let expected = "E| error: Use --yes to secure your account without a prompt.";
        let shown = machine.show(&["account", "secure"]).await?;
        ensure!(shown.contains("- session of Service command line, last used"), "{shown}");
        ensure!(shown.contains(expected) && shown.ends_with("exit 2"), "{shown}");
        let secured = machine.run(&["account", "secure", "--yes", "--json"]).await?;
        let object: Value = serde_json::from_str(&secured.stdout)?;
        let counts = json!({
            "sessions": 1, "browsers": 0, "cliTokens": 0, "apps": 0, "invitations": 0, "passkeys": 0,
        });
        assert_eq!(object, json!({ "secured": counts }));
        assert_eq!(server.refresh(&other.refresh_token).await?.status, 400);
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        let again = machine.show(&["account", "secure", "--yes"]).await?;
        ensure!(again.contains("ok: Your account is secured. Revoked nothing: there was nothing else."), "{again}");
        let wrong = machine.show(&["account", "secure", "--yes", "--keep-passkey", "passkey_nope"]).await?;
        ensure!(wrong.contains("error: Passkey passkey_nope not found.") && wrong.ends_with("exit 6"), "{wrong}");
        Ok(())
    })
}

#[test]
fn exporting_saves_a_file_that_only_the_user_reads() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("mine.zip").display().to_string();
        let saved = machine.run(&["account", "export", "--output", &path, "--json"]).await?;
        ensure!(saved.code == Some(0), "{} {}", saved.stdout, saved.stderr);
        let object: Value = serde_json::from_str(&saved.stdout)?;
        let bytes = std::fs::read(&path)?;
        assert_eq!(
            (object["file"].as_str(), object["bytes"].as_u64()),
            (Some(path.as_str()), Some(bytes.len() as u64))
        );
        ensure!(bytes.starts_with(b"PK") && bytes.windows(10).any(|part| part == b"index.json"), "{bytes:?}");
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path)?.permissions()) & 0o777, 0o600);
        let again = machine.show(&["account", "export", "--output", &path]).await?;
        ensure!(again.contains("mine.zip already exists.") && again.ends_with("exit 2"), "{again}");
        assert_eq!(std::fs::read(&path)?, bytes);
        assert_eq!(std::fs::read_dir(folder.path())?.count(), 1, "a part of a file is left");
        Ok(())
    })
}

#[test]
fn the_name_is_shown_changed_and_removed() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let shown = machine.show(&["account", "show"]).await?;
        ensure!(shown.contains(&format!("Email:    {EMAIL}")) && shown.contains("Name:     none"), "{shown}");
        let renamed = machine.show(&["account", "rename", "Ann Lee"]).await?;
        ensure!(renamed.contains("ok: Your name is now Ann Lee."), "{renamed}");
        let object: Value = serde_json::from_str(&machine.run(&["account", "show", "--json"]).await?.stdout)?;
        assert_eq!((&object["account"]["name"], &object["account"]["email"]), (&json!("Ann Lee"), &json!(EMAIL)));
        let refused = machine.show(&["account", "rename", "ann@acme.test"]).await?;
        ensure!(refused.contains("can't contain @") && refused.ends_with("exit 1"), "{refused}");
        let removed = machine.show(&["account", "rename", ""]).await?;
        ensure!(removed.contains("ok: Your name was removed."), "{removed}");
        Ok(())
    })
}

#[test]
fn a_change_of_the_address_is_requested_shown_and_stopped() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let requested = machine.show(&["account", "change-address", "ann.lee@acme.test"]).await?;
        ensure!(requested.contains("ok: We sent a link to your address and to ann.lee@acme.test."), "{requested}");
        let shown = machine.show(&["account", "show"]).await?;
        ensure!(shown.contains("Change:   to ann.lee@acme.test, both addresses have to confirm it until"), "{shown}");
        let again = machine.show(&["account", "change-address", EMAIL]).await?;
        ensure!(again.contains("is the address of the account") && again.ends_with("exit 1"), "{again}");
        let neither = machine.show(&["account", "change-address"]).await?;
        ensure!(neither.ends_with("exit 2"), "{neither}");
        let stopped = machine.show(&["account", "change-address", "--stop"]).await?;
        ensure!(stopped.contains("ok: The change is stopped. Your address stays."), "{stopped}");
        let none = machine.show(&["account", "change-address", "--stop"]).await?;
        ensure!(none.contains("error: No change of your address is requested."), "{none}");
        let object: Value = serde_json::from_str(&machine.run(&["account", "show", "--json"]).await?.stdout)?;
        assert_eq!(object["addressChange"], Value::Null);
        Ok(())
    })
}

#[test]
fn a_passkey_is_required_and_codes_are_allowed_again() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let none = machine.show(&["account", "require-passkey", "--yes"]).await?;
        ensure!(none.contains("Add a passkey on the account page first.") && none.ends_with("exit 1"), "{none}");
        make_passkey_that_counts(server, machine).await?;
        let asked = machine.show(&["account", "require-passkey"]).await?;
        ensure!(asked.contains("--yes"), "{asked}");
        let required = machine.show(&["account", "require-passkey", "--yes"]).await?;
        ensure!(required.contains("ok: From now on, only a passkey or a recovery code signs you in."), "{required}");
        let shown = machine.show(&["account", "show"]).await?;
        ensure!(shown.contains("Sign-in:  only by passkey or recovery code"), "{shown}");
        let allowed = machine.show(&["account", "require-passkey", "--stop"]).await?;
        ensure!(allowed.contains("ok: A code from your email signs you in again."), "{allowed}");
        Ok(())
    })
}

#[test]
fn deleting_asks_first_closes_the_account_and_forgets_the_session() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let asked = machine.show(&["account", "delete"]).await?;
        ensure!(asked.contains("After 14 days it is erased") && asked.ends_with("exit 2"), "{asked}");
        ensure!(asked.contains("error: Use --yes to delete your account without a prompt."), "{asked}");
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        let closed = machine.run(&["account", "delete", "--yes", "--json"]).await?;
        ensure!(closed.code == Some(0), "{} {}", closed.stdout, closed.stderr);
        let object: Value = serde_json::from_str(&closed.stdout)?;
        ensure!(object["deletion"]["erasedOn"].is_string(), "{object}");
        let after = machine.show(&["whoami"]).await?;
        ensure!(after.contains("error: Not signed in") && after.ends_with("exit 4"), "{after}");
        let again = machine.show(&["account", "delete", "--yes"]).await?;
        ensure!(again.ends_with("exit 4"), "{again}");
        Ok(())
    })
}

#[test]
fn deleting_names_the_workspaces_that_need_another_owner() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let user = server.sign_in(EMAIL, "read").await?;
        server.keep_account(user.user_id).await?;
        let refused = machine.show(&["account", "delete", "--yes"]).await?;
        ensure!(refused.contains("without an owner: Needed."), "{refused}");
        assert_eq!(machine.run(&["whoami"]).await?.code, Some(0));
        Ok(())
    })
}
