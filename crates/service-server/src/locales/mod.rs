//! The languages of pages and mails. Every sentence that people read there is in `locales/<language>.toml`.
//!
//! The files are part of the binary. They are parsed once, into structs with a field for each sentence: a file that lacks
//! one, or has one too many, keeps the server from starting and fails a test.

mod language;
mod sentence;
mod texts;
mod wording;

#[cfg(test)]
mod template_tests;
#[cfg(test)]
mod tests;

use anyhow::Context as _;

pub use self::language::Language;
pub(crate) use self::{
    sentence::{Plural, Sentence, Text},
    texts::Texts,
};

const ENGLISH: &str = include_str!("../../locales/en.toml");
const GERMAN: &str = include_str!("../../locales/de.toml");

/// The sentences of all languages.
pub struct Locales {
    english: Texts,
    german: Texts,
}

impl Locales {
    pub fn load() -> anyhow::Result<Self> {
        Ok(Self {
            english: toml::from_str(ENGLISH).context("locales/en.toml")?,
            german: toml::from_str(GERMAN).context("locales/de.toml")?,
        })
    }

    pub(crate) const fn of(&self, language: Language) -> &Texts {
        match language {
            Language::English => &self.english,
            Language::German => &self.german,
        }
    }
}
