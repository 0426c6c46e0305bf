//! The commands in blocks of shell code, as words, so that a program's parser can check those that no test runs.

use super::Block;

/// The words of every command of `program` in a block, without the program: `cargo xtask`, `service` or `serviced`.
#[must_use]
pub fn commands_of(block: &Block, program: &str) -> Vec<Vec<String>> {
    if block.language != "sh" && block.language != "console" {
        return Vec::new();
    }
    let program: Vec<_> = program.split(' ').collect();
    let typed = block.text.lines().map(str::trim_start).filter_map(|line| match block.language.as_str() {
        "console" => line.strip_prefix("$ "),
        _ => Some(line),
    });
    let all = typed.flat_map(commands);
    all.filter(|words| words.len() > program.len() && words[..program.len()] == program)
        .map(|words| words[program.len()..].to_vec())
        .collect()
}

/// Stands for the output of a command that is an argument of another one.
const SUBSTITUTED: &str = "substituted";

/// A command that is read up to a place inside of it.
#[derive(Default)]
struct Reader {
    words: Vec<String>,
    word: String,
    quote: Option<char>,
    redirected: bool,
}

/// Splits a line of a shell into commands, each without variables before it and redirections behind it.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut outer, mut now) = (Vec::new(), Vec::new(), Reader::default());
    let mut rest = line.chars().peekable();
    while let Some(one) = rest.next() {
        match (one, now.quote) {
            ('$', None | Some('"')) if rest.next_if_eq(&'(').is_some() => {
                now.word.push_str(SUBSTITUTED);
                outer.push(std::mem::take(&mut now));
            }
            (')', None) if !outer.is_empty() => {
                now.end_command(&mut commands);
                now = outer.pop().unwrap_or_default();
            }
            ('"' | '\'', None) => now.quote = Some(one),
            (_, Some(open)) if one == open => now.quote = None,
            (_, Some(_)) => now.word.push(one),
            ('#', None) if now.word.is_empty() => break,
            ('|' | '&' | ';', None) => now.end_command(&mut commands),
            ('<' | '>', None) => {
                now.word.clear();
                now.redirected = true;
            }
            (' ', None) => now.end_word(),
            _ if now.redirected => {}
            _ => now.word.push(one),
        }
    }
    for mut open in [now].into_iter().chain(outer) {
        open.end_command(&mut commands);
    }
    commands
}

impl Reader {
    fn end_word(&mut self) {
        let is_variable = self.words.is_empty() && self.word.contains('=');
        let word = std::mem::take(&mut self.word);
        if !word.is_empty() && !is_variable {
            self.words.push(word);
        }
    }

    fn end_command(&mut self, commands: &mut Vec<Vec<String>>) {
        self.end_word();
        if !self.words.is_empty() {
            commands.push(std::mem::take(&mut self.words));
        }
        self.redirected = false;
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, commands_of};

    fn found(language: &str, text: &str) -> Vec<String> {
        let block = Block { line: 1, language: language.to_owned(), text: text.to_owned(), treatment: None };
        commands_of(&block, "service").into_iter().map(|words| words.join("·")).collect()
    }

    #[test]
    fn commands_are_found_wherever_a_shell_runs_them() {
        let text = "$ TOKEN=$(service token create --name \"Build server\") && A=b service whoami > out 2>&1\n\
                    service output\n$ echo x | service api GET '/v1/a b' # service no\n$ cargo xtask dev; services\n";
        assert_eq!(found("console", text), ["token·create·--name·Build server", "whoami", "api·GET·/v1/a b"]);
        assert_eq!(found("sh", "service login\n"), ["login"]);
        let nested = "service token revoke --yes \"$(service token list --jq '.tokens[].id')\" # all\n";
        assert_eq!(found("sh", nested), ["token·list·--jq·.tokens[].id", "token·revoke·--yes·substituted"]);
        assert!(found("json", "service login\n").is_empty());
    }
}
