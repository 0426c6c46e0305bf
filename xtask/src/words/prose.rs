//! Figures that need no parser: words, opening sentences, lengths and places of files.

use super::{Figure, Hit, settings::Settings};
use crate::files::SourceFile;

const MAX_LINES: usize = 500;
const SERVER_ROOT: &str = "crates/service-server/src/";

pub(super) fn measure(files: &[SourceFile], settings: &Settings) -> Vec<Figure> {
    vec![
        Figure {
            name: "unnamed-actors",
            what: "words that stand for an actor without naming one, in all files",
            hits: files
                .iter()
                .filter(|file| !file.is_below(&settings.actors.except))
                .flat_map(|file| unnamed_actors(file, &settings.actors.words))
                .collect(),
        },
        Figure {
            name: "leaning-comments",
            what: "doc comments that begin with “The same” and need the item before them",
            hits: rust(files).flat_map(leaning_comments).collect(),
        },
        Figure {
            name: "loose-files",
            what: ".rs files directly in crates/service-server/src",
            hits: rust(files).filter(|file| is_loose(&file.path)).map(|file| hit(file, 1, "")).collect(),
        },
        Figure {
            name: "long-files",
            what: ".rs files of more than 500 lines",
            hits: rust(files)
                .filter(|file| file.text.lines().count() > MAX_LINES)
                .map(|file| hit(file, file.text.lines().count(), ""))
                .collect(),
        },
    ]
}

fn rust(files: &[SourceFile]) -> impl Iterator<Item = &SourceFile> {
    files.iter().filter(|file| file.has_extension("rs"))
}

fn hit(file: &SourceFile, line: usize, text: &str) -> Hit {
    Hit { path: file.path.clone(), line, text: text.trim().to_owned() }
}

fn is_loose(path: &str) -> bool {
    path.strip_prefix(SERVER_ROOT).is_some_and(|rest| !rest.contains('/'))
}

/// Every occurrence of a word, also as a part of a `snake_case` name: the characters beside it are no letters.
fn unnamed_actors(file: &SourceFile, words: &[String]) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let lower = line.to_lowercase();
        for word in words {
            let ends_at_letter = |text: Option<char>| text.is_some_and(char::is_alphabetic);
            let found = lower.match_indices(word.as_str()).filter(|(place, _)| {
                !ends_at_letter(lower[..*place].chars().next_back())
                    && !ends_at_letter(lower[place + word.len()..].chars().next())
            });
            hits.extend(found.map(|_| hit(file, index + 1, line)));
        }
    }
    hits
}

fn leaning_comments(file: &SourceFile) -> Vec<Hit> {
    let mut hits = Vec::new();
    let mut before = "";
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim_start();
        for marker in ["///", "//!"] {
            let begins_comment = line.starts_with(marker) && !before.starts_with(marker);
            if begins_comment && line[marker.len()..].trim_start().starts_with("The same") {
                hits.push(hit(file, index + 1, line));
            }
        }
        before = line;
    }
    hits
}

#[cfg(test)]
mod tests {
    use crate::files::SourceFile;

    fn file(text: &str) -> SourceFile {
        SourceFile { path: "crates/service-server/src/a.rs".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_word_counts_alone_and_inside_a_name() {
        let words = ["alpha".to_owned()];
        let count = |text: &str| super::unnamed_actors(&file(text), &words).len();
        assert_eq!(count("Alpha met alpha's friend"), 2);
        assert_eq!(count("fn alpha_gets_in_ot_05() {}"), 1);
        assert_eq!(count("alphabet, betalpha"), 0);
    }

    #[test]
    fn a_comment_leans_only_if_it_begins_so() {
        let count = |text: &str| super::leaning_comments(&file(text)).len();
        assert_eq!(count("/// The same, for two.\nfn a() {}"), 1);
        assert_eq!(count("/// Adds.\n/// The same for two.\nfn a() {}"), 0);
        assert_eq!(count("// The same\nfn a() {}"), 0);
    }

    #[test]
    fn a_loose_file_is_directly_below_src() {
        assert!(super::is_loose("crates/service-server/src/main.rs"));
        assert!(!super::is_loose("crates/service-server/src/http/mod.rs"));
        assert!(!super::is_loose("crates/service-cli/src/main.rs"));
    }
}
