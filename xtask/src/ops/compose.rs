//! `cargo xtask ops compose`: starts `deploy/compose` as it is shipped, and signs a user in.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use reqwest::{Certificate, Client};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::compose_images::{OTHERS, load_service, pack_service, prepare_others};
use super::containers::{Podman, is_root, said_by, skip};
use super::{namespaces, report};
use crate::tools::{install_python, succeed_in_silence};
use crate::{root, say_error};

/// As in `.env.example`.
const URL: &str = "https://localhost:8443";
const MAILS: &str = "http://localhost:1080/email";

const NODES: [&str; 2] = ["serviced_node1_1", "serviced_node2_1"];
const SECRETS: [&str; 4] = ["root-keys", "serviced-password", "serviced_owner-password", "ca.key"];

/// The ports that are published: of the proxy, and of the mail server for trying.
const PUBLISHED: [&str; 2] = ["0.0.0.0:8443->443/tcp", "127.0.0.1:1080->1080/tcp"];
/// Ports inside containers. None of them is to be reached on the machine.
const INSIDE: [u16; 3] = [5432, 8080, 9090];

/// No connection through the proxy may take longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const READY_WITHIN: Duration = Duration::from_secs(120);
const MAIL_WITHIN: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub(super) struct ComposeOptions {
    /// Run in namespaces of its own already, with what was prepared in this folder
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

pub(super) async fn run(options: &ComposeOptions) -> Result<()> {
    if let Some(folder) = &options.inside {
        return run_inside(folder).await;
    }
    if !is_root()? {
        return skip("compose", "only root can make the network of the drill");
    }
    if let Some(reason) = Podman::new()?.refuses(&[])? {
        return skip("compose", &reason);
    }
    let tools = root().canonicalize()?.join("target/tools/compose");
    install_python(&tools.join("python"), &root().join("xtask/tools/compose/requirements.txt"))?;
    prepare_others()?;
    let folder = tempfile::Builder::new().prefix("drill-").tempdir()?;
    pack_service(folder.path())?;
    let path = folder.path().to_str().context("a path is not UTF-8")?;
    namespaces::run_inside(folder.path(), &["ops", "compose", "--inside", path])
}

async fn run_inside(folder: &Path) -> Result<()> {
    let podman = Podman::with_images(&prepare_others()?)?;
    let service = load_service(&podman, folder)?;
    let installation = Compose::prepare(podman, folder, &service.name)?;
    say_error("One command");
    let began = Instant::now();
    installation.run(&["up", "--detach"])?;
    installation.until_ready().await?;
    let ready = began.elapsed();
    let user = installation.sign_in().await?;
    let signed_in = began.elapsed();

    say_error("A node is restarted, and the command is repeated");
    let failed = installation.restart_a_node(&user).await?;
    installation.run(&["up", "--detach"])?;
    installation.until_ready().await?;
    ensure!(user.is_accepted().await, "the user is signed out after a second `up`");

    let leaks = installation.find_secrets()?;
    let problems = installation.find_problems()?;
    installation.run(&["down", "--volumes"])?;
    let left = installation.podman.run(&["ps", "--all", "--quiet"])?
        + &installation.podman.run(&["volume", "ls", "--quiet"])?;
    let measured = json!({
        "drill": "compose",
        "image": service.from,
        "ready_seconds": ready.as_secs_f64(),
        "signed_in_seconds": signed_in.as_secs_f64(),
        "failed_during_restart": failed,
        "secrets_found": leaks,
        "problems": problems,
        "left": left,
    });
    report(&measured, failed == 0 && leaks.is_empty() && problems.is_empty() && left.is_empty())
}

/// The installation, in a copy of its folder.
struct Compose {
    podman: Podman,
    folder: PathBuf,
    program: PathBuf,
    path: String,
}

impl Compose {
    /// Copies what is shipped, and edits `.env`: the images, and nothing else.
    fn prepare(podman: Podman, folder: &Path, service: &str) -> Result<Self> {
        let shipped = root().join("deploy");
        succeed_in_silence(
            Command::new("cp").arg("-R").arg(shipped.join("compose")).arg(shipped.join("proxy")).arg(folder),
        )?;
        let compose = folder.join("compose");
        let shipped = fs::read_to_string(compose.join(".env.example"))?;
        let edited = shipped.lines().map(|line| match line.split_once('=').map(|(name, _)| name) {
            Some("SERVICED_IMAGE") => format!("SERVICED_IMAGE={service}"),
            Some(name @ ("POSTGRES_IMAGE" | "CADDY_IMAGE" | "MAIL_IMAGE")) => format!("{name}={OTHERS}"),
            _ => line.to_owned(),
        });
        let settings = edited.collect::<Vec<_>>().join("\n") + "\n";
        fs::write(compose.join(".env"), settings)?;
        let path =
            format!("{}:{}", podman.wrapper()?.display(), said_by(Command::new("sh").args(["-c", "echo $PATH"]))?);
        let program = root().canonicalize()?.join("target/tools/compose/python/bin/podman-compose");
        Ok(Self { podman, folder: compose, program, path })
    }

    /// Runs a command of podman-compose; returns what it prints.
    fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        said_by(command.args(arguments).current_dir(&self.folder).env("PATH", &self.path).stdin(Stdio::null()))
    }

    async fn until_ready(&self) -> Result<()> {
        let began = Instant::now();
        for node in NODES {
            // systemd would run it every five seconds, where it is there.
            while self.podman.run(&["healthcheck", "run", node]).is_err() {
                ensure!(began.elapsed() < READY_WITHIN, "{node} is not ready:\n{}", self.logs()?);
                sleep(POLL_EVERY).await;
            }
        }
        Ok(())
    }

    /// Prints a secret, by the command in README.md.
    fn show(&self, name: &str) -> Result<String> {
        self.run(&["run", "--rm", "-T", "secrets", "show", name])
    }

    /// Signs a user in through the proxy, with the code that the mail server shows.
    async fn sign_in(&self) -> Result<SignedInUser> {
        let authority = Certificate::from_pem(self.show("ca.pem")?.as_bytes())?;
        let http = Client::builder().tls_certs_only([authority]).timeout(REQUEST_TIMEOUT).build()?;
        let request = json!({ "email": "ann@acme.test" });
        let response = http.post(format!("{URL}/v1/otp-tokens")).json(&request).send().await?.error_for_status()?;
        let requested: Value = response.json().await?;
        let code = read_code().await?;
        let exchange = service_testkit::server::otp_exchange(
            requested["otpId"].as_str().context("the response has no otpId")?,
            &code,
            "read write",
        );
        let response = http.post(format!("{URL}/oauth/token")).json(&exchange).send().await?.error_for_status()?;
        let tokens: Value = response.json().await?;
        let access_token = tokens["access_token"].as_str().context("no access token was issued")?.to_owned();
        let user = SignedInUser { http, access_token };
        ensure!(user.is_accepted().await, "the access token is not accepted");
        Ok(user)
    }

    /// Restarts a node while the user sends requests; returns how many of them failed.
    async fn restart_a_node(&self, user: &SignedInUser) -> Result<usize> {
        let mut command = Command::new(&self.program);
        command.args(["restart", "node1"]).current_dir(&self.folder).env("PATH", &self.path).stdin(Stdio::null());
        let mut restart = tokio::process::Command::from(command).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut failed = 0;
        let status = loop {
            failed += usize::from(!user.is_accepted().await);
            if let Some(status) = restart.try_wait()? {
                break status;
            }
            sleep(POLL_EVERY / 4).await;
        };
        ensure!(status.success(), "podman-compose restart: {status}");
        self.until_ready().await?;
        Ok(failed)
    }

    /// Looks for secrets in logs, and in what podman tells of containers.
    fn find_secrets(&self) -> Result<Vec<String>> {
        let said = self.logs()? + &self.inspect()?.to_string();
        let mut found = Vec::new();
        for name in SECRETS {
            let secret = self.show(name)?;
            let longest = secret.lines().map(|line| line.trim_start_matches("1:")).max_by_key(|line| line.len());
            let secret = longest.filter(|secret| secret.len() > 30).with_context(|| format!("{name} is no secret"))?;
            if said.contains(secret) {
                found.push(name.to_owned());
            }
        }
        Ok(found)
    }

    /// Looks for what makes the installation less safe than its README says.
    fn find_problems(&self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for container in self.inspect()?.as_array().context("podman inspect gives no list")? {
            let name = container["Name"].as_str().context("a container has no name")?;
            let (host, security) = (&container["HostConfig"], &container["HostConfig"]["SecurityOpt"]);
            let capabilities = container["EffectiveCaps"].as_array().map_or(0, Vec::len);
            // `secrets` can change the owners of files, `proxy` can use low ports.
            let is_confined = capabilities == usize::from(name.contains("secrets") || name.contains("proxy"))
                && host["ReadonlyRootfs"] == true
                && host["Memory"].as_i64().is_some_and(|bytes| bytes > 0)
                && security.to_string().contains("no-new-privileges");
            if !is_confined {
                problems.push(format!("{name} is not confined"));
            }
        }
        let published = self.podman.run(&["ps", "--format", "{{.Ports}}"])?;
        let unknown =
            published.split([',', '\n']).map(str::trim).filter(|port| !port.is_empty() && !PUBLISHED.contains(port));
        problems.extend(unknown.map(|port| format!("{port} is published")));
        let open = INSIDE.iter().filter(|port| TcpStream::connect(("127.0.0.1", **port)).is_ok());
        problems.extend(open.map(|port| format!("{port} can be reached")));
        let rights = "select has_table_privilege('serviced', 'audit_events', 'update') or not \
            has_table_privilege('serviced', 'audit_events', 'insert') or pg_has_role('serviced', 'serviced_owner', 'member')";
        let psql = ["exec", "serviced_database_1", "psql", "--username", "postgres", "-Atc", rights, "service"];
        if self.podman.run(&psql)? != "f" {
            problems.push("the role of the nodes has other rights than it needs".to_owned());
        }
        Ok(problems)
    }

    fn inspect(&self) -> Result<Value> {
        let containers = self.podman.run(&["ps", "--all", "--quiet"])?;
        let inspected = self.podman.run(&[vec!["inspect"], containers.lines().collect()].concat())?;
        Ok(serde_json::from_str(&inspected)?)
    }

    /// The logs of all containers.
    fn logs(&self) -> Result<String> {
        let mut logs = String::new();
        for container in self.podman.run(&["ps", "--all", "--format", "{{.Names}}"])?.lines() {
            let output = self.podman.command().args(["logs", container]).output()?;
            for bytes in [output.stdout, output.stderr] {
                logs += &String::from_utf8_lossy(&bytes);
            }
        }
        Ok(logs)
    }
}

struct SignedInUser {
    http: Client,
    access_token: String,
}

impl SignedInUser {
    async fn is_accepted(&self) -> bool {
        let request = self.http.get(format!("{URL}/v1/whoami")).bearer_auth(&self.access_token);
        request.send().await.is_ok_and(|response| response.status() == 200)
    }
}

/// Waits for the mail, and reads the code, which is in the subject too.
async fn read_code() -> Result<String> {
    let began = Instant::now();
    let http = Client::builder().timeout(REQUEST_TIMEOUT).build()?;
    loop {
        let mails: Value = http.get(MAILS).send().await?.json().await?;
        if let Some(subject) = mails[0]["subject"].as_str() {
            let digits: String = subject.chars().filter(char::is_ascii_digit).collect();
            ensure!(digits.len() == 8, "the subject has no code: {subject}");
            return Ok(digits);
        }
        ensure!(began.elapsed() < MAIL_WITHIN, "no mail arrives");
        sleep(POLL_EVERY).await;
    }
}
