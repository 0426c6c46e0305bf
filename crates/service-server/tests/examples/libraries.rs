//! The client libraries: sign-in, calls, errors, pages, and a session that several processes share.

use std::{fs, path::PathBuf, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use service_testkit::{server::TestServer, tour::make_client};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    sync::Mutex,
};

use crate::program::{command, installed, make_cli_token, root, run, with_server};

const EMAIL: &str = "ann@acme.test";

#[derive(Clone, Copy)]
enum Language {
    TypeScript,
    Python,
}

/// A user's machine with a library and a session.
struct Machine<'a> {
    server: &'a TestServer,
    language: Language,
    home: TempDir,
    client_id: String,
}

impl<'a> Machine<'a> {
    async fn new(server: &'a TestServer, language: Language) -> Result<Self> {
        let client_id = make_client(server, "Terminal Notes", "http://127.0.0.1/callback").await?;
        Ok(Self { server, language, home: tempfile::tempdir()?, client_id })
    }

    fn session_path(&self) -> PathBuf {
        self.home.path().join("session.json")
    }

    /// A test program of the library, with the session.
    fn command(&self, script: &str) -> Result<Command> {
        let mut command = self.command_without_session(script)?;
        command.env("SESSION_FILE", self.session_path());
        Ok(command)
    }

    fn command_without_session(&self, script: &str) -> Result<Command> {
        let (program, script) = match self.language {
            Language::TypeScript => (PathBuf::from("node"), installed("typescript")?.join(format!("{script}.mjs"))),
            // The name of the interpreter is a link, which must not be followed: it is how Python finds its packages.
            Language::Python => (
                installed("python")?.join("bin/python"),
                root().join("sdk/python/tests").join(format!("{script}.py")).canonicalize()?,
            ),
        };
        let mut command = command(self.server, self.home.path(), program);
        command.arg(script).env("CLIENT_ID", &self.client_id);
        Ok(command)
    }

    async fn sign_in(&self) -> Result<()> {
        run(self.server, self.command("sign-in")?, EMAIL).await?.check()?;
        self.register_tokens()
    }

    fn read_session(&self) -> Result<Value> {
        Ok(serde_json::from_str(&fs::read_to_string(self.session_path())?)?)
    }

    /// From now on, no output may contain the tokens of the session.
    fn register_tokens(&self) -> Result<()> {
        let session = self.read_session()?;
        for kind in ["access_token", "refresh_token"] {
            self.server.leaks.register(kind, session[kind].as_str().context("a token is missing")?);
        }
        Ok(())
    }

    /// Makes the library believe that the access token has expired.
    fn expire_access_token(&self) -> Result<()> {
        let mut session = self.read_session()?;
        session["expires_at"] = 0.into();
        Ok(fs::write(self.session_path(), session.to_string())?)
    }

    async fn whoami(&self) -> Result<String> {
        run(self.server, self.command("whoami")?, EMAIL).await?.check()
    }

    /// Starts forty processes, and checks that they refresh the session once.
    async fn refresh_once_by_forty_processes(&self) -> Result<()> {
        // One test at a time: eighty interpreters that start at once leave the server no time to respond.
        static STARTING: Mutex<()> = Mutex::const_new(());
        let _alone = STARTING.lock().await;
        let before = count_refreshes(self.server).await?;
        let mut running = Vec::new();
        for _ in 0..40 {
            let mut child = self.command("whoami")?.env("WAIT", "yes").stdin(Stdio::piped()).spawn()?;
            let (input, output) = (child.stdin.take(), child.stdout.take().context("it says nothing")?);
            running.push((child, input, BufReader::new(output).lines()));
        }
        for (_, _, lines) in &mut running {
            assert_eq!(lines.next_line().await?.as_deref(), Some("ready"));
        }
        // All interpreters have started. Now all of them begin.
        for (_, input, _) in &mut running {
            drop(input.take());
        }
        for (child, _, mut lines) in running {
            let said = lines.next_line().await?.unwrap_or_default();
            let output = child.wait_with_output().await?;
            let complained = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success() && said.contains(EMAIL), "{said}{complained}");
        }
        self.register_tokens()?;
        assert_eq!(count_refreshes(self.server).await? - before, 1);
        Ok(())
    }
}

/// Returns how many refresh tokens the server has received, whatever became of them.
async fn count_refreshes(server: &TestServer) -> Result<u64> {
    let metrics = server.ops.get("/metrics", None).await?.text;
    let counts = metrics.lines().filter(|line| line.starts_with("service_refreshes_total"));
    Ok(counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

fn with_machine(language: Language, test: impl AsyncFnOnce(&Machine<'_>) -> Result<()>) -> Result<()> {
    with_server(async |server| test(&Machine::new(server, language).await?).await)
}

fn travel(language: Language) -> Result<()> {
    with_machine(language, async |machine| {
        let mut command = machine.command("journey")?;
        command.env("SIGN_OUT", "yes");
        let said = run(machine.server, command, EMAIL).await?.check()?;
        ensure!(said.contains(&format!("email {EMAIL}")) && said.ends_with("done\n"), "{said}");
        let live = machine.server.sql("select count(*) from grants /* every shard */ where revoked_at is null").await?;
        assert_eq!(live.as_deref(), Some("0"), "signing out revokes the session");
        Ok(())
    })
}

#[test]
fn typescript_signs_in_creates_handles_a_422_and_pages_through_250_items_fh_20() -> Result<()> {
    travel(Language::TypeScript)
}

#[test]
fn python_signs_in_creates_handles_a_422_and_pages_through_250_items_fh_20() -> Result<()> {
    travel(Language::Python)
}

fn refresh_expired(language: Language) -> Result<()> {
    with_machine(language, async |machine| {
        machine.sign_in().await?;
        machine.expire_access_token()?;
        machine.refresh_once_by_forty_processes().await
    })
}

#[test]
fn forty_processes_in_typescript_refresh_an_expired_token_once() -> Result<()> {
    refresh_expired(Language::TypeScript)
}

#[test]
fn forty_processes_in_python_refresh_an_expired_token_once() -> Result<()> {
    refresh_expired(Language::Python)
}

fn refresh_rejected(language: Language) -> Result<()> {
    with_machine(language, async |machine| {
        machine.sign_in().await?;
        // The server's clock moves; the library still considers the token valid.
        machine.server.advance(1000);
        machine.refresh_once_by_forty_processes().await
    })
}

#[test]
fn forty_processes_in_typescript_refresh_a_rejected_token_once() -> Result<()> {
    refresh_rejected(Language::TypeScript)
}

#[test]
fn forty_processes_in_python_refresh_a_rejected_token_once() -> Result<()> {
    refresh_rejected(Language::Python)
}

/// Kills a refreshing process at moments spread over its whole run.
fn kill(language: Language) -> Result<()> {
    const KILLS: u32 = 12;
    with_machine(language, async |machine| {
        machine.sign_in().await?;
        machine.expire_access_token()?;
        let began = std::time::Instant::now();
        machine.whoami().await?;
        let whole = began.elapsed();
        let mut finished = 0;
        for round in 0..KILLS {
            machine.expire_access_token()?;
            let mut child = machine.command("whoami")?.spawn()?;
            // The fault itself: the moment at which the process is killed.
            tokio::time::sleep(whole / 2 + whole * round / (2 * KILLS)).await;
            drop(child.start_kill());
            finished += u32::from(child.wait().await?.success());
            // In every second round, later than the service repeats a lost response.
            machine.server.advance(if round % 2 == 0 { 0 } else { 61 });
            let said = machine.whoami().await?;
            ensure!(said.contains(EMAIL), "after {round} kills: {said}");
            machine.register_tokens()?;
        }
        ensure!(finished < KILLS, "no process was killed in time");
        Ok(())
    })
}

#[test]
fn a_refresh_in_typescript_that_is_killed_costs_nothing() -> Result<()> {
    kill(Language::TypeScript)
}

#[test]
fn a_refresh_in_python_that_is_killed_costs_nothing() -> Result<()> {
    kill(Language::Python)
}

/// A session that has ended is deleted, and its refresh token is not sent again.
fn end(language: Language) -> Result<()> {
    with_machine(language, async |machine| {
        machine.sign_in().await?;
        let revoke = "update grants /* every shard */ set revoked_at = created_at, revoked_because = 'revoked_by_user'";
        machine.server.sql(revoke).await?;
        machine.expire_access_token()?;
        let first = run(machine.server, machine.command("whoami")?, EMAIL).await?;
        ensure!(
            !first.succeeded && first.stdout.contains("SessionEnded") && first.stdout.contains("revoked_by_user"),
            "{first:?}"
        );
        ensure!(!machine.session_path().exists(), "the session was kept");
        let sent = count_refreshes(machine.server).await?;
        let second = run(machine.server, machine.command("whoami")?, EMAIL).await?;
        ensure!(!second.succeeded && second.stdout.contains("NotSignedIn"), "{second:?}");
        assert_eq!(count_refreshes(machine.server).await?, sent);
        Ok(())
    })
}

#[test]
fn an_ended_session_in_typescript_is_deleted() -> Result<()> {
    end(Language::TypeScript)
}

#[test]
fn an_ended_session_in_python_is_deleted() -> Result<()> {
    end(Language::Python)
}

/// A file that other users could read is made private, and a link is refused.
#[cfg(unix)]
fn guard(language: Language) -> Result<()> {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    with_machine(language, async |machine| {
        machine.sign_in().await?;
        let path = machine.session_path();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        machine.whoami().await?;
        assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
        let elsewhere = machine.home.path().join("elsewhere.json");
        fs::rename(&path, &elsewhere)?;
        symlink(&elsewhere, &path)?;
        let refused = run(machine.server, machine.command("whoami")?, EMAIL).await?;
        ensure!(!refused.succeeded && refused.stdout.contains("SessionFileError"), "{refused:?}");
        Ok(())
    })
}

#[test]
fn a_session_file_in_typescript_is_private() -> Result<()> {
    guard(Language::TypeScript)
}

#[test]
fn a_session_file_in_python_is_private() -> Result<()> {
    guard(Language::Python)
}

fn use_cli_token(language: Language) -> Result<()> {
    with_machine(language, async |machine| {
        let token = make_cli_token(machine.server, EMAIL, "read").await?;
        let mut command = machine.command_without_session("whoami")?;
        command.env("SERVICE_TOKEN", token);
        ensure!(run(machine.server, command, EMAIL).await?.check()?.contains(EMAIL));
        let none = run(machine.server, machine.command_without_session("whoami")?, EMAIL).await?;
        ensure!(
            !none.succeeded && none.stdout.contains("NotSignedIn: set SERVICE_API_URL, and SERVICE_TOKEN"),
            "{none:?}"
        );
        // A made-up token is rejected once, and there is nothing to refresh.
        let mut wrong = machine.command_without_session("whoami")?;
        wrong.env("SERVICE_TOKEN", "svc_cli_made_up");
        let wrong = run(machine.server, wrong, EMAIL).await?;
        ensure!(
            !wrong.succeeded && wrong.stdout.contains("InvalidCredential") && !wrong.stdout.contains("made_up"),
            "{wrong:?}"
        );
        Ok(())
    })
}

#[test]
fn typescript_uses_a_cli_token() -> Result<()> {
    use_cli_token(Language::TypeScript)
}

#[test]
fn python_uses_a_cli_token() -> Result<()> {
    use_cli_token(Language::Python)
}
