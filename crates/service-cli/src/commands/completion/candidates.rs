//! What could follow on a command line: commands, options, their values, and the IDs of the last lists.

use clap::{Arg, Command};

use crate::completion_cache::{ListedEntry, ListedKind};

/// A word that could follow, and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) word: String,
    pub(super) description: String,
}

impl Candidate {
    fn new(word: impl Into<String>, description: impl Into<String>) -> Self {
        Self { word: word.into(), description: description.into() }
    }

    /// Whether the word has only characters that mean nothing to any shell.
    pub(super) fn is_plain(&self) -> bool {
        is_plain(&self.word)
    }
}

fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-=".contains(&byte))
}

/// A line that the user is typing, up to the cursor.
pub(super) struct TypedLine {
    /// The words before the one at the cursor, without the name of the command.
    before: Vec<String>,
    /// The beginning of the word at the cursor.
    current: String,
}

/// Where the cursor is.
struct Position<'a> {
    command: &'a Command,
    /// The option whose value is at the cursor.
    option: Option<&'a Arg>,
    /// How many positional arguments are before it.
    positionals: usize,
    /// Whether `--` is before it.
    is_escaped: bool,
}

impl TypedLine {
    /// Reads a line. bash splits `--option=value` at the sign, so a sign of its own belongs to the option before it.
    pub(super) fn new(words: &[String], index: usize) -> Self {
        let at = |word: &&String| *word != "=";
        let before = words.iter().take(index).skip(1).filter(at).cloned().collect();
        let current = words.get(index).filter(at).cloned().unwrap_or_default();
        Self { before, current }
    }

    /// The value of an option on the line.
    pub(super) fn option(&self, name: &str) -> Option<String> {
        let mut words = self.before.iter();
        while let Some(word) = words.next() {
            match word.strip_prefix(name) {
                Some("") => return words.next().cloned(),
                Some(rest) if rest.starts_with('=') => return Some(rest[1..].to_owned()),
                _ => {}
            }
        }
        None
    }

    /// The candidates for the word at the cursor. `listed` reads the entries of a list.
    pub(super) fn candidates(
        &self,
        commands: &Command,
        listed: impl Fn(ListedKind) -> Vec<ListedEntry>,
    ) -> Vec<Candidate> {
        let position = self.position(commands);
        let (prefix, typed) = match self.current.split_once('=') {
            Some((option, value)) if option.starts_with("--") && !position.is_escaped => (Some(option), value),
            _ => (None, self.current.as_str()),
        };
        let option = prefix.and_then(|prefix| find_long(position.command, &prefix[2..])).or(position.option);
        let mut found = match (option, prefix) {
            (Some(option), _) => self.values(&position, option, typed, &listed),
            (None, Some(_)) => Vec::new(),
            (None, None) if typed.starts_with('-') && !position.is_escaped => options(position.command),
            (None, None) => self.words(&position, commands, typed, &listed),
        };
        found.retain(|candidate| candidate.word.starts_with(typed));
        if let Some(prefix) = prefix {
            for candidate in &mut found {
                candidate.word = format!("{prefix}={}", candidate.word);
            }
        }
        found
    }

    fn position<'a>(&self, commands: &'a Command) -> Position<'a> {
        let mut position = Position { command: commands, option: None, positionals: 0, is_escaped: false };
        for word in &self.before {
            if position.option.take().is_some() {
                continue;
            }
            if !position.is_escaped && word.starts_with('-') && word.len() > 1 {
                match word.strip_prefix("--") {
                    Some("") => position.is_escaped = true,
                    Some(name) => position.option = find_long(position.command, name).filter(|arg| needs_value(arg)),
                    None => position.option = find_short(position.command, word).filter(|arg| needs_value(arg)),
                }
            } else if let Some(command) = position.command.find_subcommand(word).filter(|_| position.positionals == 0) {
                position.command = command;
            } else {
                position.positionals += 1;
            }
        }
        position
    }

    /// The words that are no options: commands, or the values of a positional argument.
    fn words(
        &self,
        position: &Position<'_>,
        commands: &Command,
        typed: &str,
        listed: &impl Fn(ListedKind) -> Vec<ListedEntry>,
    ) -> Vec<Candidate> {
        if position.command.has_subcommands() {
            return if position.positionals == 0 { subcommands(position.command) } else { Vec::new() };
        }
        if position.command.get_name() == "help" {
            return self.help_topics(commands);
        }
        let arguments: Vec<_> = position.command.get_positionals().collect();
        let last = arguments.last().filter(|arg| takes_many(arg)).copied();
        let Some(argument) = arguments.get(position.positionals).copied().or(last) else { return Vec::new() };
        self.values(position, argument, typed, listed)
    }

    /// Topics, and the commands below the words that were typed.
    fn help_topics(&self, commands: &Command) -> Vec<Candidate> {
        let path: Vec<_> = self.before.iter().filter(|word| !word.starts_with('-')).skip(1).collect();
        let found = path.iter().try_fold(commands, |command, word| command.find_subcommand(word));
        let topics = ["options", "environment", "exit-codes", "json"].map(|topic| Candidate::new(topic, "Topic"));
        let commands = found.map(subcommands).unwrap_or_default();
        commands.into_iter().chain(topics.into_iter().filter(|_| path.is_empty())).collect()
    }

    fn values(
        &self,
        position: &Position<'_>,
        argument: &Arg,
        typed: &str,
        listed: &impl Fn(ListedKind) -> Vec<ListedEntry>,
    ) -> Vec<Candidate> {
        let possible = argument.get_possible_values();
        if !possible.is_empty() {
            let visible = possible.iter().filter(|value| !value.is_hide_set());
            let describe = |help: Option<&clap::builder::StyledStr>| help.map(ToString::to_string).unwrap_or_default();
            return visible.map(|value| Candidate::new(value.get_name(), describe(value.get_help()))).collect();
        }
        let Some(kind) = listed_kind(position.command, argument) else { return Vec::new() };
        let entries = listed(kind);
        let ids = entries.iter().filter(|entry| !self.before.contains(&entry.id));
        let mut found: Vec<_> = ids.map(|entry| Candidate::new(&entry.id, &entry.name)).collect();
        if kind == ListedKind::Workspace {
            found.push(Candidate::new("personal", "Your personal space"));
        }
        // A name is offered once the user begins to type it, and only one that needs no quotes.
        if kind == ListedKind::Workspace && takes_name(argument) && !typed.is_empty() {
            found.extend(entries.iter().map(|entry| Candidate::new(&entry.name, &entry.id)));
        }
        found
    }
}

fn subcommands(command: &Command) -> Vec<Candidate> {
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    visible.map(|command| Candidate::new(command.get_name(), about(command.get_about()))).collect()
}

fn options(command: &Command) -> Vec<Candidate> {
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    visible.filter_map(|arg| Some(Candidate::new(format!("--{}", arg.get_long()?), about(arg.get_help())))).collect()
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

fn find_long<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(name))
}

fn find_short<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| arg.get_short().is_some() && arg.get_short() == word.chars().last())
}

/// Whether the next word is the value of an option.
fn needs_value(argument: &Arg) -> bool {
    argument.get_action().takes_values() && argument.get_num_args().is_none_or(|count| count.min_values() > 0)
}

fn takes_many(argument: &Arg) -> bool {
    argument.get_num_args().is_some_and(|count| count.max_values() > 1)
        || matches!(argument.get_action(), clap::ArgAction::Append)
}

fn value_name(argument: &Arg) -> &str {
    argument.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str())
}

fn takes_name(argument: &Arg) -> bool {
    value_name(argument).contains("NAME")
}

/// The list that has the values of an argument: its value name says so.
fn listed_kind(command: &Command, argument: &Arg) -> Option<ListedKind> {
    let is_restored = command.get_name() == "restore";
    match value_name(argument) {
        _ if argument.get_id() == "workspace_id" => Some(ListedKind::Workspace),
        "WORKSPACE-ID" if command.get_name() == "unblock" => Some(ListedKind::BlockedWorkspace),
        "WORKSPACE-ID" | "NAME|ID" => Some(ListedKind::Workspace),
        "TOKEN-ID" => Some(ListedKind::Token),
        "SESSION-ID" => Some(ListedKind::Session),
        "PASSKEY-ID" => Some(ListedKind::Passkey),
        "CONSENT-ID" => Some(ListedKind::App),
        "INVITATION-ID" => Some(ListedKind::Invitation),
        "CONNECTION-ID" => Some(ListedKind::Connection),
        "USER-ID|EMAIL" => Some(ListedKind::Member),
        "PROJECT-ID" if is_restored => Some(ListedKind::DeletedProject),
        "PROJECT-ID" => Some(ListedKind::Project),
        "PACK-ID" if is_restored => Some(ListedKind::DeletedPack),
        "PACK-ID" => Some(ListedKind::Pack),
        _ if argument.get_id() == "domain" => Some(ListedKind::Domain).filter(|_| command.get_name() != "add"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "$(touch pwned) `touch pwned`; rm -rf ~";

    fn listed(kind: ListedKind) -> Vec<ListedEntry> {
        let entry = |id: &str, name: &str| ListedEntry { id: id.into(), name: name.into() };
        match kind {
            ListedKind::Token => vec![entry("clit_1", "CI"), entry("clit_2", HOSTILE), entry("$(id)", "x")],
            ListedKind::Workspace => vec![entry("wsp_1", "Acme"), entry("wsp_2", HOSTILE)],
            ListedKind::Passkey => vec![entry("passkey_1", "MacBook")],
            ListedKind::DeletedProject => vec![entry("proj_9", "Gone")],
            _ => Vec::new(),
        }
    }

    fn offered(line: &str) -> Vec<String> {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let mut commands = crate::command();
        commands.build();
        let found = TypedLine::new(&words, words.len() - 1).candidates(&commands, listed);
        found.into_iter().filter(Candidate::is_plain).map(|candidate| candidate.word).collect()
    }

    #[test]
    fn ids_of_the_last_list_are_offered_where_an_argument_takes_one() {
        for (line, words) in [
            ("service token revoke ", &["clit_1", "clit_2"][..]),
            ("service token revoke clit_1 ", &["clit_2"]),
            ("service --profile work token revoke clit_2", &["clit_2"]),
            ("service -y token revoke -- clit_1", &["clit_1"]),
            ("service passkey remove ", &["passkey_1"]),
            ("service passkey rename passkey_1 ", &[]),
            ("service ws use ", &["wsp_1", "wsp_2", "personal"]),
            ("service workspace use A", &["Acme"]),
            ("service workspace use $", &[]),
            ("service project list --workspace-id ", &["wsp_1", "wsp_2", "personal"]),
            ("service project list --workspace-id=wsp_1", &["--workspace-id=wsp_1"]),
            ("service project list --workspace-id = wsp_1", &["wsp_1"]),
            ("service project restore ", &["proj_9"]),
            ("service token list --status ex", &["expired"]),
            ("service token list --status=ex", &["--status=expired"]),
            ("service token list clit", &[]),
            ("service tok", &["token"]),
            ("service token re", &["revoke"]),
            ("service help token l", &["list"]),
            ("service help e", &["environment", "exit-codes"]),
            ("service token revoke --no-", &["--no-input"]),
            ("service completion z", &["zsh"]),
        ] {
            assert_eq!(offered(line), words, "{line}");
        }
        assert!(offered("service ").contains(&"workspace".to_owned()));
    }

    #[test]
    fn a_name_that_a_shell_would_change_is_never_a_word() {
        for line in
            ["service workspace use ", "service workspace use $", "service token revoke ", "service token revoke $"]
        {
            assert!(offered(line).iter().all(|word| is_plain(word)), "{line}");
        }
        for wrong in ["", "a b", "$(id)", "`id`", "a;b", "a'b", "a\nb", "~", "a*", "a:b", "ä", "a\\b", "{a,b}", "#"] {
            assert!(!is_plain(wrong), "{wrong}");
        }
    }
}
