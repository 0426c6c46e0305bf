//! Tests of `service workspace connection` and `service workspace domain`.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_testkit::dns_server::{DnsServer, Record};

use crate::{
    machine::{CommandOutput, EMAIL, Machine, binary, run, run_with},
    token::sign_in_with_workspace,
};

const SECRET: &str = "xyzzy-plugh-4711";

/// Runs a command with the client secret on standard input.
async fn with_secret(machine: &Machine, arguments: &str) -> Result<CommandOutput> {
    let mut command = Command::new("sh");
    let line = format!("printf '%s\\n' {SECRET} | {} {arguments}", binary().display());
    command.args(["-c", &line]).env_clear().envs(machine.variables()).current_dir(machine.home.path());
    machine.run_command(&mut command).await
}

/// Runs a command in the workspace with `--json`; its object.
async fn object(machine: &Machine, workspace: &str, arguments: &[&str]) -> Result<Value> {
    let ran = machine.run(&[arguments, &["--workspace-id", workspace, "--yes", "--json"]].concat()).await?;
    ensure!(ran.code == Some(0), "{arguments:?}: {ran:?}");
    Ok(serde_json::from_str(&ran.stdout)?)
}

#[test]
fn a_connection_is_created_changed_and_deleted() -> Result<()> {
    run(async |server, machine| {
        server.leaks.register("client secret", SECRET);
        let acme = sign_in_with_workspace(server, machine).await?;
        let list = ["workspace", "connection", "list", "--workspace-id", &acme];
        assert_eq!(machine.show(&list).await?, "E| No connections.\nexit 0");
        let create = "workspace connection create --name Acme --issuer https://idp.acme.test --client-id service";
        let created = with_secret(machine, &format!("{create} --client-secret-stdin --workspace-id {acme}")).await?;
        let expected = "\
E| ok: Created Acme (<conn>).
E|   Register these at the provider:
E|     Redirect URI: <server>/sso/callback/<conn>
E|     Back-channel logout URI: <server>/sso/backchannel-logout/<conn>
exit 0";
        assert_eq!(machine.transcript(&created), expected);
        assert_eq!(machine.show(&list).await?, "O| <conn>\tAcme\tdraft\thttps://idp.acme.test\nexit 0");
        let listed = object(machine, &acme, &["workspace", "connection", "list"]).await?;
        assert_eq!(listed["workspace"], json!({ "id": acme, "name": "Acme" }));
        assert_eq!(listed["connections"][0]["hasClientSecret"], true);
        let id = listed["connections"][0]["id"].as_str().context("no id")?.to_owned();
        let shown = machine.show(&["workspace", "connection", "show", &id, "--workspace-id", &acme]).await?;
        ensure!(shown.contains("O| Client secret: stored\n") && !shown.contains(SECRET), "{shown}");

        let update = ["workspace", "connection", "update", &id, "--workspace-id", &acme];
        let early = machine.show(&[&update[..], &["--enable"]].concat()).await?;
        ensure!(early.contains("hasn't been tried") && early.ends_with("exit 1"), "{early}");
        // As if an owner had signed in through it.
        server.sql("update connections set tried_at = created_at").await?;
        let changed = machine.show(&[&update[..], &["--enable", "--session-hours", "8"]].concat()).await?;
        assert_eq!(changed, "E| ok: Acme (<conn>) is enabled now.\nexit 0");
        let changed =
            object(machine, &acme, &["workspace", "connection", "update", &id, "--break-glass", EMAIL]).await?;
        assert_eq!(changed["connection"]["breakGlass"], json!([machine.sign_in()?["user"]["id"]]));
        assert_eq!(changed["connection"]["sessionHours"], 8);
        // What it does is shown before it is done.
        let require = [&update[..], &["--require", "--existing", "keep"]].concat();
        let expected = "E| error: Use --yes to require single sign-on without a prompt.\nexit 2";
        assert_eq!(machine.show(&require).await?, expected);
        let required = machine.show(&[&require[..], &["--yes"]].concat()).await?;
        assert_eq!(required, "E| ok: Acme (<conn>) is required now.\nexit 0");
        let undecided = machine.run(&[&update[..], &["--require"]].concat()).await?;
        ensure!(undecided.code == Some(2) && undecided.stderr.contains("--existing"), "{undecided:?}");

        // With a key instead of the secret, the provider has to know its public half.
        let update = ["workspace", "connection", "update", &id, "--auth-method", "private_key_jwt"];
        let signed = object(machine, &acme, &update).await?;
        let shown = machine.show(&["workspace", "connection", "show", &id, "--workspace-id", &acme]).await?;
        let line = format!("O| Public key: {}\n", signed["connection"]["publicKey"]);
        ensure!(
            shown.contains(&line) && shown.contains("\"kty\":\"EC\"") && !shown.contains("Client secret"),
            "{shown}"
        );

        let deleted = object(machine, &acme, &["workspace", "connection", "delete", &id]).await?;
        assert_eq!(deleted["deleted"], json!({ "id": id, "name": "Acme" }));
        let gone = machine.show(&["workspace", "connection", "show", &id, "--workspace-id", &acme]).await?;
        let expected = "E| error: Connection <conn> not found.\nE| next: service workspace connection list\nexit 6";
        assert_eq!(gone, expected);
        Ok(())
    })
}

#[test]
fn a_domain_is_added_verified_and_removed() -> Result<()> {
    let dns = DnsServer::start()?;
    run_with(&[("dns.servers", &dns.address.to_string())], async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        let on = ["--workspace-id", acme.as_str()];
        let add = machine.run(&[&["workspace", "domain", "add", "Bücher.test"][..], &on].concat()).await?;
        // The value alone goes to standard output, for scripts.
        let value = add.stdout.trim().to_owned();
        ensure!(value.starts_with("service-verification=") && add.stderr.contains(&value), "{add:?}");
        let verify = [&["workspace", "domain", "verify", "bücher.test"][..], &on].concat();
        let missing = machine.show(&verify).await?;
        ensure!(missing.contains("was not found at xn--bcher-kva.test") && missing.ends_with("exit 6"), "{missing}");
        dns.serve(&[Record::Txt { name: "xn--bcher-kva.test", value: &value }])?;
        assert_eq!(machine.show(&verify).await?, "E| ok: xn--bcher-kva.test is verified.\nexit 0");
        let listed = object(machine, &acme, &["workspace", "domain", "list"]).await?;
        assert_eq!(listed["domains"][0]["status"], "verified");

        let created = ["workspace", "connection", "create", "--name", "Acme", "--issuer", "https://idp.acme.test"];
        let id = object(machine, &acme, &created).await?["connection"]["id"].as_str().context("no id")?.to_owned();
        let update = ["workspace", "domain", "update", "bücher.test"];
        let updated = object(machine, &acme, &[&update[..], &["--connection", &id]].concat()).await?;
        assert_eq!(updated["domain"]["connectionId"], id);
        let updated = machine.show(&[&update[..], &["--no-connection"], &on].concat()).await?;
        assert_eq!(updated, "E| ok: Users of xn--bcher-kva.test sign in by email code.\nexit 0");
        let removed = object(machine, &acme, &["workspace", "domain", "remove", "xn--bcher-kva.test"]).await?;
        assert_eq!(removed["removed"], json!({ "domain": "xn--bcher-kva.test" }));
        let public = machine.show(&[&["workspace", "domain", "add", "gmail.com"][..], &on].concat()).await?;
        ensure!(public.contains("public mail provider") && !public.ends_with("exit 0"), "{public}");
        let unknown = machine.show(&[&["workspace", "domain", "verify", "dock.test"][..], &on].concat()).await?;
        ensure!(unknown.contains("dock.test isn't a domain of this workspace"), "{unknown}");
        let personal = machine.show(&["workspace", "domain", "list", "--workspace-id", "personal"]).await?;
        ensure!(personal.contains("Your personal space has no domains."), "{personal}");
        Ok(())
    })
}
