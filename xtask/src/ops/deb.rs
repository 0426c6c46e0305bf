//! `cargo xtask ops deb`: installs, upgrades and removes the package for Debian on a machine with systemd, with the commands
//! of `docs/operating.md`.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, json};
use service_testkit::postgres::unprivileged_account;

use super::containers::{Podman, skip};
use super::load::UserTokens;
use super::machine::{DebianMachine, SYSTEMD_OPTIONS, write_program};
use super::report;
use super::surroundings::{Surroundings, blocks};
use crate::{dist, say_error};

/// The limit of what systemd's own check finds exposed: 0 is nothing, 10 is everything.
const EXPOSURE_LIMIT: f64 = 2.0;

const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// A version after that of the package.
const NEXT_VERSION: &str = "99.0.0";

/// Replaces the contents of the files that it is called with, as an operator does.
const EDITOR: &str = r#"#!/bin/sh -e
for file in "$@"; do
    cat "/srv/edited/$(basename "$file")" > "$file"
done
install -m 0640 -g serviced /srv/edited/mail-ca /etc/serviced/mail-ca
"#;

/// The package again, with a later version.
const REPACK: &str = r#"dpkg-deb --raw-extract serviced.deb again
sed -i "s/^Version: .*/Version: $VERSION/" again/DEBIAN/control
dpkg-deb --build --root-owner-group -Znone again next.deb"#;

/// Prints what must not change when the package is upgraded or removed: the files, their owners and modes.
const CONFIGURATION: &str = "stat -c '%n %a %U %G' /etc/serviced /etc/serviced/*; sha256sum /etc/serviced/*";

#[derive(clap::Args)]
pub(super) struct DebOptions {
    /// The package, instead of the one in target/dist; if there is none, the debug build is packed
    #[arg(long, value_name = "FILE")]
    package: Option<PathBuf>,
}

pub(super) async fn run(options: &DebOptions) -> Result<()> {
    let podman = Podman::new()?;
    if unprivileged_account()?.is_none() {
        return skip("deb", "systemd in a container needs root");
    }
    if let Some(reason) = podman.refuses(&SYSTEMD_OPTIONS)? {
        return skip("deb", &reason);
    }
    let began = Instant::now();
    let folder = tempfile::tempdir()?;
    let released = options.package.clone().or_else(dist::released_package);
    let package = match &released {
        Some(file) => file.clone(),
        None => dist::rehearse_package(folder.path())?,
    };
    say_error(&format!("The package {}", package.display()));
    let machine = DebianMachine::boot(podman)?;
    let surroundings = Surroundings::start().await?;
    fs::create_dir(machine.path("/srv/edited"))?;
    fs::copy(&package, machine.path("/srv/serviced.deb")).with_context(|| format!("no {}", package.display()))?;
    for (name, text) in surroundings.files("/etc/serviced")? {
        fs::write(machine.path("/srv/edited").join(name), text)?;
    }
    write_program(&machine.path("/usr/local/bin/editor"), EDITOR)?;
    let mut drill = DebDrill { machine, surroundings, steps: Map::new() };
    drill.step("prepared", began);
    let exposure = match drill.follow().await {
        Ok(exposure) => exposure,
        Err(error) => {
            let journal = drill.machine.shell("journalctl --unit serviced --lines 15 --output cat").unwrap_or_default();
            bail!("{error:#}\nThe journal ends with:\n{journal}");
        }
    };
    let measured = json!({
        "drill": "deb",
        "release": released.is_some(),
        "package_bytes": fs::metadata(package)?.len(),
        "exposure": exposure,
        "seconds": began.elapsed().as_secs_f64(),
        "steps": drill.steps,
    });
    report(&measured, exposure <= EXPOSURE_LIMIT)
}

struct DebDrill {
    machine: DebianMachine,
    surroundings: Surroundings,
    /// The steps that have passed, with their seconds.
    steps: Map<String, serde_json::Value>,
}

impl DebDrill {
    /// Does what an operator does from the first installation on; returns how exposed systemd finds the node.
    async fn follow(&mut self) -> Result<f64> {
        let [before, after]: [String; 2] = blocks("xtask/src/ops/deb.rs")?.try_into().ok().context("not two blocks")?;
        let (install, configure) = before.split_once('\n').context("the first block has one line")?;
        let (start, reload) = after.split_once('\n').context("the second block has one line")?;
        self.install(install)?;
        self.configure(configure)?;
        let mut session = self.start(start).await?;
        let exposure = self.check_protection()?;
        self.reload(reload).await?;
        let configuration = self.machine.shell(CONFIGURATION)?;
        self.upgrade(&configuration)?;
        self.restart(&mut session).await?;
        self.remove(&configuration).await?;
        self.install_again(&configuration, &mut session).await?;
        let failures = self.machine.shell("journalctl --unit serviced | grep --count 'Failed with result' || true")?;
        ensure!(failures == "0", "the unit failed {failures} times");
        Ok(exposure)
    }

    /// Notes that a step has passed.
    fn step(&mut self, name: &str, since: Instant) {
        let seconds = (since.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        say_error(&format!("{name}: {seconds} s"));
        self.steps.insert(name.to_owned(), seconds.into());
    }

    /// Compares what a script prints with what is expected.
    fn expect(&self, script: &str, wanted: &str) -> Result<()> {
        let said = self.machine.shell(script)?;
        ensure!(said == wanted, "{script} prints\n{said}\nand not\n{wanted}");
        Ok(())
    }

    /// The package makes the user, the directory and the configuration, and starts nothing.
    fn install(&mut self, command: &str) -> Result<()> {
        let since = Instant::now();
        let name = command.rsplit('/').next().context("the command names no package")?;
        self.machine.shell(&format!("cp serviced.deb {name}; {command}"))?;
        self.expect("getent passwd serviced | cut -d: -f6,7", "/:/usr/sbin/nologin")?;
        let files = "/etc/serviced /etc/serviced/serviced.toml /usr/bin/serviced";
        let modes = "750 root serviced\n640 root serviced\n755 root root";
        self.expect(&format!("stat -c '%a %U %G' {files}"), modes)?;
        self.expect("systemctl is-enabled serviced || systemctl is-active serviced || true", "disabled\ninactive")?;
        self.step("installed", since);
        Ok(())
    }

    /// The operator writes the files, migrates the database, and gives the role of nodes its rights.
    fn configure(&mut self, commands: &str) -> Result<()> {
        let since = Instant::now();
        self.machine.shell(commands)?;
        let files = "serviced.toml root-keys database-url mail-password owner-database-url";
        let readable = "640 root serviced\n".repeat(4) + "600 root root";
        self.expect(&format!("cd /etc/serviced; stat -c '%a %U %G' {files}"), &readable)?;
        self.surroundings.grant()?;
        self.step("configured", since);
        Ok(())
    }

    async fn start(&mut self, command: &str) -> Result<UserTokens> {
        let since = Instant::now();
        self.machine.shell(command)?;
        self.surroundings.until_ready(since, READY_TIMEOUT).await?;
        self.step("ready", since);
        self.expect("systemctl is-enabled serviced", "enabled")?;
        let since = Instant::now();
        let session = self.surroundings.sign_in("person@acme.test").await?;
        self.step("signed_in", since);
        Ok(session)
    }

    /// The unit protects the machine from the node: what systemd finds, and what the kernel says of the process.
    fn check_protection(&mut self) -> Result<f64> {
        let since = Instant::now();
        let said = self.machine.shell("systemd-analyze security --no-pager serviced")?;
        let level = said.split("exposure level for serviced.service: ").nth(1).and_then(|rest| rest.split(' ').next());
        let level = level.with_context(|| said.clone())?.parse()?;
        let status = self.machine.shell(&format!("cat /proc/{}/status", self.main_process()?))?;
        let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        let (bounding, privileges, filter) = (value("CapBnd:"), value("NoNewPrivs:"), value("Seccomp:"));
        ensure!(bounding.chars().all(|digit| digit == '0'), "the process could get capabilities: {bounding}");
        ensure!(privileges == "1" && filter == "2", "the process is not confined:\n{status}");
        self.step("protected", since);
        Ok(level)
    }

    fn main_process(&self) -> Result<String> {
        self.machine.shell("systemctl show --property MainPID --value serviced")
    }

    /// A reload takes over the log filter, and the process stays.
    async fn reload(&mut self, command: &str) -> Result<()> {
        let (since, process) = (Instant::now(), self.main_process()?);
        self.machine.shell("sed -i 's/^\\[log\\]$/[log]\\nfilter = \"info\"/' /etc/serviced/serviced.toml")?;
        self.machine.shell(command)?;
        let reloaded =
            "journalctl --unit serviced --output cat | grep 'Reloaded secrets' | grep --count log.filter || true";
        while self.machine.shell(reloaded)? != "1" {
            ensure!(since.elapsed() < READY_TIMEOUT, "the node has not reloaded the log filter");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        ensure!(self.main_process()? == process, "the node was restarted");
        self.step("reloaded", since);
        Ok(())
    }

    /// An upgrade changes no file of the operator, and leaves the node running.
    fn upgrade(&mut self, configuration: &str) -> Result<()> {
        let (since, process) = (Instant::now(), self.main_process()?);
        self.machine.shell(&format!("VERSION={NEXT_VERSION}\n{REPACK}"))?;
        let said = self.machine.shell("apt install ./next.deb")?;
        ensure!(
            said.contains("serviced is still running the previous version"),
            "apt does not say what to do:\n{said}"
        );
        self.expect(
            "dpkg-query --show --showformat '${Version} ${Status}' serviced",
            &format!("{NEXT_VERSION} install ok installed"),
        )?;
        self.expect(CONFIGURATION, configuration)?;
        ensure!(self.main_process()? == process, "the upgrade restarted the node");
        self.expect("systemctl is-active serviced", "active")?;
        self.step("upgraded", since);
        Ok(())
    }

    /// After a restart the new program runs, and the session is still valid.
    async fn restart(&mut self, session: &mut UserTokens) -> Result<()> {
        let since = Instant::now();
        let old = format!("readlink /proc/{}/exe", self.main_process()?);
        self.expect(&old, "/usr/bin/serviced (deleted)")?;
        self.machine.shell("systemctl restart serviced")?;
        self.surroundings.until_ready(since, READY_TIMEOUT).await?;
        self.expect(&format!("readlink /proc/{}/exe", self.main_process()?), "/usr/bin/serviced")?;
        self.surroundings.refresh(session).await?;
        self.step("restarted", since);
        Ok(())
    }

    /// Removing the package stops the node and keeps the files, and so does purging it.
    async fn remove(&mut self, configuration: &str) -> Result<()> {
        let since = Instant::now();
        self.machine.shell("apt remove --yes serviced")?;
        ensure!(!self.surroundings.is_running().await, "the node still runs");
        self.expect("systemctl is-active serviced || ls /usr/bin/serviced 2>/dev/null || true", "inactive")?;
        self.expect("find /etc/systemd /usr/lib/systemd -name 'serviced*'", "")?;
        self.expect(CONFIGURATION, configuration)?;
        self.step("removed", since);
        let since = Instant::now();
        self.machine.shell("apt purge --yes serviced")?;
        self.expect(CONFIGURATION, configuration)?;
        self.expect("dpkg-query --show serviced 2>/dev/null || true", "")?;
        self.step("purged", since);
        Ok(())
    }

    /// The package can be installed again, and the node runs with the old files.
    async fn install_again(&mut self, configuration: &str, session: &mut UserTokens) -> Result<()> {
        let since = Instant::now();
        self.machine.shell("apt install ./serviced.deb")?;
        self.expect(CONFIGURATION, configuration)?;
        self.machine.shell("systemctl enable --now serviced")?;
        self.surroundings.until_ready(since, READY_TIMEOUT).await?;
        self.surroundings.refresh(session).await?;
        self.step("installed_again", since);
        Ok(())
    }
}
