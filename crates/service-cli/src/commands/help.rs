//! `service help`: help for a command, or for a topic that concerns all commands.

use std::process::ExitCode;

use clap::{Command, CommandFactory as _};

use crate::{
    arguments::Arguments,
    environment::VARIABLES,
    examples,
    failure::{EXIT_CODES, Failure, FailureCode},
    output,
};

const LEARN_MORE: &str = "environment | exit-codes | json";

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

Only `token create` and `token rotate` ever print a credential.";

pub(super) fn run(topic: &[String]) -> Result<ExitCode, Failure> {
    let words: Vec<_> = topic.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["options"] => output::print_styled(&render_options())?,
        ["environment"] => output::print_line(&format_rows(VARIABLES))?,
        ["exit-codes"] => output::print_line(&format_rows(EXIT_CODES))?,
        ["json"] => output::print_line(JSON_HELP)?,
        _ => output::print_styled(render_help(&words)?.trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn format_rows(rows: &[(&str, &str)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    rows.iter().map(|(name, text)| format!("{name:width$}   {text}")).collect::<Vec<_>>().join("\n")
}

/// The command line with the help of every command: its examples, and one line instead of the global options, which are only
/// in the help of `service` itself.
pub(crate) fn command() -> Command {
    let mut all = Arguments::command();
    // Now every command has its global options.
    all.build();
    examples::visit(all, "", &|command, path| {
        let header = *command.get_styles().get_header();
        let examples = examples::find(&command, path);
        let learn_more = match path {
            "" => format!("{header}Learn more:{header:#} service help <command> | {LEARN_MORE}"),
            // The line break is inside the style, because clap counts the width of a line from the last style on.
            _ => format!(
                "{header}Global options:{header:#} service help options{header}\nLearn more:{header:#} service help {LEARN_MORE}"
            ),
        };
        let after = format!("{header}Examples:{header:#}\n{examples}\n\n{learn_more}");
        let is_root = path.is_empty();
        let command = command.after_help(after);
        if is_root { command } else { command.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg }) }
    })
}

/// The options that every command has.
fn render_options() -> String {
    let options = Arguments::command();
    let options = options.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect::<Vec<_>>();
    let mut shown = Command::new("service").disable_help_flag(true).args(options).help_template("{all-args}");
    shown.render_help().ansi().to_string().trim_end().to_owned()
}

fn render_help(words: &[&str]) -> Result<String, Failure> {
    let mut all = command();
    let mut found = &mut all;
    for word in words {
        let unknown = || Failure::new(FailureCode::Usage, "Unknown command or topic.").hint("service --help");
        found = found.find_subcommand_mut(word).ok_or_else(unknown)?;
    }
    Ok(found.render_help().ansi().to_string())
}
