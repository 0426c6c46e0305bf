//! Every document is in the table of contents, and every block of code is executed or says why it is not.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};
use service_testkit::documents::{self, Treatment};

/// Documents that a test writes and compares as a whole: `description.rs` and `reference.rs`.
const GENERATED: [&str; 4] =
    ["docs/api.md", "docs/reference/audit-events.md", "docs/reference/errors.md", "docs/reference/metrics.md"];
/// Languages that hold nothing to execute.
const DRAWN: [&str; 3] = ["", "text", "mermaid"];
/// The tests that execute transcripts, and the documents that they execute.
const TRANSCRIPTS: [(&str, &[&str]); 2] = [
    ("crates/service-cli/tests/it/documents.rs", &["docs/quickstart/use.md", "docs/quickstart/build.md"]),
    ("crates/service-server/tests/it/docs/quickstart.rs", &["docs/quickstart/run.md"]),
];

#[test]
fn every_document_is_in_the_table_of_contents() -> Result<()> {
    let summary = documents::read("docs/SUMMARY.md")?.text;
    for document in documents::read_all()?.iter().filter(|document| document.path != "docs/SUMMARY.md") {
        let link =
            document.path.strip_prefix("docs/").map_or(format!("(../{})", document.path), |path| format!("({path})"));
        // The line `decisions` stands for all of them.
        let is_decision = document.path.starts_with("docs/decisions/0");
        assert!(is_decision || summary.contains(&link), "{} is not in docs/SUMMARY.md", document.path);
    }
    Ok(())
}

#[test]
fn every_block_of_code_is_executed_or_says_why_not() -> Result<()> {
    let mut problems = Vec::new();
    for document in documents::read_all()?.iter().filter(|document| !GENERATED.contains(&document.path.as_str())) {
        for block in document.blocks() {
            let place = format!("{}:{}", document.path, block.line);
            let is_drawn = DRAWN.contains(&block.language.as_str());
            if is_drawn && block.text.lines().any(|line| line.trim_start().starts_with("$ ")) {
                problems.push(format!("{place}: a transcript is a block in the language console"));
            }
            match &block.treatment {
                None if is_drawn => {}
                None => {
                    problems.push(format!("{place}: nothing says whether this {} block is executed", block.language));
                }
                Some(Treatment::NotRun(_)) => {}
                Some(Treatment::Run) if block.language != "console" => {
                    problems.push(format!("{place}: only console blocks are run"));
                }
                Some(Treatment::Run) => {
                    if !TRANSCRIPTS.iter().any(|(_, run)| run.contains(&document.path.as_str())) {
                        problems.push(format!("{place}: no test runs the transcript of this document"));
                    }
                }
                Some(Treatment::RunBy(test)) => {
                    let source = fs::read_to_string(documents::root().join(test)).unwrap_or_default();
                    let name = document.path.rsplit('/').next().unwrap_or_default();
                    if !source.contains(name) {
                        problems.push(format!("{place}: {test} does not read {name}"));
                    }
                }
            }
        }
    }
    let convention =
        "write <!-- run -->, <!-- run by: PATH --> or <!-- not run: REASON --> on the line before the block";
    assert!(problems.is_empty(), "{convention}\n{}", problems.join("\n"));
    Ok(())
}

#[test]
fn every_transcript_has_a_test_that_runs_it() -> Result<()> {
    for (test, run) in TRANSCRIPTS {
        let source = fs::read_to_string(documents::root().join(test)).with_context(|| test.to_owned())?;
        for path in run {
            assert!(source.contains(&format!("\"{path}\"")), "{test} does not run {path}");
            assert!(!documents::read(path)?.transcript()?.is_empty(), "{path} has nothing to run");
        }
    }
    Ok(())
}

#[test]
fn every_command_of_serviced_in_the_documents_exists() -> Result<()> {
    for document in documents::read_all()? {
        for block in document.blocks() {
            for words in documents::commands_of(&block, "serviced") {
                let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_serviced")));
                let help = command.args(&words).arg("--help").env_clear().output()?;
                let problem = String::from_utf8_lossy(&help.stderr).into_owned();
                assert!(help.status.success(), "{}:{}: {words:?}\n{problem}", document.path, block.line);
            }
        }
    }
    Ok(())
}
