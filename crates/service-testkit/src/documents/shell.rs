//! Runs a transcript on a pseudoterminal, as a reader would who types its commands one after another.

use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{Document, Step};
use crate::{leaks::Leaks, mailbox::Mailbox};

/// For how long a command may print nothing.
const SILENCE: Duration = Duration::from_secs(60);
/// What is printed after each command, with the number of the command that was run.
const MARK: &str = "\u{1}end of step";
/// The prompt that is answered with the newest code in the mailbox.
const CODE_PROMPT: &str = "Code: ";
const COLUMNS: u16 = 100;

/// The surroundings of a transcript.
pub struct Shell<'a> {
    /// Where the commands run. It is their home directory too.
    pub directory: PathBuf,
    /// The folder of the programs under test, which comes first in `PATH`.
    pub programs: PathBuf,
    pub environment: Vec<(&'a str, &'a str)>,
    /// Texts of the document, and what they are in this test. In the output they are replaced the other way round.
    pub replaced: Vec<(String, String)>,
    pub mailbox: &'a Mailbox,
    /// Whose codes answer the prompt for one.
    pub user: &'a str,
    pub leaks: &'a Leaks,
}

impl Shell<'_> {
    /// Runs every block of a document that is to be run, and compares the output of every command.
    pub async fn run(&self, document: &Document) -> Result<()> {
        let steps = document.transcript()?;
        ensure!(!steps.is_empty(), "{} has nothing to run", document.path);
        let screen = self.print(&self.script(&steps)).await?;
        let mut rest = screen.as_str();
        for (number, step) in steps.iter().enumerate() {
            let mark = format!("{MARK} {number}\n");
            let (output, after) = rest.split_once(&mark).map_or((rest, None), |(output, after)| (output, Some(after)));
            let lines: Vec<_> = output.lines().map(str::trim_end).collect();
            let Some(after) = after else {
                bail!("{}: “{}” failed:\n{}", document.path, step.command, lines.join("\n"));
            };
            ensure!(
                step.matches(&lines),
                "{}: “{}” printed\n{}\n– but the document shows\n{}",
                document.path,
                step.command,
                lines.join("\n"),
                step.expected.join("\n")
            );
            rest = after;
        }
        Ok(())
    }

    fn script(&self, steps: &[Step]) -> String {
        // What a failing transcript has started in the background ends with it.
        let clean_up = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT";
        let mut script = format!("{clean_up}\nset -euo pipefail\nstty cols {COLUMNS} rows 50\n");
        for (number, step) in steps.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = writeln!(script, "{}\nprintf '{MARK} {number}\\n'", self.replace(&step.command));
        }
        script
    }

    fn replace(&self, text: &str) -> String {
        self.replaced.iter().fold(text.to_owned(), |text, (shown, real)| text.replace(shown, real))
    }

    /// What appears on the terminal, with the document's own texts.
    async fn print(&self, script: &str) -> Result<String> {
        let file = self.directory.join("transcript.sh");
        fs::write(&file, script)?;
        let mut child = Command::new("script")
            .args(["-qefc", &format!("bash {}", file.display()), "/dev/null"])
            .env_clear()
            .env("PATH", search_path(&self.programs)?)
            .envs(self.environment.iter().copied())
            .env("HOME", &self.directory)
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("there is no `script`; Debian has it in bsdutils")?;
        let keyboard = child.stdin.take().context("no keyboard")?;
        let screen = child.stdout.take().context("no screen")?;
        let printed = self.converse(keyboard, screen).await?;
        child.wait().await?;
        let text = plain(&printed);
        Ok(self.replaced.iter().fold(text, |text, (shown, real)| text.replace(real, shown)))
    }

    /// Reads everything that is printed, and answers each prompt for a code.
    async fn converse(&self, mut keyboard: ChildStdin, mut screen: ChildStdout) -> Result<String> {
        let (mut seen, mut answered) = (Vec::new(), 0);
        loop {
            let mut bytes = [0; 4096];
            let count = timeout(SILENCE, screen.read(&mut bytes))
                .await
                .with_context(|| format!("nothing more after:\n{}", String::from_utf8_lossy(&seen)))??;
            if count == 0 {
                return Ok(String::from_utf8_lossy(&seen).into_owned());
            }
            seen.extend_from_slice(&bytes[..count]);
            if String::from_utf8_lossy(&seen).matches(CODE_PROMPT).count() > answered {
                answered += 1;
                keyboard.write_all(format!("{}\n", self.next_code().await?).as_bytes()).await?;
                keyboard.flush().await?;
            }
        }
    }

    async fn next_code(&self) -> Result<String> {
        // Mails about earlier tokens can come first.
        loop {
            if let Some(code) = self.mailbox.next_mail_to(self.user).await?.code() {
                self.leaks.register("otp code", &code);
                return Ok(code);
            }
        }
    }
}

/// `PATH` with a folder before what it has.
fn search_path(first: &Path) -> Result<OsString> {
    let rest = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths([first.to_owned()].into_iter().chain(env::split_paths(&rest)))?)
}

/// What remains on a screen: without control sequences, and of each line what was written over its beginning.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, sequence)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        let end = sequence.find(|one: char| one.is_ascii_alphabetic()).map_or(sequence.len(), |end| end + 1);
        rest = &sequence[end..];
    }
    plain.push_str(rest);
    let plain = plain.replace("\r\n", "\n");
    let lines = plain.split('\n').map(|line| line.rsplit('\r').next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn control_sequences_and_overwritten_text_are_left_out() {
        assert_eq!(super::plain("\u{1b}[1m first\u{1b}[0m\r\nwaiting …\rtwo\u{1b}[K\r\n"), " first\ntwo\n");
    }
}
