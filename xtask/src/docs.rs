//! `cargo xtask docs`: what the documents say about the repository. Every path they name exists, every link leads to a
//! file, and every decision has a status and a date.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Result, ensure};

use crate::{files, files::SourceFile, root, say};

/// Endings that make a text in back-ticks a file of ours, even without a folder.
const OWN_ENDINGS: [&str; 3] = [".rs", ".md", ".sql"];
/// Endings that make it a file of ours if it has a folder.
const FILE_ENDINGS: [&str; 12] =
    [".css", ".html", ".json", ".md", ".mjs", ".py", ".rs", ".sh", ".sql", ".toml", ".txt", ".yml"];
/// What is made while building or running, and is in no commit.
const NOT_COMMITTED: [&str; 1] = ["target/"];
const DECISIONS: &str = "docs/decisions/";

#[derive(clap::Args)]
pub(crate) struct DocsOptions {
    /// Fail if a document names a file that does not exist, or a decision has no status or date
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &DocsOptions) -> Result<()> {
    let files = files::read_all()?;
    let tree = Tree::new(&files);
    let mut wrong = Vec::new();
    let (mut named, mut documents) = (0, 0);
    for file in files.iter().filter(|file| file.has_extension("md")) {
        documents += 1;
        for (line, path) in code_spans(&file.text).into_iter().filter(|(_, text)| tree.looks_like_path(text)) {
            named += 1;
            if !tree.has(&path, &file.path) {
                wrong.push(format!("{}:{line}: `{path}` does not exist", file.path));
            }
        }
        for (line, target) in links(&file.text) {
            named += 1;
            if !tree.has_exactly(&target, &file.path) {
                wrong.push(format!("{}:{line}: the link to {target} leads nowhere", file.path));
            }
        }
        let is_decision = file.path.starts_with(DECISIONS) && !file.path.ends_with("/README.md");
        if is_decision && !has_status_and_date(&file.text) {
            wrong.push(format!("{}: has no line “Status: …, YYYY-MM-DD”", file.path));
        }
    }
    for line in &wrong {
        say(line);
    }
    say(&format!("{named} paths and links in {documents} documents, {} wrong", wrong.len()));
    ensure!(!options.check || wrong.is_empty(), "correct the documents, or the paths they name");
    Ok(())
}

/// Every file and every folder of the repository.
struct Tree {
    paths: BTreeSet<String>,
    folder_names: BTreeSet<String>,
}

impl Tree {
    fn new(files: &[SourceFile]) -> Self {
        let mut paths = BTreeSet::new();
        for file in files {
            let ends = file.path.match_indices('/').map(|(end, _)| end).chain([file.path.len()]);
            paths.extend(ends.map(|end| file.path[..end].to_owned()));
        }
        let folders =
            files.iter().filter_map(|file| file.path.rsplit_once('/')).flat_map(|(folder, _)| folder.split('/'));
        let folder_names = folders.map(str::to_owned).collect();
        Self { paths, folder_names }
    }

    /// Whether a text in back-ticks means a file or a folder of the repository.
    fn looks_like_path(&self, text: &str) -> bool {
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte));
        let elsewhere = text.starts_with(['/', '-']) || NOT_COMMITTED.iter().any(|start| text.starts_with(start));
        if !plain || elsewhere || text.starts_with('.') && !text.contains('/') {
            return false;
        }
        let ends_in =
            |endings: &[&str]| endings.iter().any(|ending| text.ends_with(ending) && text.len() > ending.len());
        match text.trim_end_matches('/').split_once('/') {
            Some((first, _)) => ends_in(&FILE_ENDINGS) || self.folder_names.contains(first),
            None => {
                ends_in(&OWN_ENDINGS) || (text.ends_with('/') && self.folder_names.contains(text.trim_end_matches('/')))
            }
        }
    }

    /// Whether a path exists: from the top, from the document's folder, or as the end of a longer one, so that
    /// `flows/refresh.rs` is enough.
    fn has(&self, path: &str, document: &str) -> bool {
        let path = path.trim_end_matches('/');
        let end = format!("/{path}");
        self.has_exactly(path, document) || self.paths.iter().any(|known| known == path || known.ends_with(&end))
    }

    /// Whether a path exists from the document's folder.
    fn has_exactly(&self, target: &str, document: &str) -> bool {
        let mut parts: Vec<_> = document.split('/').collect();
        parts.pop();
        for part in target.trim_end_matches('/').split('/') {
            match part {
                ".." if parts.pop().is_none() => return false,
                "." | ".." => {}
                part => parts.push(part),
            }
        }
        // Pictures are not among the files that are read.
        let path = parts.join("/");
        parts.is_empty()
            || self.paths.contains(&path)
            || Path::new(&path).extension().is_some_and(|ending| ending == "png") && root().join(path).is_file()
    }
}

/// What stands between single back-ticks, with its line; blocks of code are left out.
fn code_spans(text: &str) -> Vec<(usize, String)> {
    let inside = |line: &str| line.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    prose(text).flat_map(|(number, line)| inside(line).into_iter().map(move |span| (number, span))).collect()
}

/// The targets of links to files, without their anchors.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for part in line.split("](").skip(1) {
            let target = part.split([')', '#', ' ']).next().unwrap_or_default();
            if !(target.is_empty() || target.contains("://") || target.starts_with(['/', '<']) || target.contains('@'))
            {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        (!in_block && !fence).then_some((index + 1, line))
    })
}

/// A decision says within its first lines whether it holds, and since when.
fn has_status_and_date(text: &str) -> bool {
    let Some(line) = text.lines().take(5).find_map(|line| line.strip_prefix("Status: ")) else {
        return false;
    };
    let is_date = |word: &str| {
        word.len() == 10
            && word.char_indices().all(|(at, one)| if [4, 7].contains(&at) { one == '-' } else { one.is_ascii_digit() })
    };
    line.split([' ', ',', '.', ';']).any(is_date)
}

#[cfg(test)]
mod tests {
    use super::{Tree, code_spans, has_status_and_date, links};
    use crate::files::SourceFile;

    fn tree() -> Tree {
        let paths = ["docs/a.md", "crates/service-server/src/flows/refresh.rs", "README.md", ".ci/run"];
        Tree::new(&paths.map(|path| SourceFile { path: path.to_owned(), text: String::new() }))
    }

    #[test]
    fn a_path_is_told_from_other_code() {
        for path in ["flows/refresh.rs", "refresh.rs", "crates/service-server", ".ci/run", "flows/", "docs/gone.md"] {
            assert!(tree().looks_like_path(path), "{path}");
        }
        for other in
            ["/v1/docs", "text/html", "serviced.toml", "target/man", "cargo xtask ci", "--step", "docs/{id}", ".rs"]
        {
            assert!(!tree().looks_like_path(other), "{other}");
        }
    }

    #[test]
    fn a_short_form_is_enough_and_a_missing_file_is_not() {
        for path in ["flows/refresh.rs", "refresh.rs", "service-server/src/flows/", ".ci/run", "a.md", "../README.md"] {
            assert!(tree().has(path, "docs/a.md"), "{path}");
        }
        for path in ["flows/renew.rs", "fresh.rs", "docs/gone.md", "../../README.md"] {
            assert!(!tree().has(path, "docs/a.md"), "{path}");
        }
    }

    #[test]
    fn spans_and_links_are_read_outside_of_blocks() {
        let text = "See `a.rs` and [b](b.md#part).\n```\n`c.rs` [d](d.md)\n```\n[web](https://service.example) `e.rs`";
        assert_eq!(code_spans(text), [(1, "a.rs".to_owned()), (5, "e.rs".to_owned())]);
        assert_eq!(links(text), [(1, "b.md".to_owned())]);
    }

    #[test]
    fn a_decision_has_a_status_and_a_date() {
        assert!(has_status_and_date("# A\n\nStatus: accepted, 2026-01-31.\n"));
        assert!(!has_status_and_date("# A\n\nStatus: accepted.\n"));
        assert!(!has_status_and_date("# A\n\nAccepted 2026-01-31.\n"));
    }
}
