//! The text files of the repository, as the checks of `words` and `docs` read them.

use std::fs;

use anyhow::Result;

use crate::root;

/// Folders that hold nothing of ours: build output, installed packages, notes of tools.
const SKIPPED_FOLDERS: [&str; 5] = ["target", ".git", "node_modules", ".hypothesis", ".schemathesis"];

/// A text file, with its path from the top of the repository.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }

    /// Whether the path is one of `prefixes`, or below one that ends in a slash.
    pub(crate) fn is_below(&self, prefixes: &[String]) -> bool {
        prefixes.iter().any(|prefix| self.path == *prefix || (prefix.ends_with('/') && self.path.starts_with(prefix)))
    }
}

/// Reads every text file of the repository, in the order of their paths. Git is not asked, so that an exported tree
/// can be checked too.
pub(crate) fn read_all() -> Result<Vec<SourceFile>> {
    let mut folders = vec![(root(), String::new())];
    let mut files = Vec::new();
    while let Some((folder, prefix)) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                if !SKIPPED_FOLDERS.contains(&name.as_str()) {
                    folders.push((entry.path(), format!("{path}/")));
                }
            } else if let Ok(text) = fs::read_to_string(entry.path()) {
                files.push(SourceFile { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
