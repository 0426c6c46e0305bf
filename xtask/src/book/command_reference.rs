//! The reference of the command `service`: a page for each command, made from what `--help` is made from.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::Result;
use clap::Command;

/// Writes the pages to `folder`. Returns their lines for the summary, whose links begin at `docs/`.
pub(super) fn write(folder: &Path) -> Result<String> {
    fs::create_dir_all(folder)?;
    let mut command = service_cli::command();
    command.build();
    fs::write(folder.join("README.md"), page(&mut command.clone(), "service"))?;
    let mut lines = "- [Command reference](reference/command/README.md)".to_owned();
    write_below(&command, "service", folder, &mut lines)?;
    Ok(lines)
}

fn write_below(command: &Command, path: &str, folder: &Path, lines: &mut String) -> Result<()> {
    for one in shown(command) {
        let path = format!("{path} {}", one.get_name());
        let file = format!("{}.md", path.replace(' ', "-"));
        fs::write(folder.join(&file), page(&mut one.clone(), &path))?;
        let indent = "  ".repeat(path.matches(' ').count());
        write!(lines, "\n{indent}- [{path}](reference/command/{file})")?;
        write_below(one, &path, folder, lines)?;
    }
    Ok(())
}

/// The commands below a command, without `help` and without hidden ones.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help")
}

/// The page of a command: the text of its `--help`.
fn page(command: &mut Command, path: &str) -> String {
    let help = command.render_long_help().to_string();
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    let below: Vec<_> = shown(command)
        .map(|one| {
            let about = one.get_about().map(ToString::to_string).unwrap_or_default();
            let file = format!("{path} {}", one.get_name()).replace(' ', "-");
            format!("- [`{path} {}`]({file}.md): {about}", one.get_name())
        })
        .collect();
    let list = if below.is_empty() { String::new() } else { format!("\n{}\n", below.join("\n")) };
    format!("# {path}\n\n```text\n{}\n```\n{list}", lines.join("\n").trim())
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    #[test]
    fn a_page_has_the_help_and_links_to_the_commands_below() {
        let mut command = Command::new("token")
            .about("Manage tokens")
            .subcommand(Command::new("list").about("List your tokens").arg(Arg::new("status").long("status")))
            .subcommand(Command::new("secret").hide(true));
        command.build();
        let page = super::page(&mut command, "service token");
        assert!(page.starts_with("# service token\n\n```text\nManage tokens\n"), "{page}");
        assert!(page.ends_with("\n- [`service token list`](service-token-list.md): List your tokens\n"), "{page}");
    }
}
