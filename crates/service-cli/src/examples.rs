//! The examples in the help of each command.

use clap::Command;

/// The examples of the commands, by their names below `service`.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("", &["service login", "service workspace use Acme", "service project list"]),
    ("login", &["service login", "service login --email ana@acme.example", "service login --method code --store file"]),
    ("logout", &["service logout", "service logout --all"]),
    ("whoami", &["service whoami", "service whoami --jq .user.email"]),
    ("token", &["service token create --personal --name 'Build server'", "service token list"]),
    (
        "token create",
        &[
            "service token create --personal --name 'Build server'",
            "service token create --workspace-id wsp_01m955vw00fjqrz47smcqrkmzz --scope projects:read",
            "export SERVICE_TOKEN=$(service token create --personal --quiet)",
        ],
    ),
    (
        "token list",
        &["service token list", "service token list --status all", "service token list --jq '.tokens[].id'"],
    ),
    ("token revoke", &["service token revoke clit_01m955vw00fjqrz47smcqrkmzz"]),
    ("workspace", &["service workspace list", "service workspace use Acme"]),
    ("workspace list", &["service workspace list", "service workspace list --jq '.workspaces[].name'"]),
    ("workspace use", &["service workspace use", "service workspace use Acme", "service workspace use personal"]),
    ("workspace show", &["service workspace show"]),
    ("workspace members", &["service workspace members"]),
    ("workspace invite", &["service workspace invite bo@acme.example --role viewer"]),
    ("workspace remove", &["service workspace remove bo@acme.example"]),
    ("workspace require-passkey", &["service workspace require-passkey", "service workspace require-passkey --stop"]),
    ("workspace leave", &["service workspace leave --workspace-id wsp_01m955vw00fjqrz47smcqrkmzz"]),
    ("workspace connection", &["service workspace connection list"]),
    ("workspace connection list", &["service workspace connection list"]),
    (
        "workspace connection create",
        &["service workspace connection create --name Acme --issuer https://login.acme.example"],
    ),
    ("workspace connection show", &["service workspace connection show conn_01m955vw00fjqrz47smcqrkmzz"]),
    (
        "workspace connection update",
        &[
            "service workspace connection update conn_01m955vw00fjqrz47smcqrkmzz --enable",
            "service workspace connection update conn_01m955vw00fjqrz47smcqrkmzz --require --existing keep",
        ],
    ),
    ("workspace connection delete", &["service workspace connection delete conn_01m955vw00fjqrz47smcqrkmzz"]),
    (
        "workspace domain",
        &["service workspace domain add acme.example", "service workspace domain verify acme.example"],
    ),
    ("workspace domain list", &["service workspace domain list"]),
    ("workspace domain add", &["service workspace domain add acme.example"]),
    ("workspace domain verify", &["service workspace domain verify acme.example"]),
    (
        "workspace domain update",
        &["service workspace domain update acme.example --connection conn_01m955vw00fjqrz47smcqrkmzz"],
    ),
    ("workspace domain remove", &["service workspace domain remove acme.example"]),
    ("invitation", &["service invitation list"]),
    ("invitation list", &["service invitation list"]),
    ("invitation accept", &["service invitation accept inv_01m955vw00fjqrz47smcqrkmzz"]),
    ("invitation decline", &["service invitation decline inv_01m955vw00fjqrz47smcqrkmzz"]),
    ("invitation block", &["service invitation block inv_01m955vw00fjqrz47smcqrkmzz"]),
    ("invitation blocked", &["service invitation blocked"]),
    ("invitation unblock", &["service invitation unblock wsp_01m955vw00fjqrz47smcqrkmzz"]),
    ("project", &["service project list"]),
    ("project list", &["service project list", "service project list --json"]),
    ("project deleted", &["service project deleted"]),
    ("project restore", &["service project restore proj_01m955vw00fjqrz47smcqrkmzz"]),
    ("pack", &["service pack search refund"]),
    ("pack search", &["service pack search refund", "service pack search --type context 'refund policy'"]),
    ("pack deleted", &["service pack deleted"]),
    ("pack restore", &["service pack restore pack_01m955vw00fjqrz47smcqrkmzz"]),
    ("session", &["service session list", "service session revoke --others"]),
    ("session list", &["service session list"]),
    (
        "session revoke",
        &[
            "service session revoke grant_01m955vw00fjqrz47smcqrkmzz",
            "service session revoke --others",
            "service session revoke --others --made keep",
        ],
    ),
    ("account", &["service account secure"]),
    ("account show", &["service account show", "service account show --json"]),
    ("account rename", &["service account rename 'Ann Lee'"]),
    ("account require-passkey", &["service account require-passkey", "service account require-passkey --stop"]),
    (
        "account change-address",
        &["service account change-address ann.lee@acme.example", "service account change-address --stop"],
    ),
    ("account secure", &["service account secure", "service account secure --yes --json"]),
    ("account delete", &["service account delete", "service account delete --yes --json"]),
    ("account export", &["service account export", "service account export --output my-data.zip --json"]),
    ("passkey", &["service passkey list"]),
    ("passkey list", &["service passkey list", "service passkey list --jq '.passkeys[].name'"]),
    ("passkey rename", &["service passkey rename passkey_01m955vw00fjqrz47smcqrkmzz 'Work laptop'"]),
    ("passkey remove", &["service passkey remove passkey_01m955vw00fjqrz47smcqrkmzz"]),
    ("app", &["service app list"]),
    ("app list", &["service app list"]),
    ("app remove", &["service app remove consent_01m955vw00fjqrz47smcqrkmzz"]),
    ("mcp", &["service mcp config cursor"]),
    ("mcp config", &["service mcp config claude-code", "service mcp config claude-desktop --stdio"]),
    ("mcp login", &["service mcp login --personal --scope 'read packs:write'"]),
    ("mcp logout", &["service mcp logout"]),
    ("mcp status", &["service mcp status"]),
    ("mcp serve", &["service mcp serve"]),
    ("api", &["service api GET /v1/projects", "service api POST /v1/projects --input project.json"]),
    ("doctor", &["service doctor", "service doctor --mcp"]),
    (
        "completion",
        &[
            "service completion bash > ~/.local/share/bash-completion/completions/service",
            "service completion zsh > ~/.zfunc/_service",
            "service completion fish > ~/.config/fish/completions/service.fish",
        ],
    ),
    ("help", &["service help token create", "service help exit-codes"]),
];

/// The header of examples that a command brings in its `after_help`.
const EXAMPLES_HEADER: &str = "Examples:";

/// The examples of a command, a line for each, without a header: those that it brings itself, or those of the table. `path` is
/// its name below `service`.
pub(crate) fn find(command: &Command, path: &str) -> String {
    let own = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    if let Some(own) = own.trim().strip_prefix(EXAMPLES_HEADER) {
        return own.trim_matches('\n').to_owned();
    }
    let row = EXAMPLES.iter().find(|(known, _)| *known == path);
    let examples: &[&str] = row.map(|(_, examples)| *examples).unwrap_or_default();
    examples.iter().map(|example| format!("  $ {example}")).collect::<Vec<_>>().join("\n")
}

/// Visits every command below `command`, and `command` itself. `path` is its name below `service`.
pub(crate) fn visit(command: Command, path: &str, change: &dyn Fn(Command, &str) -> Command) -> Command {
    let names: Vec<_> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let visited = names.into_iter().fold(command, |command, name| {
        let below = format!("{path} {name}");
        command.mut_subcommand(name, |command| visit(command, below.trim_start(), change))
    });
    change(visited, path)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Splits an example as a shell would: at spaces outside of single quotes, up to a redirection.
    fn words(example: &str) -> Vec<String> {
        let example = example.trim_start_matches("export SERVICE_TOKEN=$(").trim_end_matches(')');
        let example = example.split(" > ").next().unwrap_or_default();
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for character in example.chars() {
            match character {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                other => words.last_mut().unwrap().push(other),
            }
        }
        words
    }

    #[test]
    fn every_command_has_examples_that_parse_fh_18() {
        let paths = RefCell::new(Vec::new());
        drop(visit(crate::command(), "", &|command, path| {
            paths.borrow_mut().push(path.to_owned());
            assert!(!find(&command, path).is_empty(), "`service {path}` has no example in examples.rs");
            command
        }));
        for (path, examples) in EXAMPLES {
            assert!(paths.borrow().iter().any(|known| known == path), "there is no `service {path}`");
            for example in *examples {
                let parsed = crate::command().try_get_matches_from(words(example));
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
                assert!(path.is_empty() || example.contains(&format!("service {path}")), "{example}");
            }
        }
    }

    #[test]
    fn the_help_of_every_command_has_examples_and_one_line_for_global_options_fh_18() {
        drop(visit(crate::commands::help::command(), "", &|command, path| {
            let help = command.clone().render_help().to_string();
            assert!(help.contains("Examples:") && help.contains("Learn more:"), "service {path}: {help}");
            assert_eq!(help.contains("--no-input"), path.is_empty(), "service {path}: {help}");
            assert_eq!(help.contains("Global options: service help options"), !path.is_empty(), "{path}: {help}");
            let widest = help.lines().map(str::len).max().unwrap_or_default();
            assert!(widest <= 120, "service {path}: {widest} columns");
            command
        }));
    }
}
