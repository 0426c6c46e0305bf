//! Tests of `service passkey`.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_api::ids::UserId;
use service_testkit::server::TestServer;

use crate::machine::{EMAIL, Machine, run};

fn user_id(machine: &Machine) -> Result<UserId> {
    Ok(machine.sign_in()?["user"]["id"].as_str().context("no user")?.parse()?)
}

/// Adds a passkey to the account that is signed in, as if that was long ago.
pub(crate) async fn make_passkey_that_counts(server: &TestServer, machine: &Machine) -> Result<()> {
    server.make_passkey(user_id(machine)?, "MacBook").await?;
    server.sql("update passkeys set counts_from = created_at - interval '1 day'").await.map(drop)
}

#[test]
fn passkeys_are_listed_and_renamed() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let expected = "E| No passkeys. Add one in your browser: service open security\nexit 0";
        assert_eq!(machine.show(&["passkey", "list"]).await?, expected);
        let id = server.make_passkey(user_id(machine)?, "MacBook").await?.to_string();
        let listed = machine.run(&["passkey", "list"]).await?.stdout;
        let columns: Vec<_> = listed.trim_end_matches('\n').split('\t').collect();
        assert_eq!(
            (columns[0], columns[1], columns[2], columns[4]),
            (id.as_str(), "MacBook", "backed-up", ""),
            "{listed}"
        );
        let renamed = machine.run(&["passkey", "rename", &id, "Work laptop", "--json"]).await?.stdout;
        let object: Value = serde_json::from_str(&renamed)?;
        assert_eq!((&object["passkey"]["id"], &object["passkey"]["name"]), (&json!(id), &json!("Work laptop")));
        let again = machine.show(&["passkey", "rename", &id, "Work laptop"]).await?;
        assert_eq!(again, "E| ok: Renamed <passkey> to Work laptop.\nexit 0");
        let object: Value = serde_json::from_str(&machine.run(&["passkey", "list", "--json"]).await?.stdout)?;
        assert_eq!(object["passkeys"][0]["name"], "Work laptop");
        assert_eq!(object["passkeys"].as_array().map(Vec::len), Some(1));
        let long = machine.run(&["passkey", "rename", &id, &"a".repeat(61)]).await?;
        ensure!(long.code != Some(0) && long.stderr.contains("60 characters"), "{}", long.stderr);
        let expected = "E| error: Passkey passkey_nope not found.\nE| next: service passkey list\nexit 6";
        assert_eq!(machine.show(&["passkey", "rename", "passkey_nope", "x"]).await?, expected);
        Ok(())
    })
}

#[test]
fn passkeys_are_removed_after_a_recent_sign_in() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let ana = user_id(machine)?;
        let id = server.make_passkey(ana, "MacBook").await?.to_string();
        let expected = "E| error: Use --yes to remove a passkey without a prompt.\nexit 2";
        assert_eq!(machine.show(&["passkey", "remove", &id]).await?, expected);
        let removed = machine.run(&["passkey", "remove", &id, "--yes", "--json"]).await?;
        assert_eq!(serde_json::from_str::<Value>(&removed.stdout)?, json!({ "removed": [{ "id": id }] }));
        // Removing it again changes nothing.
        assert_eq!(machine.show(&["passkey", "remove", &id, "--yes"]).await?, "E| ok: Removed <passkey>.\nexit 0");
        let mail = server.mailbox.next_mail_to(EMAIL).await?;
        ensure!(mail.text.contains("MacBook"), "{}", mail.text);
        let foreign = server.make_passkey(server.sign_in("bob@acme.test", "read").await?.user_id, "Phone").await?;
        let expected = "E| error: Passkey <passkey> not found.\nE| next: service passkey list\nexit 6";
        assert_eq!(machine.show(&["passkey", "remove", &foreign.to_string(), "--yes"]).await?, expected);
        let second = server.make_passkey(ana, "Phone").await?.to_string();
        server.advance(901);
        let expected = "\
E| error: This needs a sign-in from the last 15 minutes.
E| next: service login --force
exit 4";
        assert_eq!(machine.show(&["passkey", "remove", &second, "--yes"]).await?, expected);
        Ok(())
    })
}
