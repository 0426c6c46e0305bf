//! `service completion`: prints a shell completion script. It needs no server and no files.
//!
//! The scripts for bash, zsh and fish ask the command itself what could follow, with the hidden `service __complete`. It prints
//! one candidate per line: a word, a tab and its description. Words have only characters that mean nothing to a shell, and the
//! scripts use descriptions only as text to show, because other users choose them. No script evaluates anything it reads.

mod candidates;

use std::{ffi::OsString, process::ExitCode};

use clap::CommandFactory as _;
use clap_complete::Shell;

use self::candidates::{Candidate, TypedLine};
use crate::{
    arguments::Arguments,
    command,
    completion_cache::CompletionCache,
    context::{DEFAULT_PROFILE, find_origin},
    environment::Environment,
    failure::Failure,
    output,
    settings::Settings,
    text::strip_control,
};

/// The hidden command that the scripts run. Its arguments are the index of the word at the cursor, and all words of the line.
pub(crate) const COMPLETE_COMMAND: &str = "__complete";

pub(super) fn run(shell: Shell) -> Result<ExitCode, Failure> {
    let script = match shell {
        Shell::Bash => include_str!("service.bash").to_owned(),
        Shell::Zsh => include_str!("service.zsh").to_owned(),
        Shell::Fish => include_str!("service.fish").to_owned(),
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut command(), "service", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    };
    output::print_line(script.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the candidates for the word at the cursor. It never fails and never prompts: a shell waits for it at every tab.
pub(crate) fn complete(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let index = arguments.next().and_then(|index| index.parse::<usize>().ok()).unwrap_or_default();
    let words: Vec<_> = arguments.collect();
    let line = TypedLine::new(&words, index);
    let mut commands = Arguments::command();
    commands.build();
    let profile = line.option("--profile");
    let found = line
        .candidates(&commands, |kind| find_cache(profile.as_deref()).map(|cache| cache.read(kind)).unwrap_or_default());
    let lines: Vec<_> = found.iter().filter(|candidate| candidate.is_plain()).map(format_candidate).collect();
    if !lines.is_empty() {
        drop(output::print_raw_lines(&lines));
    }
    ExitCode::SUCCESS
}

fn format_candidate(candidate: &Candidate) -> String {
    format!("{}\t{}", candidate.word, strip_control(&candidate.description))
}

fn find_cache(profile: Option<&str>) -> Option<CompletionCache> {
    let mut environment = Environment::read();
    let settings = Settings::read(&environment).unwrap_or_default();
    settings.complete(&mut environment);
    let profile = profile.or(environment.profile.as_deref()).unwrap_or(DEFAULT_PROFILE);
    let origin = find_origin(&environment, &settings, profile).ok()?;
    CompletionCache::find(&environment.config_dir().ok()?, profile, &origin)
}
