//! `service help`: help for a command, or for a topic that concerns all commands.

use std::process::ExitCode;

use crate::{
    command,
    environment::VARIABLES,
    failure::{EXIT_CODES, Failure, FailureCode},
    output,
};

const JSON_HELP: &str = "\
With --json, a command prints one JSON object on standard output and nothing
else. Names are in camelCase, and times in RFC 3339. New members can be added;
existing ones are never renamed or removed.

An error is one object on standard error:
{\"error\":{\"code\":…,\"message\":…,\"hint\":…}}
with `status`, `requestId`, `source`, `requiredScope` or `retryAfter` where
known. `whoami` prints its object on standard output even if it fails.

--jq prints what a filter selects, with strings unquoted. It supports most of
the jq language.

Only `token create` ever prints a credential.";

pub(super) fn run(topic: &[String]) -> Result<ExitCode, Failure> {
    let words: Vec<_> = topic.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["environment"] => output::print_line(&format_rows(VARIABLES))?,
        ["exit-codes"] => output::print_line(&format_rows(EXIT_CODES))?,
        ["json"] => output::print_line(JSON_HELP)?,
        _ => output::print_line(render_help(&words)?.trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn format_rows(rows: &[(&str, &str)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    rows.iter().map(|(name, text)| format!("{name:width$}   {text}")).collect::<Vec<_>>().join("\n")
}

fn render_help(words: &[&str]) -> Result<String, Failure> {
    let mut all = command();
    all.build();
    let mut found = &mut all;
    for word in words {
        let unknown = || Failure::new(FailureCode::Usage, "Unknown command or topic.").hint("service --help");
        found = found.find_subcommand_mut(word).ok_or_else(unknown)?;
    }
    Ok(found.render_help().ansi().to_string())
}
