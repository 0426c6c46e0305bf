//! Phrases that should not be in what people read: pages, mails, errors, messages of the command, the documents.

use anyhow::{Context as _, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Item, LitStr, Meta,
    visit::{self, Visit},
};

use super::{
    Figure, Hit,
    settings::Settings,
    shapes::{derives, is_for_tests},
};
use crate::files::SourceFile;

pub(super) fn measure(files: &[SourceFile], settings: &Settings) -> Result<Figure> {
    let places = &settings.read_by_people;
    let mut hits = Vec::new();
    for file in files {
        let texts = if file.is_below(&places.except) {
            continue;
        } else if file.is_below(&places.whole) {
            vec![Text { line: 1, text: without_tags(&file.text) }]
        } else if file.has_extension("rs") && file.is_below(&places.strings) {
            let tree = syn::parse_file(&file.text).with_context(|| format!("{} cannot be parsed", file.path))?;
            let mut strings = Strings { described_by: &places.described_by, described: false, found: Vec::new() };
            strings.visit_file(&tree);
            strings.found
        } else {
            continue;
        };
        for text in &texts {
            let spaced = Spaced::new(text);
            for (phrase, instead) in &settings.phrases {
                hits.extend(spaced.lines_of(phrase).into_iter().map(|line| Hit {
                    path: file.path.clone(),
                    line,
                    text: format!("“{phrase}”: write {instead}"),
                }));
            }
        }
    }
    hits.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(Figure { name: "phrases", what: "phrases of xtask/words.toml in what people read", hits })
}

/// A text with the line on which it begins.
struct Text {
    line: usize,
    text: String,
}

/// Collects the string literals of a file, and the doc comments that become help or description.
struct Strings<'a> {
    described_by: &'a [String],
    /// Inside an item whose doc comments are read by people.
    described: bool,
    found: Vec<Text>,
}

impl Strings<'_> {
    fn take_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.take_tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<LitStr>(&literal.to_string()) {
                        self.found.push(Text { line: literal.span().start().line, text: text.value() });
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Strings<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Mod(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            _ => &[],
        };
        if is_for_tests(attributes) {
            return;
        }
        let before = self.described;
        self.described = derives(attributes).iter().any(|name| self.described_by.contains(name));
        visit::visit_item(self, item);
        self.described = before;
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if attribute.path().is_ident("doc") && !self.described {
            return;
        }
        if let Meta::List(list) = &attribute.meta {
            self.take_tokens(list.tokens.clone());
        }
        visit::visit_attribute(self, attribute);
    }

    fn visit_macro(&mut self, one: &'ast syn::Macro) {
        self.take_tokens(one.tokens.clone());
    }

    fn visit_lit_str(&mut self, literal: &'ast LitStr) {
        self.found.push(Text { line: literal.span().start().line, text: literal.value() });
    }
}

/// A template without what is between its braces; line breaks stay.
fn without_tags(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, tag, close)) = [("{{", "}}"), ("{%", "%}"), ("{#", "#}")]
        .into_iter()
        .filter_map(|(open, close)| text_before(rest, open).map(|before| (before, open, close)))
        .min_by_key(|(before, ..)| before.len())
    {
        plain.push_str(before);
        let inside = &rest[before.len() + tag.len()..];
        let end = inside.find(close).map_or(inside.len(), |end| end + close.len());
        plain.push('·');
        plain.extend(inside[..end].chars().filter(|character| *character == '\n'));
        rest = &inside[end..];
    }
    plain.push_str(rest);
    plain
}

fn text_before<'a>(text: &'a str, open: &str) -> Option<&'a str> {
    text.split_once(open).map(|(before, _)| before)
}

/// A text in lower case with one space for each run of white space, and the line of each of its bytes.
struct Spaced {
    text: String,
    lines: Vec<usize>,
}

impl Spaced {
    fn new(text: &Text) -> Self {
        let mut spaced = Self { text: String::new(), lines: Vec::new() };
        let mut line = text.line;
        for character in text.text.chars() {
            if character.is_whitespace() {
                if !spaced.text.ends_with(' ') {
                    spaced.push(' ', line);
                }
                line += usize::from(character == '\n');
            } else {
                for lower in character.to_lowercase() {
                    spaced.push(if lower == '’' { '\'' } else { lower }, line);
                }
            }
        }
        spaced
    }

    fn push(&mut self, character: char, line: usize) {
        self.text.push(character);
        self.lines.extend(std::iter::repeat_n(line, character.len_utf8()));
    }

    /// The lines on which a phrase begins, as whole words.
    fn lines_of(&self, phrase: &str) -> Vec<usize> {
        let is_part_of_word = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
        let found = self.text.match_indices(phrase).filter(|(place, _)| {
            !is_part_of_word(self.text[..*place].chars().next_back())
                && !is_part_of_word(self.text[place + phrase.len()..].chars().next())
        });
        found.filter_map(|(place, _)| self.lines.get(place).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use syn::visit::Visit as _;

    use super::{Spaced, Strings, Text, without_tags};

    #[test]
    fn a_phrase_is_found_over_a_line_break_and_as_whole_words() {
        let spaced = Spaced::new(&Text { line: 7, text: "Its Makers,\n  go\n on; filmmakers".to_owned() });
        assert_eq!(spaced.lines_of("makers"), [7]);
        assert_eq!(spaced.lines_of("go on"), [8]);
        assert!(spaced.lines_of("kers").is_empty());
    }

    #[test]
    fn strings_of_macros_and_attributes_count_and_those_of_tests_do_not() {
        let text = r#"
            /// not read
            fn a() { say!("one {}", f("two")); let b = "three"; }
            #[derive(clap::Args)] struct B { /** four */ #[arg(help = "five")] c: u8 }
            #[cfg(test)] mod tests { const D: &str = "six"; }
        "#;
        let described_by = ["Args".to_owned()];
        let mut strings = Strings { described_by: &described_by, described: false, found: Vec::new() };
        strings.visit_file(&syn::parse_file(text).unwrap());
        let found: Vec<_> = strings.found.iter().map(|found| found.text.trim()).collect();
        assert_eq!(found, ["one {}", "two", "three", "four", "five"]);
    }

    #[test]
    fn what_is_between_braces_is_not_read() {
        assert_eq!(without_tags("Hi {{ name }},{% if a %}\n{% endif %}{# no\n #}you"), "Hi ·,·\n··\nyou");
    }
}
