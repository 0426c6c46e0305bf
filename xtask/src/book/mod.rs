//! `cargo xtask book`: builds the documentation site in `target/book`, and checks its links.
//!
//! 1. The documents are copied to `target/book-src`, at the paths that they have in the repository, so that links between them hold.
//! 2. What the site has in addition is written there: the command reference, diagrams as SVG, the table of contents.
//! 3. `xtask/book`, a program of its own, builds the site with mdBook.
//! 4. Every link and every anchor of the result is looked up; nothing is loaded from elsewhere.

mod command_reference;
mod diagrams;
mod flowcharts;
mod links;
mod sequences;
mod svg;

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::{root, say, tools::succeed};

/// Documents outside of `docs/` that are chapters too.
const TOP_DOCUMENTS: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
const SUMMARY: &str = "docs/SUMMARY.md";
/// The line of the summary that the command reference takes.
const COMMAND_REFERENCE: &str = "<!-- command reference -->";
/// The line of the summary that the decisions take, in their order.
const DECISIONS: &str = "<!-- decisions -->";
/// Folders that documents link to, and the chapter that stands for each of them.
const FOLDERS: [(&str, &str); 2] =
    [("](docs/decisions)", "](docs/decisions/index.md)"), ("](docs/reference)", "](docs/reference/index.md)")];

pub(crate) fn run() -> Result<()> {
    let (sources, book) = (root().join("target/book-src"), root().join("target/book"));
    for folder in [&sources, &book] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
    }
    prepare(&sources)?;
    let mut build = Command::new("cargo");
    build.args(["run", "--quiet", "--locked", "--manifest-path", "xtask/book/Cargo.toml"]);
    build.args(["--target-dir", "target/tools/book", "--", "target/book-src"]);
    succeed(build.current_dir(root()))?;
    let found = links::check(&book)?;
    for problem in &found.problems {
        say(problem);
    }
    say(&format!("{} pages and {} links in target/book, {} wrong", found.pages, found.links, found.problems.len()));
    ensure!(found.problems.is_empty(), "correct the links in the documents");
    Ok(())
}

/// Copies the documents, and writes what the site has in addition.
fn prepare(sources: &Path) -> Result<()> {
    let target = sources.join("src");
    copy_folder(&root().join("docs"), &target.join("docs"))?;
    for name in TOP_DOCUMENTS {
        copy_document(&root().join(name), &target.join(name))?;
    }
    fs::copy(root().join("xtask/book/book.toml"), sources.join("book.toml"))?;
    let chapters = command_reference::write(&target.join("docs/reference/command"))?;
    let mut summary = fs::read_to_string(root().join(SUMMARY)).with_context(|| format!("{SUMMARY} is missing"))?;
    for (line, chapters) in [(COMMAND_REFERENCE, chapters), (DECISIONS, decisions()?)] {
        ensure!(summary.contains(line), "{SUMMARY} has no line {line}");
        summary = summary.replace(line, &chapters);
    }
    fs::remove_file(target.join(SUMMARY))?;
    Ok(fs::write(target.join("SUMMARY.md"), from_the_top(&summary))?)
}

/// The lines of the summary for the decisions, each with its heading.
fn decisions() -> Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(root().join("docs/decisions"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(|first: char| first.is_ascii_digit()) {
            let text = fs::read_to_string(root().join("docs/decisions").join(&name))?;
            let title = text.lines().next().and_then(|line| line.strip_prefix("# ")).context("no heading")?;
            lines.push(format!("  - [{title}](decisions/{name})"));
        }
    }
    lines.sort();
    // The first line has the indentation of the line that is replaced.
    Ok(lines.join("\n").trim_start().to_owned())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if target.extension().is_some_and(|extension| extension == "md") {
            copy_document(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Copies a document, with its diagrams as pictures.
fn copy_document(from: &Path, to: &Path) -> Result<()> {
    let text = fs::read_to_string(from).with_context(|| format!("{} is missing", from.display()))?;
    let text = unlink(&text, |target| is_source(from, target));
    let drawn = diagrams::draw_all(&for_mdbook(&text)).with_context(|| format!("a diagram in {}", from.display()))?;
    Ok(fs::write(to, drawn)?)
}

/// Whether a link of a document leads to a file of the repository that is no part of the site, such as a program.
fn is_source(document: &Path, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    let (Some(folder), Ok(top)) = (document.parent(), root().canonicalize()) else { return false };
    let Ok(path) = folder.join(path).canonicalize() else { return false };
    path.strip_prefix(top).is_ok_and(|path| {
        !path.starts_with("docs") && !TOP_DOCUMENTS.iter().any(|document| path == Path::new(document))
    })
}

/// Turns links to targets that are no part of the site into their text.
fn unlink(text: &str, is_source: impl Fn(&str) -> bool) -> String {
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let end = after.find([')', '\n']).unwrap_or(after.len());
        let target = &after[..end];
        let is_local = !target.is_empty() && !target.contains("://") && !target.starts_with('#');
        match before.rfind('[') {
            Some(open) if is_local && is_source(target) => {
                done.push_str(&before[..open]);
                done.push_str(&before[open + 1..]);
                rest = after[end..].strip_prefix(')').unwrap_or(&after[end..]);
            }
            _ => {
                done.push_str(before);
                done.push_str("](");
                rest = after;
            }
        }
    }
    done.push_str(rest);
    done
}

/// What mdBook reads in another way than code hosts do: links to a folder or to its `README.md`, whose page is `index.html`, and
/// headings that end in a brace, which would be attributes.
fn for_mdbook(text: &str) -> String {
    let mut text = text.replace("README.md)", "index.md)").replace("README.md#", "index.md#");
    for (folder, chapter) in FOLDERS {
        text = text.replace(folder, chapter);
    }
    let heading = |line: &str| line.starts_with('#') && line.ends_with('}');
    let lines = text
        .lines()
        .map(|line| if heading(line) { format!("{}&#125;", &line[..line.len() - 1]) } else { line.to_owned() });
    lines.map(|line| line + "\n").collect()
}

/// A summary with links from the top of the repository instead of `docs/`.
fn from_the_top(summary: &str) -> String {
    summary.replace("](", "](docs/").replace("](docs/../", "](")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_links_of_a_summary_begin_at_the_top() {
        let summary = "[Service](../README.md)\n- [The command](cli.md)\n- [Scopes](concepts/scopes.md)";
        let expected = "[Service](README.md)\n- [The command](docs/cli.md)\n- [Scopes](docs/concepts/scopes.md)";
        assert_eq!(super::from_the_top(summary), expected);
    }

    #[test]
    fn links_to_programs_become_text() {
        let text = "[a](docs/a.md) and [the `example`](examples/web/main.ts), [b](https://service.example) [c](#d)";
        let expected = "[a](docs/a.md) and the `example`, [b](https://service.example) [c](#d)";
        assert_eq!(super::unlink(text, |target| target.starts_with("examples/")), expected);
        let document = crate::root().join("docs/cli.md");
        assert!(super::is_source(&document, "../xtask/words.toml"));
        assert!(!super::is_source(&document, "../README.md#top") && !super::is_source(&document, "mcp.md"));
    }

    #[test]
    fn documents_are_written_as_mdbook_reads_them() {
        let text =
            "# GET /v1/projects/{id}\n[a](docs/decisions) [b](../README.md#top) [c](x/README.md) `README.md` {d}";
        let expected = "# GET /v1/projects/{id&#125;\n[a](docs/decisions/index.md) [b](../index.md#top) [c](x/index.md) `README.md` {d}\n";
        assert_eq!(super::for_mdbook(text), expected);
    }
}
