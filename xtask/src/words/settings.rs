//! `xtask/words.toml`: ceilings, the words that are counted, and the phrases that people should not have to read.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::root;

const PATH: &str = "xtask/words.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Settings {
    ceilings: BTreeMap<String, usize>,
    pub(super) actors: Actors,
    pub(super) read_by_people: ReadByPeople,
    /// A phrase, and what to write instead.
    pub(super) phrases: BTreeMap<String, String>,
}

/// The words that stand for an actor without naming one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Actors {
    pub(super) words: Vec<String>,
    /// Files in which the words are not counted.
    pub(super) except: Vec<String>,
}

/// Where the texts are that people read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ReadByPeople {
    /// Rust files whose string literals are shown to people.
    pub(super) strings: Vec<String>,
    /// Derives that turn doc comments into help or into a description of the API.
    pub(super) described_by: Vec<String>,
    /// Files that are text from beginning to end.
    pub(super) whole: Vec<String>,
    /// Files below those that are not searched.
    pub(super) except: Vec<String>,
}

impl Settings {
    pub(super) fn read() -> Result<Self> {
        let text = fs::read_to_string(root().join(PATH)).with_context(|| format!("cannot read {PATH}"))?;
        toml::from_str(&text).with_context(|| format!("{PATH} cannot be used"))
    }

    pub(super) fn ceiling(&self, figure: &str) -> Result<usize> {
        self.ceilings.get(figure).copied().with_context(|| format!("{PATH} has no ceiling for {figure}"))
    }

    pub(super) fn ensure_no_other_ceilings(&self, figures: &[&str]) -> Result<()> {
        for name in self.ceilings.keys() {
            ensure!(figures.contains(&name.as_str()), "{PATH} has a ceiling for {name}, which is not counted");
        }
        Ok(())
    }
}
