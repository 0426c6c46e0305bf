//! A machine for a test: the command with an empty home directory, its own environment, and a server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use service_testkit::{
    leaks::Leaks,
    mailbox::Mailbox,
    ports,
    process::Process,
    server::{Setup, TestServer},
};
use tempfile::TempDir;

use crate::pty::Pty;

pub(crate) const EMAIL: &str = "ana@acme.test";

/// One machine. The standard error of every command on it is searched for secrets.
pub(crate) struct Machine {
    pub(crate) home: TempDir,
    pub(crate) url: String,
    pub(crate) leaks: Leaks,
    pub(crate) environment: Vec<(String, String)>,
}

/// The output and the exit code of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

/// Runs a test against a server whose base URL is the address it listens on, because the command checks the issuer.
pub(crate) fn run(test: impl AsyncFnOnce(&TestServer, &Machine) -> Result<()>) -> Result<()> {
    run_with(&[], test)
}

pub(crate) fn run_with(
    settings: &[(&str, &str)],
    test: impl AsyncFnOnce(&TestServer, &Machine) -> Result<()>,
) -> Result<()> {
    let port = ports::free()?;
    let mut setup = Setup::default()
        .set("http.listen", &format!("127.0.0.1:{port}"))
        .set("base_url", &format!("http://127.0.0.1:{port}"));
    for (key, value) in settings {
        setup = setup.set(key, value);
    }
    setup.run(async |server| {
        let machine = Machine::new(&server.http.url, &server.leaks)?;
        test(server, &machine).await
    })
}

/// Runs a test against servers that are separate processes and use the system clock.
pub(crate) fn run_processes(test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
    Setup::default().on_system_clock().run(test)
}

/// Starts a node whose base URL is the address it listens on, with additional settings.
pub(crate) fn start_node(server: &TestServer, settings: &[(&str, &str)]) -> Result<Process> {
    let address = format!("127.0.0.1:{}", ports::free()?);
    let mut all = server.settings.clone();
    all.set("http.listen", &address);
    all.set("base_url", &format!("http://{address}"));
    for (key, value) in settings {
        all.set(key, value);
    }
    Process::start(&serviced()?, &all, &server.leaks)
}

impl Machine {
    pub(crate) fn new(url: &str, leaks: &Leaks) -> Result<Self> {
        let home = tempfile::tempdir()?;
        Ok(Self { home, url: url.to_owned(), leaks: leaks.clone(), environment: Vec::new() })
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn config_dir(&self) -> PathBuf {
        self.home.path().join("config")
    }

    pub(crate) fn credentials_path(&self) -> PathBuf {
        self.config_dir().join("credentials.json")
    }

    /// Reads `credentials.json`.
    pub(crate) fn read_credentials(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&fs::read(self.credentials_path())?)?)
    }

    /// The sign-in of the default profile.
    pub(crate) fn sign_in(&self) -> Result<Value> {
        Ok(self.read_credentials()?["profiles"]["default"]["signIns"][&self.url].clone())
    }

    /// The record of the MCP tokens of the default profile.
    pub(crate) fn mcp_tokens(&self) -> Result<Value> {
        Ok(self.read_credentials()?["profiles"]["default"]["mcpTokens"][&self.url].clone())
    }

    /// The MCP refresh token.
    pub(crate) fn mcp_refresh_token(&self) -> Result<String> {
        let name = self.mcp_tokens()?["entry"].as_str().context("no MCP refresh token is named")?.to_owned();
        Ok(fs::read_to_string(self.config_dir().join("refresh-tokens").join(name))?)
    }

    /// Makes the MCP access token look expired to the command.
    pub(crate) fn expire_mcp_token(&self) -> Result<()> {
        let mut credentials = self.read_credentials()?;
        let record = &mut credentials["profiles"]["default"]["mcpTokens"][&self.url];
        record["accessExpiresAt"] = "2020-01-01T00:00:00.000Z".into();
        fs::write(self.credentials_path(), serde_json::to_vec(&credentials)?)?;
        Ok(())
    }

    /// Signs in, and creates MCP tokens for the personal space.
    pub(crate) async fn log_in_for_mcp(&self, mailbox: &Mailbox, scope: &str) -> Result<()> {
        self.log_in_with_mailbox(mailbox, EMAIL).await?;
        let ran = self.run(&["mcp", "login", "--personal", "--scope", scope]).await?;
        ensure!(ran.code == Some(0), "no MCP tokens: {}", ran.stderr);
        self.register_secrets();
        Ok(())
    }

    /// The path of the file with the refresh token.
    pub(crate) fn refresh_token_path(&self) -> Result<PathBuf> {
        let name = self.sign_in()?["entry"].as_str().context("no refresh token is named")?.to_owned();
        Ok(self.config_dir().join("refresh-tokens").join(name))
    }

    pub(crate) fn refresh_token(&self) -> Result<String> {
        Ok(fs::read_to_string(self.refresh_token_path()?)?)
    }

    /// Edits the sign-in of the default profile.
    pub(crate) fn edit_sign_in(&self, change: impl FnOnce(&mut Value)) -> Result<()> {
        let mut credentials = self.read_credentials()?;
        change(&mut credentials["profiles"]["default"]["signIns"][&self.url]);
        fs::write(self.credentials_path(), serde_json::to_vec(&credentials)?)?;
        Ok(())
    }

    /// Makes the access token look expired to the command.
    pub(crate) fn expire_access_token(&self) -> Result<()> {
        self.edit_sign_in(|sign_in| sign_in["accessExpiresAt"] = "2020-01-01T00:00:00.000Z".into())
    }

    /// The environment of every command on this machine.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let mut all = vec![
            ("PATH".to_owned(), variable("PATH").unwrap_or_default()),
            ("HOME".to_owned(), self.home.path().display().to_string()),
            ("SHELL".to_owned(), "/bin/sh".to_owned()),
            ("TERM".to_owned(), "xterm".to_owned()),
            ("SERVICE_CONFIG_DIR".to_owned(), self.config_dir().display().to_string()),
            ("SERVICE_API_URL".to_owned(), self.url.clone()),
        ];
        all.extend(self.environment.clone());
        all
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(binary());
        command.env_clear().envs(self.variables()).current_dir(self.home.path());
        command
    }

    /// Runs the command without a terminal. It does not block, because the server runs on this thread.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<CommandOutput> {
        self.run_command(self.command().args(arguments)).await
    }

    pub(crate) async fn run_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Result<CommandOutput> {
        self.run_command(self.command().args(arguments).envs(environment.iter().copied())).await
    }

    pub(crate) async fn run_command(&self, command: &mut Command) -> Result<CommandOutput> {
        let mut command = std::mem::replace(command, Command::new("true"));
        let output = tokio::task::spawn_blocking(move || command.stdin(std::process::Stdio::null()).output()).await??;
        self.register_secrets();
        let ran = CommandOutput {
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
            code: output.status.code(),
        };
        self.leaks.assert_clean("standard error", ran.stderr.as_bytes());
        Ok(ran)
    }

    /// Runs the command and returns a transcript: `E|` is standard error, `O|` standard output. What differs between runs is
    /// redacted.
    pub(crate) async fn show(&self, arguments: &[&str]) -> Result<String> {
        self.show_with(arguments, &[]).await
    }

    pub(crate) async fn show_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Result<String> {
        let ran = self.run_with(arguments, environment).await?;
        Ok(self.transcript(&ran))
    }

    pub(crate) fn transcript(&self, ran: &CommandOutput) -> String {
        let lines = |mark: &str, text: &str| text.lines().map(|line| format!("{mark}| {line}")).collect::<Vec<_>>();
        let code = ran.code.map_or("none".to_owned(), |code| code.to_string());
        let all = [lines("E", &ran.stderr), lines("O", &ran.stdout), vec![format!("exit {code}")]].concat();
        self.redact(&all.join("\n"))
    }

    /// Replaces what differs between runs with names such as `<config>`.
    pub(crate) fn redact(&self, text: &str) -> String {
        let text = text.replace(&self.config_dir().display().to_string(), "<config>").replace(&self.url, "<server>");
        let text = text.replace(self.url.trim_start_matches("http://"), "<host>");
        let mut words = String::new();
        for piece in text.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || "_-:.".contains(c))) {
            let (word, rest) = match piece.char_indices().last() {
                Some((at, last)) if !(last.is_ascii_alphanumeric() || "_-:.".contains(last)) => piece.split_at(at),
                _ => (piece, ""),
            };
            let bare = word.trim_end_matches(['.', ':']);
            words.push_str(&redacted(bare).unwrap_or_else(|| bare.to_owned()));
            words.push_str(&word[bare.len()..]);
            words.push_str(rest);
        }
        words
    }

    /// Signs in with an email code, and stores the credentials in a file.
    pub(crate) async fn log_in(&self, server: &TestServer) -> Result<()> {
        self.log_in_as(server, EMAIL).await
    }

    pub(crate) async fn log_in_as(&self, server: &TestServer, email: &str) -> Result<()> {
        self.log_in_with_mailbox(&server.mailbox, email).await
    }

    pub(crate) async fn log_in_with_mailbox(&self, mailbox: &Mailbox, email: &str) -> Result<()> {
        let mut pty = Pty::start(self, &format!("login --force --method code --store file --email {email}"), &[])?;
        pty.expect("Code: ").await?;
        // Mails about earlier tokens can come first.
        let code = loop {
            if let Some(code) = mailbox.next_mail_to(email).await?.code() {
                break code;
            }
        };
        self.leaks.register("otp code", &code);
        pty.line(&code).await?;
        let (text, code) = pty.end().await?;
        ensure!(code == Some(0), "no sign-in: {text}");
        self.register_secrets();
        Ok(())
    }

    /// Registers the secrets that the command has stored, so that later output is searched for them.
    pub(crate) fn register_secrets(&self) {
        let devices = std::fs::read_to_string(self.config_dir().join("devices.json")).unwrap_or_default();
        for secret in devices.split('"').filter(|part| part.starts_with("svc_dev_")) {
            self.leaks.register("a device secret of the command", secret);
        }
        for file in fs::read_dir(self.config_dir().join("refresh-tokens")).into_iter().flatten().flatten() {
            self.leaks.register("a refresh token of the command", &fs::read_to_string(file.path()).unwrap_or_default());
        }
        if let Some(secret) = self.mcp_tokens().ok().and_then(|record| Some(record["accessToken"].as_str()?.to_owned()))
        {
            self.leaks.register("an MCP token of the command", &secret);
        }
        let Ok(sign_in) = self.sign_in() else { return };
        if let Some(secret) = sign_in["accessToken"].as_str() {
            self.leaks.register("a token of the command", secret);
        }
    }
}

/// The path of the server's binary, next to the command's. Builds it if it is missing.
fn serviced() -> Result<PathBuf> {
    let path = binary().with_file_name("serviced");
    if !path.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "service-server", "--bin", "serviced"]);
        ensure!(build.status()?.success(), "the server does not build");
    }
    Ok(path)
}

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_service"))
}

/// A variable of the environment in which the tests run.
#[expect(clippy::disallowed_methods, reason = "tests have no other settings")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The name for a word that differs between runs.
fn redacted(word: &str) -> Option<String> {
    if word.len() == 10 && word.parse::<jiff::civil::Date>().is_ok() {
        return Some("<date>".to_owned());
    }
    let (kind, rest) = word.rsplit_once('_')?;
    let kind = kind.rsplit('/').next().unwrap_or_default();
    if kind == "svc_cli" && !rest.is_empty() {
        return Some("<token>".to_owned());
    }
    let is_id = rest.len() == 26 && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    is_id.then(|| format!("<{kind}>"))
}
