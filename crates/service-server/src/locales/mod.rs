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
use serde::Deserialize as _;

pub use self::language::Language;
pub(crate) use self::{
    sentence::{Plural, Sentence, Text},
    texts::{MailAddressChange, Texts},
};
use crate::brand::Brand;

const ENGLISH: &str = include_str!("../../locales/en.toml");
const GERMAN: &str = include_str!("../../locales/de.toml");

/// The sentences of all languages.
pub struct Locales {
    english: Texts,
    german: Texts,
}

/// In any sentence, what stands for the name of the service.
const BRAND_PLACEHOLDER: &str = "{brand}";

impl Locales {
    /// Reads all sentences, with the name of the service in them.
    pub fn with_brand(brand: &Brand) -> anyhow::Result<Self> {
        let read = |file, language: Language| {
            let mut texts = parse(file, &brand.name).with_context(|| format!("locales/{}.toml", language.tag()))?;
            texts.brand = brand.shown_in(language);
            anyhow::Ok(texts)
        };
        Ok(Self { english: read(ENGLISH, Language::English)?, german: read(GERMAN, Language::German)? })
    }

    /// Reads all sentences, with the name that the service has by default.
    #[cfg(test)]
    pub(crate) fn load() -> anyhow::Result<Self> {
        Self::with_brand(&Brand { name: "Service".to_owned(), ..Brand::default() })
    }

    pub(crate) const fn of(&self, language: Language) -> &Texts {
        match language {
            Language::English => &self.english,
            Language::German => &self.german,
        }
    }
}

fn parse(file: &str, brand_name: &str) -> anyhow::Result<Texts> {
    let mut table = toml::Value::Table(file.parse()?);
    put_name(&mut table, brand_name);
    Ok(Texts::deserialize(table)?)
}

/// Puts the name of the service into all sentences that have it.
fn put_name(value: &mut toml::Value, name: &str) {
    match value {
        toml::Value::String(text) => *text = text.replace(BRAND_PLACEHOLDER, name),
        toml::Value::Array(values) => values.iter_mut().for_each(|value| put_name(value, name)),
        toml::Value::Table(table) => table.iter_mut().for_each(|(_, value)| put_name(value, name)),
        _ => {}
    }
}
