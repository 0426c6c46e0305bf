//! Texts, sentences with placeholders, and plurals. Values are inserted as text: templates escape the result as a whole.

use std::fmt;

use serde::{Deserialize, Deserializer, de::Error as _};

/// A text without placeholders.
#[derive(Clone, Debug)]
pub(crate) struct Text(String);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() || text.contains(['{', '}']) {
            return Err(D::Error::custom(format!("no placeholder belongs in {text:?}")));
        }
        Ok(Self(text))
    }
}

/// A sentence with placeholders such as `{name}`.
#[derive(Clone, Debug)]
pub(crate) struct Sentence(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Placeholder(String),
}

impl Sentence {
    fn parse(text: &str) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}')?;
            let named = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            if !named || before.contains('}') {
                return None;
            }
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Placeholder(name.to_owned()));
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        (pieces.len() > 1 && !rest.contains('}')).then_some(Self(pieces))
    }

    /// The sentence with a value in place of a placeholder. The value is text: what looks like a placeholder in it is none.
    pub(crate) fn with(&self, name: &str, value: impl fmt::Display) -> Self {
        debug_assert!(self.position(name).is_some(), "no {{{name}}} in {:?}", self.0);
        let fill = |piece: &Piece| match piece {
            Piece::Placeholder(known) if known == name => Piece::Text(value.to_string()),
            piece => piece.clone(),
        };
        Self(self.0.iter().map(fill).collect())
    }

    /// What comes before a placeholder whose value gets markup of its own.
    pub(crate) fn before(&self, name: &str) -> String {
        write(&self.0[..self.position(name).unwrap_or(self.0.len())])
    }

    /// What comes after a placeholder whose value gets markup of its own.
    pub(crate) fn after(&self, name: &str) -> String {
        write(&self.0[self.position(name).map_or(self.0.len(), |at| at + 1)..])
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|piece| matches!(piece, Piece::Placeholder(known) if known == name))
    }

    #[cfg(test)]
    pub(super) fn placeholders(text: &str) -> std::collections::BTreeSet<String> {
        let pieces = Self::parse(text).map(|sentence| sentence.0).unwrap_or_default();
        let name = |piece| if let Piece::Placeholder(name) = piece { Some(name) } else { None };
        pieces.into_iter().filter_map(name).collect()
    }
}

fn write(pieces: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Placeholder(name) => {
            debug_assert!(false, "{{{name}}} has no value in {pieces:?}");
            format!("{{{name}}}")
        }
    };
    pieces.iter().map(text).collect()
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write(&self.0))
    }
}

impl<'de> Deserialize<'de> for Sentence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(format!("no placeholder can be read in {text:?}")))
    }
}

/// A sentence about a number: one form for 1, one for every other number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plural {
    one: Sentence,
    other: Sentence,
}

impl Plural {
    pub(crate) fn count(&self, count: i64) -> Sentence {
        let form = if count == 1 { &self.one } else { &self.other };
        form.with("count", count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_inserted_once_and_as_text() {
        let sentence = Sentence::parse("{a} and {b}.").unwrap();
        assert_eq!(sentence.with("a", "{b}").with("b", "<i>").to_string(), "{b} and <i>.");
        assert_eq!((sentence.with("a", 1).before("b"), sentence.after("b")), ("1 and ".to_owned(), ".".to_owned()));
        for wrong in ["", "text", "{", "}", "{}", "{a", "a}", "{a}}", "}{a}", "{A}", "{a b}"] {
            assert!(Sentence::parse(wrong).is_none(), "{wrong}");
        }
    }
}
