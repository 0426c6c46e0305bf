//! Three PostgreSQL servers under Patroni and three members of etcd, started with the files of `deploy/postgresql` as they are
//! shipped: only names, addresses, ports and paths are replaced, and how Patroni signs in without the network: by password, because
//! its account here is not `postgres`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use reqwest::Client;
use serde_json::{Value, json};
use service_testkit::ports;
use service_testkit::postgres::{programs, unprivileged_account};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::nodes::DrillDatabase;
use super::replace;
use crate::root;
use crate::tools::install_python;

const MEMBERS: [usize; 3] = [1, 2, 3];
const START_TIMEOUT: Duration = Duration::from_secs(120);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_EVERY: Duration = Duration::from_millis(100);
/// The system's Python: every user can run it, unlike one in an administrator's home.
const PYTHON: &str = "/usr/bin/python3";
/// The password of every role. The servers listen on this machine only, and end with the drill.
const PASSWORD: &str = "of-a-drill";

/// Ends its processes when dropped.
pub(super) struct PatroniCluster {
    members: Vec<Member>,
    ports: Ports,
    http: Client,
    directory: TempDir,
    _etcd: Vec<Child>,
}

/// The ports of each machine. The machines differ by their addresses.
struct Ports {
    etcd: u16,
    etcd_peers: u16,
    postgres: u16,
    rest: u16,
}

struct Member {
    number: usize,
    directory: PathBuf,
    patroni: Option<Child>,
}

/// Installs Patroni from `PyPI`, unless it is there. Debian's is older than docs/postgresql.md asks for.
pub(super) fn install() -> Result<()> {
    install_python(&folder()?, &root().join("xtask/tools/patroni/requirements.txt"))
}

impl PatroniCluster {
    /// Starts everything; returns when there are a primary, a synchronous standby and another one.
    pub(super) async fn start() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("patroni-").tempdir()?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let ports =
            Ports { etcd: ports::free()?, etcd_peers: ports::free()?, postgres: ports::free()?, rest: ports::free()? };
        let etcd = MEMBERS.iter().map(|number| start_etcd(*number, directory.path(), &ports)).collect::<Result<_>>()?;
        let addresses: Vec<_> = MEMBERS.iter().map(|number| address(*number)).collect();
        let certificate = rcgen::generate_simple_self_signed(addresses)?;
        fs::write(directory.path().join("ca.pem"), certificate.cert.pem())?;
        let mut members = Vec::new();
        for number in MEMBERS {
            let mut member = Member { number, directory: directory.path().join(format!("db{number}")), patroni: None };
            member.prepare(&certificate.cert.pem(), &certificate.signing_key.serialize_pem(), &ports)?;
            member.start()?;
            members.push(member);
        }
        let http = Client::builder().timeout(REQUEST_TIMEOUT).build()?;
        let cluster = Self { members, ports, http, directory, _etcd: etcd };
        cluster.until_complete().await?;
        Ok(cluster)
    }

    /// Creates the role and the database of the service, as docs/postgresql.md tells.
    pub(super) async fn create_database(&self) -> Result<DrillDatabase> {
        let leader = self.leader().await.context("there is no primary")?;
        let role = format!("create role serviced login nosuperuser nobypassrls password '{PASSWORD}'");
        for statement in [role.as_str(), "create database serviced owner serviced"] {
            let port = self.ports.postgres;
            let mut psql = Command::new(programs()?.join("psql"));
            psql.arg(format!("host={} port={port} user=postgres dbname=postgres sslmode=require", address(leader)));
            psql.args(["--no-psqlrc", "--quiet", "--command", statement]).env("PGPASSWORD", PASSWORD);
            let output = psql.env("HOME", self.directory.path()).output().await?;
            ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        }
        let hosts: Vec<_> =
            MEMBERS.iter().map(|number| format!("{}:{}", address(*number), self.ports.postgres)).collect();
        Ok(DrillDatabase {
            url: format!(
                "postgres://serviced:{PASSWORD}@{}/serviced?target_session_attrs=read-write&sslmode=verify-full",
                hosts.join(",")
            ),
            ca_file: Some(self.directory.path().join("ca.pem")),
        })
    }

    /// The number of the primary, as the first member that answers knows it.
    pub(super) async fn leader(&self) -> Option<usize> {
        let members = self.status().await?;
        let name = members.iter().find(|member| member["role"] == "leader")?["name"].as_str()?;
        name.strip_prefix("db")?.parse().ok()
    }

    /// Ends the processes of a member at once, as when its machine loses power.
    pub(super) async fn kill(&mut self, number: usize) -> Result<()> {
        self.member(number)?.kill().await
    }

    /// Stops the processes of a member without ending them: connections to it are accepted, and never answered.
    pub(super) async fn freeze(&mut self, number: usize) -> Result<()> {
        self.member(number)?.freeze().await
    }

    /// Drops every packet from and to a member, whose processes go on. The network is the drill's own.
    pub(super) async fn cut_off(&self, number: usize) -> Result<()> {
        firewall("--insert", number).await
    }

    /// Lets the packets of a member that was cut off pass again.
    pub(super) async fn reconnect(&self, number: usize) -> Result<()> {
        firewall("--delete", number).await
    }

    /// Starts a member again.
    pub(super) fn restart(&mut self, number: usize) -> Result<()> {
        self.member(number)?.start()
    }

    /// Asks Patroni to let the synchronous standby take over; returns when it has.
    pub(super) async fn switch_over(&self, leader: usize) -> Result<()> {
        let url = format!("http://{}:{}/switchover", address(leader), self.ports.rest);
        let body = json!({ "leader": format!("db{leader}") });
        let response = self.http.post(url).json(&body).timeout(START_TIMEOUT).send().await?;
        let status = response.status();
        ensure!(status == 200, "the switchover failed: {status} {}", response.text().await?);
        Ok(())
    }

    /// Waits until there are a primary, a synchronous standby and another one that follows.
    pub(super) async fn until_complete(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            let members = self.status().await.unwrap_or_default();
            let has = |role: &str| members.iter().any(|member| member["role"] == role);
            let timeline = members.first().map(|member| member["timeline"].clone()).unwrap_or_default();
            let all = members.iter().all(|member| {
                (member["state"] == "running" || member["state"] == "streaming") && member["timeline"] == timeline
            });
            if members.len() == MEMBERS.len() && all && has("leader") && has("sync_standby") {
                return Ok(());
            }
            ensure!(
                began.elapsed() < START_TIMEOUT,
                "the servers do not follow each other: {members:?}\n{}",
                self.logs()
            );
            sleep(POLL_EVERY).await;
        }
    }

    /// What the first member that answers knows of all of them.
    async fn status(&self) -> Option<Vec<Value>> {
        for number in MEMBERS {
            let url = format!("http://{}:{}/cluster", address(number), self.ports.rest);
            if let Ok(response) = self.http.get(url).send().await {
                let status: Value = response.json().await.ok()?;
                return status["members"].as_array().cloned();
            }
        }
        None
    }

    fn member(&mut self, number: usize) -> Result<&mut Member> {
        self.members.iter_mut().find(|member| member.number == number).context("there is no such member")
    }

    fn logs(&self) -> String {
        let last = |member: &Member| {
            let text = fs::read_to_string(member.directory.join("log")).unwrap_or_default();
            text.lines().rev().take(5).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat()
        };
        self.members.iter().map(last).collect::<Vec<_>>().concat()
    }
}

impl Member {
    /// Writes the files of a server that has never run.
    fn prepare(&self, certificate: &str, key: &str, ports: &Ports) -> Result<()> {
        let (number, directory) = (self.number, &self.directory);
        fs::create_dir(directory)?;
        let path = directory.to_str().context("the path is not UTF-8")?;
        let shipped = fs::read_to_string(root().join("deploy/postgresql/patroni.yml"))?;
        let programs = programs()?;
        let text = replace(
            &shipped,
            &[
                ("name: db1", &format!("name: db{number}")),
                ("10.0.0.31:5432", &format!("{}:{}", address(number), ports.postgres)),
                ("10.0.0.31:8008", &format!("{}:{}", address(number), ports.rest)),
                (":2379", &format!(":{}", ports.etcd)),
                ("10.0.0.", "127.0.0."),
                ("/usr/lib/postgresql/15/bin", programs.to_str().context("the path is not UTF-8")?),
                ("/var/lib/postgresql", path),
                ("/var/run/postgresql", path),
                ("/etc/postgresql", path),
                ("local all postgres peer", "local all postgres scram-sha-256"),
            ],
        )?;
        fs::write(directory.join("patroni.yml"), text)?;
        fs::write(directory.join("server.pem"), certificate)?;
        fs::write(directory.join("server.key"), key)?;
        fs::write(directory.join("log"), "")?;
        fs::set_permissions(directory.join("server.key"), fs::Permissions::from_mode(0o600))?;
        if let Some((user, group)) = unprivileged_account()? {
            for file in ["", "patroni.yml", "server.pem", "server.key", "log"] {
                chown(directory.join(file), Some(user), Some(group))?;
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        let log = fs::OpenOptions::new().append(true).open(self.directory.join("log"))?;
        let mut command = Command::new(PYTHON);
        if let Some((user, _)) = unprivileged_account()? {
            command = Command::new("setpriv");
            let group = group_of(self.number);
            command.args([format!("--reuid={user}"), format!("--regid={group}")]).args(["--clear-groups", PYTHON]);
        }
        command.args(["-m", "patroni", "patroni.yml"]).current_dir(&self.directory).env("HOME", &self.directory);
        command.env("PYTHONPATH", packages()?).env("PYTHONDONTWRITEBYTECODE", "1");
        for role in ["SUPERUSER", "REPLICATION", "REWIND"] {
            command.env(format!("PATRONI_{role}_PASSWORD"), PASSWORD);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        self.patroni = Some(command.spawn().context("patroni does not run")?);
        Ok(())
    }

    async fn kill(&mut self) -> Result<()> {
        let mut patroni = self.patroni.take().context("the member does not run")?;
        // Patroni first, so that it does not start PostgreSQL again.
        patroni.start_kill()?;
        self.kill_postgres();
        patroni.wait().await?;
        Ok(())
    }

    /// Stops Patroni and all processes of PostgreSQL, without ending them.
    async fn freeze(&self) -> Result<()> {
        let patroni = self.patroni.as_ref().and_then(Child::id).context("the member does not run")?;
        let mut processes = self.postgres_processes();
        processes.push(patroni.to_string());
        // A process may have ended meanwhile.
        Command::new("kill").arg("-STOP").args(processes).stderr(Stdio::null()).status().await?;
        Ok(())
    }

    /// Ends all processes of PostgreSQL at once. Those that are stopped would not notice that the postmaster is gone.
    fn kill_postgres(&self) {
        let processes = self.postgres_processes();
        drop(std::process::Command::new("kill").arg("-KILL").args(processes).stderr(Stdio::null()).status());
    }

    /// The postmaster and its children.
    fn postgres_processes(&self) -> Vec<String> {
        let file = fs::read_to_string(self.directory.join("serviced/postmaster.pid")).unwrap_or_default();
        let Some(postmaster) = file.lines().next() else { return Vec::new() };
        let found = std::process::Command::new("pgrep").args(["--parent", postmaster]).output();
        let children = found.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        [postmaster].into_iter().chain(children.lines()).map(str::to_owned).collect()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut patroni) = self.patroni.take() {
            drop(patroni.start_kill());
            self.kill_postgres();
        }
    }
}

fn start_etcd(number: usize, directory: &Path, ports: &Ports) -> Result<Child> {
    let shipped = fs::read_to_string(root().join("deploy/postgresql/etcd.yml"))?;
    let own = format!("127.0.0.2{number}");
    let data = directory.join(format!("etcd{number}"));
    // `initial-cluster` is the same on each machine.
    let mut text = String::new();
    for line in shipped.lines().filter(|line| !line.starts_with('#')) {
        let line = match line.split_once(": ") {
            Some(("name", _)) => format!("name: etcd{number}"),
            Some(("initial-cluster", _)) => line.replace("10.0.0.", "127.0.0."),
            _ => line.replace("10.0.0.21", &own),
        };
        text = text + &line + "\n";
    }
    let text = replace(
        &text,
        &[
            ("/var/lib/etcd", data.to_str().context("the path is not UTF-8")?),
            (":2379", &format!(":{}", ports.etcd)),
            (":2380", &format!(":{}", ports.etcd_peers)),
        ],
    )?;
    let file = directory.join(format!("etcd{number}.yml"));
    fs::write(&file, text)?;
    let log = fs::File::create(directory.join(format!("etcd{number}.log")))?;
    let mut command = Command::new("etcd");
    command.arg("--config-file").arg(file).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
    command.spawn().context("etcd does not run: `.ci/install drills` installs it")
}

/// The addresses of etcd.
const ETCD: &str = "127.0.0.20/30";

/// Inserts or deletes the rules that drop every packet from and to a member.
async fn firewall(action: &str, number: usize) -> Result<()> {
    let (address, group) = (address(number), group_of(number).to_string());
    // What it listens at, and the connections that it opens itself. The kernel still sends what is left in a connection that the
    // process has closed, and such packets have no owner: one of them would renew the lock.
    let rules: [&[&str]; 4] = [
        &["INPUT", "--destination", &address],
        &["OUTPUT", "--source", &address],
        &["OUTPUT", "--match", "owner", "--gid-owner", &group],
        &["OUTPUT", "--destination", ETCD, "--match", "owner", "!", "--socket-exists"],
    ];
    for rule in rules {
        let status = Command::new("iptables").arg(action).args(rule).args(["--jump", "DROP"]).status().await;
        let status = status.context("iptables does not run: `.ci/install drills` installs it")?;
        ensure!(status.success(), "iptables {action} failed: {status}");
    }
    Ok(())
}

/// The packages that Patroni consists of.
fn packages() -> Result<PathBuf> {
    let versions = fs::read_dir(folder()?.join("lib"))?.collect::<Result<Vec<_>, _>>()?;
    Ok(versions.first().context("Patroni is not installed")?.path().join("site-packages"))
}

fn folder() -> Result<PathBuf> {
    Ok(root().canonicalize()?.join("target/tools/patroni"))
}

/// The group of a member's processes. It has no name; the firewall tells members apart by it.
const fn group_of(number: usize) -> usize {
    52_300 + number
}

/// The address of a PostgreSQL server.
fn address(number: usize) -> String {
    format!("127.0.0.3{number}")
}
