//! The documents of the repository, and the blocks of code in them. A block is executed by a test, or says why it is not.
//!
//! The line before a block is one of three comments:
//!
//! - `<!-- run -->`: a `console` block, executed by the test of its document. All such blocks of a document are one transcript.
//! - `<!-- run by: PATH -->`: the test in that file executes it in another way.
//! - `<!-- not run: REASON -->`: no test executes it.

mod commands;
mod shell;
mod transcript;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

pub use self::{
    commands::commands_of,
    shell::Shell,
    transcript::{Step, parse},
};

/// Documents at the top of the repository; the others are below `docs/`.
const TOP_DOCUMENTS: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];

/// A document, with its path from the top of the repository.
pub struct Document {
    pub path: String,
    pub text: String,
}

/// A fenced block of code.
pub struct Block {
    /// The number of its first line.
    pub line: usize,
    /// The first word after the fence; may be empty.
    pub language: String,
    pub text: String,
    pub treatment: Option<Treatment>,
}

/// What the comment before a block says about its execution.
#[derive(Debug, PartialEq)]
pub enum Treatment {
    Run,
    RunBy(String),
    NotRun(String),
}

/// The top of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads all documents, in the order of their paths.
pub fn read_all() -> Result<Vec<Document>> {
    let mut found = Vec::new();
    for path in TOP_DOCUMENTS {
        found.push(read(path)?);
    }
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder))? {
            let entry = entry?;
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if Path::new(&path).extension().is_some_and(|extension| extension == "md") {
                found.push(read(&path)?);
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Reads one document.
pub fn read(path: &str) -> Result<Document> {
    let text = fs::read_to_string(root().join(path)).with_context(|| format!("{path} cannot be read"))?;
    Ok(Document { path: path.to_owned(), text })
}

impl Document {
    /// The fenced blocks of code, from top to bottom.
    #[must_use]
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<(Block, String)> = None;
        let mut before = "";
        for (index, line) in self.text.lines().enumerate() {
            let bare = line.trim_start();
            match open.take() {
                Some((block, fence)) if bare.trim_end() == fence => blocks.push(block),
                Some((mut block, fence)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                    open = Some((block, fence));
                }
                None if bare.starts_with("```") => {
                    let fence: String = bare.chars().take_while(|one| *one == '`').collect();
                    let language = bare[fence.len()..].split_whitespace().next().unwrap_or_default().to_owned();
                    let treatment = treatment(before.trim());
                    open = Some((Block { line: index + 1, language, text: String::new(), treatment }, fence));
                }
                None => {}
            }
            before = line;
        }
        blocks
    }

    /// The steps of all blocks that are to be run, in their order.
    pub fn transcript(&self) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        for block in self.blocks().iter().filter(|block| block.treatment == Some(Treatment::Run)) {
            steps.extend(parse(&block.text).with_context(|| format!("{}:{}", self.path, block.line))?);
        }
        Ok(steps)
    }
}

fn treatment(line: &str) -> Option<Treatment> {
    let comment = line.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    if comment == "run" {
        return Some(Treatment::Run);
    }
    // The README's own transcript, which `docs/readme.rs` executes.
    if comment == "transcript" {
        return Some(Treatment::RunBy("crates/service-server/tests/it/docs/readme.rs".to_owned()));
    }
    let (word, rest) = comment.split_once(':')?;
    match word {
        "run by" => Some(Treatment::RunBy(rest.trim().to_owned())),
        "not run" if !rest.trim().is_empty() => Some(Treatment::NotRun(rest.trim().to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Document, Treatment};

    #[test]
    fn blocks_have_a_language_a_line_and_a_treatment() {
        let text = "# A\n\n<!-- run -->\n```console\n$ true\n```\n\n<!-- not run: later -->\n\n```sh\nls\n```\n\
                    - a list:\n  <!-- not run: needs sudo -->\n  ```sh\n  ls\n  ```\n<!-- not run: -->\n````json\n```\n````\n";
        let document = Document { path: "a.md".to_owned(), text: text.to_owned() };
        let blocks = document.blocks();
        let seen: Vec<_> = blocks.iter().map(|block| (block.line, block.language.as_str(), &block.treatment)).collect();
        let needs_sudo = Some(Treatment::NotRun("needs sudo".to_owned()));
        assert_eq!(
            seen,
            [(4, "console", &Some(Treatment::Run)), (10, "sh", &None), (15, "sh", &needs_sudo), (19, "json", &None)]
        );
        assert_eq!(blocks[3].text, "```\n");
    }
}
