//! `cargo xtask quickstart`: follows the README from a clean clone with a stopwatch.
//!
//! It clones what is committed, runs the README's commands as they stand, and fails if the first useful line comes too
//! late, or if signing in takes too long after the build. What is in the README after `<!-- quickstart: … -->` is run:
//! `server` in one terminal, everything else in another.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;

use crate::{root, say, say_error};

const FIRST_OUTPUT_LIMIT: Duration = Duration::from_secs(2);
const SIGN_IN_LIMIT: Duration = Duration::from_secs(60);
const BUILD_TIMEOUT: Duration = Duration::from_secs(3600);
const READY_TIMEOUT: Duration = Duration::from_secs(120);

/// How the first line begins that says what happens.
const FIRST_LINE: &str = "Building ";
/// How the first line of the built server begins.
const BUILT: &str = "Creating a PostgreSQL cluster";

#[derive(clap::Args)]
pub(crate) struct QuickstartOptions {
    /// A build directory that no other checkout uses, to measure everything except the build
    #[arg(long, value_name = "DIRECTORY")]
    target: Option<PathBuf>,
}

pub(crate) fn run(options: &QuickstartOptions) -> Result<()> {
    let machine = CleanClone::clone_here(options.target.as_deref())?;
    let readme = fs::read_to_string(machine.checkout.join("README.md"))?;
    let begun = Instant::now();
    let mut server = Server::start(&machine, &block(&readme, "server")?)?;
    server.wait_for(FIRST_LINE, BUILD_TIMEOUT)?;
    let first = begun.elapsed();
    say(&format!("First useful output: {:.1} s", first.as_secs_f64()));
    server.wait_for(BUILT, BUILD_TIMEOUT)?;
    say(&format!("Build: {:.0} s", begun.elapsed().as_secs_f64()));

    let built = Instant::now();
    server.wait_for("{\"baseUrl\"", READY_TIMEOUT)?;
    say(&format!("Ready after the build: {:.1} s", built.elapsed().as_secs_f64()));
    let (addresses, api) = (block(&readme, "addresses")?, block(&readme, "api")?);
    let commands: Vec<_> = api.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    machine.run(&format!("{addresses}\n{}", commands.join("\n")))?;
    say(&format!("Signed in by the API: {:.1} s", built.elapsed().as_secs_f64()));
    machine.run_on_terminal(&block(&readme, "command")?)?;
    let signed_in = built.elapsed();
    say(&format!("Signed in by the command: {:.1} s", signed_in.as_secs_f64()));
    server.stop()?;

    ensure!(first <= FIRST_OUTPUT_LIMIT, "the first useful output took longer than {FIRST_OUTPUT_LIMIT:?}");
    ensure!(signed_in <= SIGN_IN_LIMIT, "signing in took longer than {SIGN_IN_LIMIT:?} after the build");
    Ok(())
}

/// Returns the block of code after the README's mark with this name.
fn block(readme: &str, name: &str) -> Result<String> {
    let mark = format!("<!-- quickstart: {name} -->");
    let rest = readme.split_once(&mark).with_context(|| format!("the README has no {mark}"))?.1;
    let block = rest.split("```").nth(1).and_then(|block| block.split_once('\n'));
    Ok(block.with_context(|| format!("the README has no code after {mark}"))?.1.to_owned())
}

/// A clean clone with an empty home.
struct CleanClone {
    folder: TempDir,
    checkout: PathBuf,
}

impl CleanClone {
    fn clone_here(target: Option<&Path>) -> Result<Self> {
        // PostgreSQL runs as another account if this runs as root, and has to pass.
        let passable = fs::Permissions::from_mode(0o711);
        let folder = tempfile::Builder::new().prefix("quickstart-").permissions(passable.clone()).tempdir()?;
        let checkout = folder.path().join("checkout");
        let mut clone = Command::new("git");
        clone.args(["clone", "--quiet"]).arg(root().canonicalize()?).arg(&checkout);
        ensure!(clone.status()?.success(), "the repository cannot be cloned");
        fs::create_dir(folder.path().join("home"))?;
        fs::create_dir(folder.path().join("tmp"))?;
        fs::set_permissions(folder.path().join("tmp"), passable)?;
        if let Some(target) = target {
            std::os::unix::fs::symlink(target.canonicalize()?, checkout.join("target"))?;
        }
        Ok(Self { folder, checkout })
    }

    /// Returns a shell that runs a script in the checkout and ends at the first failure.
    fn shell(&self, script: &str) -> Command {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", script]);
        self.set_up(&mut shell);
        shell
    }

    fn set_up(&self, command: &mut Command) {
        command
            .current_dir(&self.checkout)
            .env("TMPDIR", self.folder.path().join("tmp"))
            .env("XDG_CONFIG_HOME", self.folder.path().join("home"))
            .env_remove("DBUS_SESSION_BUS_ADDRESS")
            .env_remove("SERVICE_TOKEN")
            .stdin(Stdio::null());
    }

    fn run(&self, script: &str) -> Result<()> {
        let output = self.shell(script).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
        Ok(())
    }

    /// Runs a script on a terminal. Enters the code when it is asked for, and accepts other questions.
    fn run_on_terminal(&self, script: &str) -> Result<()> {
        let file = self.folder.path().join("script");
        fs::write(&file, script)?;
        let mut terminal = Command::new("script");
        terminal.args(["-qefc", &format!("bash -eu {}", file.display()), "/dev/null"]);
        self.set_up(&mut terminal);
        let mut child =
            terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("there is no `script`")?;
        let mut keyboard = child.stdin.take().context("no keyboard")?;
        let mut screen = child.stdout.take().context("no screen")?;
        let (mut seen, mut bytes) = (String::new(), [0; 4096]);
        let mut answered = 0;
        loop {
            let count = screen.read(&mut bytes)?;
            if count == 0 {
                break;
            }
            seen += &String::from_utf8_lossy(&bytes[..count]);
            let new = &seen[answered..];
            if new.contains("Code: ") {
                answered = seen.len();
                writeln!(keyboard, "{}", self.latest_code()?)?;
            } else if new.contains("[Y/n] ") {
                answered = seen.len();
                writeln!(keyboard)?;
            }
        }
        ensure!(child.wait()?.success() && seen.contains("Signed in as"), "the command did not sign in:\n{seen}");
        Ok(())
    }

    /// Reads the newest code in the mailbox, which arrives shortly after it was requested.
    fn latest_code(&self) -> Result<String> {
        let script = "until curl -s http://localhost:8025/mails | jq -er 'last.text | match(\"\\\\d{4} \\\\d{4}\").string' \
                      2> /dev/null; do sleep 0.2; done";
        let output = self.shell(script).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

/// The server in the first terminal.
struct Server {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Server {
    fn start(machine: &CleanClone, script: &str) -> Result<Self> {
        let mut child =
            machine.shell(&format!("exec {}", script.trim())).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (said, lines) = mpsc::channel();
        let stdout: Box<dyn std::io::Read + Send> = Box::new(child.stdout.take().context("no output")?);
        let stderr: Box<dyn std::io::Read + Send> = Box::new(child.stderr.take().context("no error output")?);
        for stream in [stdout, stderr] {
            let said = said.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    drop(said.send(line));
                }
            });
        }
        Ok(Self { child, lines, seen: Vec::new() })
    }

    /// Waits for a line that begins like this.
    fn wait_for(&mut self, start: &str, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                bail!("no line began with {start:?}; it said:\n{}", self.seen.join("\n"));
            };
            say_error(&line);
            let found = line.starts_with(start);
            self.seen.push(line);
            if found {
                return Ok(());
            }
        }
    }

    /// Presses Ctrl-C, and waits for the end.
    fn stop(mut self) -> Result<()> {
        let sent = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status()?;
        ensure!(sent.success() && self.child.wait()?.success(), "the server did not stop in order");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Cargo and the launcher become the server, so this is its process.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
