//! The patterns that reveal a secret, and one search for all of them.

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError};

use super::Form;
use super::encodings::{base64_alone, base64_anywhere, hex, json};

/// A secret of digits up to this length is a code, which is short enough to occur in other numbers by chance.
const MAX_CODE_LENGTH: usize = 12;

/// Shorter secrets, such as passwords, may be a word that also occurs in another case.
const MIN_CASE_FOLDED_LENGTH: usize = 16;

/// What separates the halves of a code in texts, forms, web pages and JSON.
const SEPARATORS: [&str; 6] = [" ", "-", "+", "\u{a0}", "&nbsp;", "\\u00a0"];

pub(super) struct Patterns {
    search: AhoCorasick,
    patterns: Vec<Pattern>,
}

pub(super) struct Hit {
    /// The index of the secret among those that the patterns were made from.
    pub(super) secret: usize,
    pub(super) form: Form,
    pub(super) offset: usize,
}

impl Patterns {
    pub(super) fn of<'a>(secrets: impl Iterator<Item = &'a str>) -> Result<Self, BuildError> {
        let mut patterns = Vec::new();
        for (secret, value) in secrets.enumerate() {
            let code: String = value.chars().filter(|character| !matches!(character, ' ' | '-')).collect();
            let is_code = (1..=MAX_CODE_LENGTH).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_digit());
            let forms = if is_code { code_forms(&code) } else { forms(value) };
            patterns.extend(forms.into_iter().map(|(form, edges, text)| Pattern { secret, form, edges, text }));
        }
        // One search finds all patterns. Where the case matters, it is compared afterwards.
        // A test searches four texts with them, so they must be made quickly, too.
        let search = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .ascii_case_insensitive(true)
            .build(patterns.iter().map(|pattern| pattern.text.as_bytes()))?;
        Ok(Self { search, patterns })
    }

    pub(super) fn hits(&self, text: &[u8]) -> impl Iterator<Item = Hit> {
        self.search.find_overlapping_iter(text).filter_map(move |found| {
            let pattern = &self.patterns[found.pattern()];
            let hit = Hit { secret: pattern.secret, form: pattern.form, offset: found.start() };
            pattern.accepts(&text[..found.start()], &text[found.range()], &text[found.end()..]).then_some(hit)
        })
    }
}

struct Pattern {
    secret: usize,
    form: Form,
    edges: Edges,
    text: String,
}

/// What may stand next to a pattern.
#[derive(Clone, Copy)]
enum Edges {
    Anything,
    NoLetterOrDigit,
    NoHexDigit,
    /// Nor other groups of a UUID, whose middle sometimes looks like a code in two halves.
    NoLetterOrDigitOrGroup,
}

impl Pattern {
    fn accepts(&self, before: &[u8], found: &[u8], after: &[u8]) -> bool {
        let same_case = found == self.text.as_bytes();
        let right_case = match self.form {
            Form::Hex => true,
            Form::CaseFolded => !same_case,
            _ => same_case,
        };
        let touches =
            |is_same: fn(&u8) -> bool| (before.last().is_some_and(is_same), after.first().is_some_and(is_same));
        let stands_alone = match self.edges {
            Edges::Anything => true,
            Edges::NoLetterOrDigit | Edges::NoLetterOrDigitOrGroup => {
                let (touches_before, touches_after) = touches(u8::is_ascii_alphanumeric);
                let alone = !touches_after && (!touches_before || ends_with_escape(before));
                alone && !(matches!(self.edges, Edges::NoLetterOrDigitOrGroup) && in_uuid(before, after))
            }
            Edges::NoHexDigit => touches(u8::is_ascii_hexdigit) == (false, false),
        };
        right_case && stands_alone
    }
}

fn forms(secret: &str) -> Vec<(Form, Edges, String)> {
    let mut forms =
        vec![(Form::Raw, Edges::Anything, secret.to_owned()), (Form::Hex, Edges::Anything, hex(secret.as_bytes()))];
    if secret.len() >= MIN_CASE_FOLDED_LENGTH {
        forms.push((Form::CaseFolded, Edges::Anything, secret.to_owned()));
    }
    let json = json(secret);
    if json != secret {
        forms.push((Form::JsonEscaped, Edges::Anything, json));
    }
    forms.extend(base64_anywhere(secret.as_bytes()).into_iter().map(|text| (Form::Base64, Edges::Anything, text)));
    forms
}

fn code_forms(code: &str) -> Vec<(Form, Edges, String)> {
    let mut forms = vec![
        (Form::Raw, Edges::NoLetterOrDigit, code.to_owned()),
        (Form::Hex, Edges::NoHexDigit, hex(code.as_bytes())),
        (Form::Base64, Edges::NoLetterOrDigit, base64_alone(code.as_bytes())),
    ];
    let (first, second) = code.split_at(code.len() / 2);
    forms.extend(
        SEPARATORS
            .iter()
            .map(|between| (Form::Grouped, Edges::NoLetterOrDigitOrGroup, format!("{first}{between}{second}"))),
    );
    forms
}

/// Whether two groups of four are where a UUID has them: 8-4-4-4-12.
fn in_uuid(before: &[u8], after: &[u8]) -> bool {
    let before: Vec<_> = before.iter().rev().take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'-').collect();
    let after: Vec<_> = after.iter().take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'-').collect();
    let is_group = |text: &[&u8], length: usize| match text {
        [b'-', group @ ..] => group.iter().take(length).filter(|byte| ***byte != b'-').count() == length,
        _ => false,
    };
    (is_group(&before, 8) && is_group(&after, 4)) || (is_group(&before, 4) && is_group(&after, 12))
}

/// Whether the last letter or digit belongs to an escape, such as a line feed in JSON or a terminal colour, and so not
/// to what follows.
fn ends_with_escape(text: &[u8]) -> bool {
    match text {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
        [.., b'\\', b'u', a, b, c, d] => [a, b, c, d].iter().all(|byte| byte.is_ascii_hexdigit()),
        [rest @ .., b'm'] => {
            let parameters = rest.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
            rest[..rest.len() - parameters].ends_with(b"[")
        }
        _ => false,
    }
}
