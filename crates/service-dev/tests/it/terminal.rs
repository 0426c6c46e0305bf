//! What a person sees on a terminal, which `script` provides.

use std::{
    io::{Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::machine::{Data, binary, free_ports};

const CTRL_C: &[u8] = b"\x03";

struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: ChildStdout,
    seen: String,
}

impl Terminal {
    fn start(data: &Data) -> Result<Self> {
        // A shell that waits for the program gets the Ctrl-C too, and ends with its own exit code: it must not stay.
        let (program, ports) = (binary(), free_ports()?.join(" "));
        let command = format!("exec {} {ports} --directory {}", program.display(), data.path().display());
        let mut child = Command::new("script")
            .args(["-qefc", &command, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("there is no `script`; Debian has it in bsdutils")?;
        let keyboard = child.stdin.take().context("no keyboard")?;
        let screen = child.stdout.take().context("no screen")?;
        Ok(Self { child, keyboard, screen, seen: String::new() })
    }

    /// Waits for a text, and returns everything up to then.
    fn expect(&mut self, text: &str) -> Result<&str> {
        let mut bytes = [0; 4096];
        while !self.seen.contains(text) {
            let count = self.screen.read(&mut bytes)?;
            if count == 0 {
                bail!("it ended before {text:?}: {}", self.seen);
            }
            self.seen += &String::from_utf8_lossy(&bytes[..count]).replace("\r\n", "\n");
        }
        Ok(&self.seen)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn a_terminal_shows_links_and_the_latest_code_until_ctrl_c_fh_04() -> Result<()> {
    let data = Data::new()?;
    let mut terminal = Terminal::start(&data)?;
    let screen = terminal.expect("Press Ctrl-C to stop.")?.to_owned();
    let base_url = screen.split_once("running at ").and_then(|(_, rest)| rest.lines().next()).context("no address")?;
    assert!(base_url.starts_with("http://localhost:"), "{screen}");
    for expected in [
        &format!("Sign in     {base_url}/account"),
        "demo@service.test",
        "Mailbox     http://localhost:",
        &format!("API docs    {base_url}/docs"),
        "Database    psql 'postgres://serviced@127.0.0.1:",
        &format!("export SERVICE_API_URL={base_url}"),
        "service login --email demo@service.test",
    ] {
        assert!(screen.contains(expected), "{expected:?} is not in:\n{screen}");
    }
    assert!(!screen.contains('{') && !screen.contains("WARN"), "{screen}");
    let password = std::fs::read_to_string(data.path().join("postgres/password"))?;
    assert!(!screen.contains(password.trim_end()), "the password is on the screen");

    let request = reqwest::Client::new().post(format!("{base_url}/v1/otp-tokens"));
    let request = request.json(&json!({ "email": "demo@service.test" })).send();
    let response = tokio::runtime::Runtime::new()?.block_on(request)?;
    assert_eq!(response.status().as_u16(), 201);
    terminal.expect("Code for demo@service.test: ")?;
    terminal.keyboard.write_all(CTRL_C)?;
    terminal.keyboard.flush()?;
    terminal.expect("Stopping …")?;
    assert_eq!(terminal.child.wait()?.code(), Some(0), "{}", terminal.seen);
    assert!(!data.path().join("postgres/data/postmaster.pid").exists(), "PostgreSQL still runs");
    Ok(())
}
