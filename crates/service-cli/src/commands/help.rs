//! `service help`: on a command, or on what all commands share.

use std::process::ExitCode;

use crate::{
    command,
    environment::VARIABLES,
    failure::{Code, EXITS, Failure},
    output,
};

const JSON: &str = "\
With --json a command prints one JSON object on standard output, and nothing else there. Names are in camelCase, and
moments in RFC 3339. Members may be added; none is renamed or removed.

A failure prints one object on standard error: {\"error\":{\"code\":…,\"message\":…,\"hint\":…}}, with `status`,
`requestId`, `source`, `requiredScope` or `retryAfter` where they are known. `whoami` prints its object also when it
fails: it is the answer.

--jq takes a filter and prints what it picks, texts without quotes. It knows most of the language of jq.

Only `token create` ever prints a credential.";

pub(super) fn run(topic: &[String]) -> Result<ExitCode, Failure> {
    let words: Vec<_> = topic.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["environment"] => output::out(&listed(VARIABLES))?,
        ["exit-codes"] => output::out(&listed(EXITS))?,
        ["json"] => output::out(JSON)?,
        _ => output::out(help_of(&words)?.trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(rows: &[(&str, &str)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    rows.iter().map(|(name, text)| format!("{name:width$}   {text}")).collect::<Vec<_>>().join("\n")
}

fn help_of(words: &[&str]) -> Result<String, Failure> {
    let mut all = command();
    all.build();
    let mut found = &mut all;
    for word in words {
        let unknown = || Failure::new(Code::Usage, "There is no such command or topic.").next("service --help");
        found = found.find_subcommand_mut(word).ok_or_else(unknown)?;
    }
    Ok(found.render_help().ansi().to_string())
}
