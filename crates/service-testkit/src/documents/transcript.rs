//! Transcripts of a terminal: commands with the output that a reader gets to see.

use anyhow::{Context as _, Result, ensure};

/// Stands for any text within a line; alone on a line, for any number of lines.
const ANYTHING: &str = "…";

/// A command and its output.
#[derive(Debug, PartialEq)]
pub struct Step {
    pub command: String,
    pub expected: Vec<String>,
}

/// Reads a transcript: `$ ` begins a command, `> ` continues it, all other lines are output.
pub fn parse(text: &str) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), expected: Vec::new() });
            continue;
        }
        let step = steps.last_mut().context("the first line is no command")?;
        if let Some(more) = line.strip_prefix("> ").or((line == ">").then_some("")) {
            ensure!(step.expected.is_empty(), "“{line}” continues no command");
            step.command.push('\n');
            step.command.push_str(more);
        } else {
            step.expected.push(line.to_owned());
        }
    }
    Ok(steps)
}

impl Step {
    /// Whether this is the output that the transcript shows.
    pub(super) fn matches(&self, output: &[&str]) -> bool {
        let expected: Vec<_> = self.expected.iter().map(String::as_str).collect();
        lines_match(&expected, output)
    }
}

fn lines_match(expected: &[&str], output: &[&str]) -> bool {
    match expected.split_first() {
        None => output.is_empty(),
        Some((&ANYTHING, rest)) => (0..=output.len()).any(|skipped| lines_match(rest, &output[skipped..])),
        Some((line, rest)) => {
            output.first().is_some_and(|found| line_matches(line, found)) && lines_match(rest, &output[1..])
        }
    }
}

fn line_matches(expected: &str, found: &str) -> bool {
    let mut pieces = expected.split(ANYTHING);
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = found.strip_prefix(first) else { return false };
    let mut pieces: Vec<_> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::{Step, line_matches, parse};

    #[test]
    fn a_command_can_have_several_lines() {
        let steps = parse("$ cat <<END\n> one\n>\n> END\none\n\n$ true\n").unwrap();
        let expected = [("cat <<END\none\n\nEND", vec!["one", ""]), ("true", vec![])];
        for (step, (command, output)) in steps.iter().zip(expected) {
            assert_eq!(
                (step.command.as_str(), &step.expected),
                (command, &output.iter().map(|one| (*one).to_owned()).collect())
            );
        }
        assert!(parse("one\n$ true").is_err());
    }

    #[test]
    fn the_ellipsis_stands_for_any_text_and_for_any_lines() {
        assert!(line_matches("Signed in as … at …", "Signed in as ann@acme.test at 08:00"));
        assert!(line_matches("a…", "a") && line_matches("…", ""));
        assert!(!line_matches("a…b", "a b c") && !line_matches("a", "a b") && !line_matches("…b…", "a"));
        let step = |lines: &[&str]| Step {
            command: String::new(),
            expected: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        assert!(step(&["a", "…", "c"]).matches(&["a", "b", "b", "c"]));
        assert!(step(&["…"]).matches(&[]) && step(&[]).matches(&[]));
        assert!(!step(&["a", "…", "c"]).matches(&["a", "b"]) && !step(&[]).matches(&["a"]));
    }
}
