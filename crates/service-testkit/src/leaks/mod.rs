//! The leak scanner. Secrets that are issued during a test are registered. The test fails if one of them occurs in a
//! channel where it does not belong, such as a log or the database, also in encoded form.

mod encodings;
mod patterns;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::encodings::PercentDecoded;
use self::patterns::Patterns;

/// The registered secrets. Clones share them.
#[derive(Clone, Default)]
pub struct Leaks {
    registry: Arc<Mutex<Registry>>,
}

/// A secret in a channel. It does not contain the secret, so that a report is not another leak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub channel: String,
    pub kind: &'static str,
    pub form: Form,
    /// Where the form starts in the scanned text, in bytes.
    pub offset: usize,
}

/// How a secret was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    Raw,
    /// A code in two halves, such as `1234 5678`.
    Grouped,
    /// With letters in another case.
    CaseFolded,
    /// As in a JSON string, where that differs from the raw form.
    JsonEscaped,
    /// Found only after percent-decoding, of all or some of the bytes.
    PercentEncoded,
    /// In either alphabet and at any alignment.
    Base64,
    /// In either case, as PostgreSQL writes bytes.
    Hex,
}

impl Leaks {
    /// Registers a secret. Does nothing if it is empty or registered already.
    pub fn register(&self, kind: &'static str, secret: &str) {
        let mut registry = self.registry();
        if secret.is_empty() || registry.secrets.iter().any(|(_, known)| known == secret) {
            return;
        }
        registry.secrets.push((kind, secret.to_owned()));
        registry.patterns = None;
    }

    /// Returns the first place of every secret in every form, in the order of the text.
    #[must_use]
    pub fn scan(&self, channel: &str, text: &[u8]) -> Vec<Finding> {
        let patterns = self.patterns();
        let mut seen = HashSet::new();
        let mut first = BTreeMap::new();
        for hit in patterns.hits(text) {
            seen.insert((hit.secret, hit.offset));
            first.entry((hit.secret, hit.form)).or_insert(hit.offset);
        }
        if let Some(decoded) = PercentDecoded::of(text) {
            for hit in patterns.hits(&decoded.bytes) {
                let offset = decoded.original_offset(hit.offset);
                if seen.contains(&(hit.secret, offset)) {
                    continue;
                }
                let form = match hit.form {
                    Form::Base64 | Form::Hex => hit.form,
                    _ => Form::PercentEncoded,
                };
                let place = first.entry((hit.secret, form)).or_insert(offset);
                *place = offset.min(*place);
            }
        }
        let registry = self.registry();
        let finding = |((secret, form), offset): ((usize, Form), usize)| Finding {
            channel: channel.to_owned(),
            kind: registry.secrets[secret].0,
            form,
            offset,
        };
        let mut findings: Vec<Finding> = first.into_iter().map(finding).collect();
        findings.sort_by_key(|finding| finding.offset);
        findings
    }

    /// Fails the test if `text` contains a secret. Reports the place but not the secret.
    #[track_caller]
    pub fn assert_clean(&self, channel: &str, text: &[u8]) {
        let findings = self.scan(channel, text);
        if !findings.is_empty() {
            let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
            fail(&format!("secrets leaked:\n{}", lines.join("\n")));
        }
    }

    /// Returns the patterns, which are cached until the next secret is registered, because building them is slow.
    fn patterns(&self) -> Arc<Patterns> {
        let mut registry = self.registry();
        if let Some(patterns) = &registry.patterns {
            return Arc::clone(patterns);
        }
        match Patterns::of(registry.secrets.iter().map(|(_, secret)| secret.as_str())) {
            Ok(patterns) => Arc::clone(registry.patterns.insert(Arc::new(patterns))),
            Err(error) => fail(&format!("cannot search for the secrets: {error}")),
        }
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} in {} at byte {} ({:?})", self.kind, self.channel, self.offset, self.form)
    }
}

#[derive(Default)]
struct Registry {
    secrets: Vec<(&'static str, String)>,
    patterns: Option<Arc<Patterns>>,
}

#[track_caller]
#[expect(clippy::panic, reason = "an assertion of a test, which fails by panicking")]
fn fail(message: &str) -> ! {
    panic!("{message}");
}
