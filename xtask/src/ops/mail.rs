//! `cargo xtask ops mail`: mail servers that bounce, stall and defer. Bounces come from a real Postfix, with the settings of
//! docs/mail.md.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_testkit::mailbox::Mailbox;
use service_testkit::ports;
use service_testkit::postgres::Cluster;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::nodes::{DrillDatabase, DrillNode, Installation};
use super::{replace, report};
use crate::{root, say_error};

/// Until mail to an address that does not exist is no longer sent.
const SUPPRESSED_WITHIN: Duration = Duration::from_secs(60);
/// Until a code arrives by the second server, if the first does not respond.
const SECOND_WITHIN: Duration = Duration::from_secs(30);
/// How long the only server defers mail, and until a code then arrives.
const DEFERS_FOR: Duration = Duration::from_secs(20);
const DEFERRED_WITHIN: Duration = Duration::from_secs(40);
const POLL_EVERY: Duration = Duration::from_millis(20);

pub(super) async fn run() -> Result<()> {
    if !Postfix::can_start() {
        say_error("── Skipped: Postfix is not installed (`.ci/install nightly`), or this is not root, which it needs");
        return Ok(());
    }
    let cluster = Cluster::start_quiet()?;
    let mut installation = Installation::prepare(&DrillDatabase::create(&cluster).await?).await?;
    let (mailbox, second) = (installation.mailbox.clone(), Mailbox::start().await?);
    let node = installation.nodes.first_mut().context("there is no node")?;
    let postfix = Postfix::start(mailbox.smtp_address(), &node.ops_url())?;

    use_server(node, "mail", postfix.address);
    node.set("mail.bounce_to", "bounces@mail.service.example");
    node.set("limits.otp_sends_per_context", "1000/60");
    node.start().await?;
    let suppressed = bounce(node, &mailbox).await.with_context(|| postfix.log())?;
    node.stop().await?;

    use_server(node, "mail", mailbox.smtp_address());
    use_server(node, "mail.second", second.smtp_address());
    node.start().await?;
    mailbox.stall(true);
    let by_second = arrival(node, &second, "by.second@acme.test", SECOND_WITHIN).await?;
    mailbox.stall(false);
    node.stop().await?;

    node.set("mail.second_host", "");
    node.start().await?;
    let deferred = defer(node, &mailbox).await?;
    let measured = json!({
        "drill": "mail",
        "suppressed_seconds": suppressed.as_secs_f64(),
        "second_server_seconds": by_second.as_secs_f64(),
        "deferred_seconds": deferred.as_secs_f64(),
    });
    let in_time = suppressed < SUPPRESSED_WITHIN && by_second < SECOND_WITHIN && deferred < DEFERRED_WITHIN;
    report(&measured, in_time)
}

/// Lets a node send mail to this server. `prefix` is `mail` or `mail.second`.
fn use_server(node: &mut DrillNode, prefix: &str, server: SocketAddr) {
    let separator = if prefix.contains('.') { "_" } else { "." };
    node.set(&format!("{prefix}{separator}host"), &server.ip().to_string());
    node.set(&format!("{prefix}{separator}port"), &server.port().to_string());
    node.set(&format!("{prefix}{separator}tls"), "none");
}

async fn request(node: &DrillNode, email: &str) -> Result<()> {
    let response = node.http.post("/v1/otp-tokens", &json!({ "email": email })).await?;
    ensure!(response.status == 201, "no code is requested: {}", response.text);
    Ok(())
}

/// Requests codes for an address that does not exist. Returns how long it takes until mail to it is no longer sent.
async fn bounce(node: &DrillNode, mailbox: &Mailbox) -> Result<Duration> {
    mailbox.refuse(Some("550 5.1.1 no such user"));
    let began = Instant::now();
    request(node, "gone@acme.test").await?;
    until(node, "service_mail_bounces_total{outcome=\"suppressed\"}").await?;
    let suppressed = began.elapsed();
    mailbox.refuse(None);
    request(node, "gone@acme.test").await?;
    until(node, "service_mails_suppressed_total").await?;
    ensure!(mailbox.mails().is_empty(), "a mail was sent to an address that bounced");
    // Mail to others still arrives, by the same server.
    arrival(node, mailbox, "person@acme.test", SUPPRESSED_WITHIN).await?;
    Ok(suppressed)
}

/// Waits until a counter is 1.
async fn until(node: &DrillNode, counter: &str) -> Result<()> {
    let counted = async {
        while node.metric(counter).await? < 1.0 {
            sleep(POLL_EVERY).await;
        }
        Ok(())
    };
    timeout(SUPPRESSED_WITHIN, counted).await.with_context(|| format!("{counter} stays 0"))?
}

/// Requests a code. Returns how long it takes to arrive.
async fn arrival(node: &DrillNode, mailbox: &Mailbox, email: &str, within: Duration) -> Result<Duration> {
    let (began, mut arrivals) = (Instant::now(), mailbox.arrivals());
    request(node, email).await?;
    timeout(within, arrivals.changed()).await.with_context(|| format!("no mail to {email} arrives"))??;
    mailbox.next_code_to(email).await?;
    Ok(began.elapsed())
}

/// Requests a code from a server that accepts mail only after a while. Returns how long it takes to arrive.
async fn defer(node: &DrillNode, mailbox: &Mailbox) -> Result<Duration> {
    mailbox.refuse(Some("451 4.3.0 later"));
    let accept = async {
        sleep(DEFERS_FOR).await;
        mailbox.refuse(None);
        Ok(())
    };
    let email = "deferred@acme.test";
    let (arrived, ()) = tokio::try_join!(arrival(node, mailbox, email, DEFERRED_WITHIN), accept)?;
    Ok(arrived)
}

/// A Postfix with the settings of docs/mail.md, which sends all mail to one server. It stops when it is dropped.
struct Postfix {
    directory: TempDir,
    address: SocketAddr,
}

impl Postfix {
    fn can_start() -> bool {
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
        is_root && Command::new("postconf").arg("-d").output().is_ok_and(|output| output.status.success())
    }

    /// Starts Postfix. It sends mail to `next`, and passes bounces to the internal listener of a node.
    fn start(next: SocketAddr, node: &str) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("postfix-").tempdir()?;
        let postfix = Self { directory, address: SocketAddr::from(([127, 0, 0, 1], ports::free()?)) };
        fs::set_permissions(postfix.directory.path(), Permissions::from_mode(0o755))?;
        let (path, port) = (postfix.directory.path().display(), postfix.address.port());
        // The recipe begins with what the package for Debian configures. Its programs run in a chroot there.
        let begin = format!(
            "set -eu; mkdir {path}/queue {path}/data {path}/etc; chown postfix {path}/data
             cp /etc/postfix/master.cf.proto {path}/etc/master.cf
             cp /etc/postfix/dynamicmaps.cf /etc/postfix/postfix-files {path}/etc
             install -m 755 {bounce} {path}/serviced-bounce
             printf '%s\\n' 'compatibility_level = 3.6' 'queue_directory = {path}/queue' 'data_directory = {path}/data' \
                 'maillog_file = {path}/log' 'maillog_file_prefixes = {path}' 'inet_protocols = ipv4' \
                 'relayhost = [{ip}]:{next_port}' > {path}/etc/main.cf
             postconf -c {path}/etc -F '*/*/chroot = n'
             postconf -c {path}/etc -M 'smtp/inet=127.0.0.1:{port} inet n - n - - smtpd'",
            bounce = root().join("deploy/mail/serviced-bounce").display(),
            ip = next.ip(),
            next_port = next.port(),
        );
        let recipe = replace(
            &recipe()?,
            &[
                ("postconf -", &format!("postconf -c {path}/etc -")),
                ("/usr/local/bin/serviced-bounce", &format!("{path}/serviced-bounce")),
                ("http://127.0.0.1:9090", node),
            ],
        )?;
        shell(&begin)?;
        shell(&recipe)?;
        shell(&format!("postfix -c {path}/etc start 2>&1"))?;
        Ok(postfix)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        drop(shell(&format!("postfix -c {}/etc stop 2>&1", self.directory.path().display())));
    }
}

/// The commands of the page.
fn recipe() -> Result<String> {
    let page = fs::read_to_string(root().join("docs/mail.md"))?;
    let section = page.split("\n## Postfix\n").nth(1).context("the page has no section for Postfix")?;
    let block = section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    Ok(block.context("the page has no commands for Postfix")?.to_owned())
}

fn shell(script: &str) -> Result<()> {
    let output = Command::new("/bin/sh").args(["-c", script]).output()?;
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{script}: {printed}");
    Ok(())
}
