//! Which language a request prefers.

use axum::http::{HeaderMap, header};
use serde::{Deserialize, Serialize};

/// A language that pages and mails are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Language {
    #[default]
    #[serde(rename = "en")]
    English,
    #[serde(rename = "de")]
    German,
}

impl Language {
    pub const ALL: [Self; 2] = [Self::English, Self::German];

    /// The language tag (RFC 5646).
    #[must_use]
    pub const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::German => "de",
        }
    }

    /// The supported language that `Accept-Language` (RFC 9110) prefers; English if it names none.
    #[must_use]
    pub fn accepted(headers: &HeaderMap) -> Self {
        let values = headers.get_all(header::ACCEPT_LANGUAGE).iter().filter_map(|value| value.to_str().ok());
        let ranges = values.flat_map(|value| value.split(',')).filter_map(range);
        let mut best = (0, Self::default());
        for (language, weight) in ranges {
            if weight > best.0 {
                best = (weight, language);
            }
        }
        best.1
    }
}

/// A language range and its weight in thousandths; `None`: a language that is not supported.
fn range(text: &str) -> Option<(Language, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let primary = parts.next()?.split('-').next()?;
    let language = Language::ALL.into_iter().find(|language| primary.eq_ignore_ascii_case(language.tag()))?;
    let Some(weight) = parts.find_map(|part| part.strip_prefix("q=")) else { return Some((language, 1_000)) };
    let (whole, fraction) = weight.split_once('.').unwrap_or((weight, ""));
    let digits = format!("{whole}{fraction:0<3.3}");
    Some((language, digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn accepted(values: &[&'static str]) -> Language {
        let values = values.iter().map(|value| (header::ACCEPT_LANGUAGE, HeaderValue::from_static(value)));
        Language::accepted(&values.collect())
    }

    #[test]
    fn the_preferred_language_that_is_supported_is_chosen() {
        for german in ["de", "DE-at", "fr, de;q=0.8, en;q=0.7", "de, en", "en;q=0.5, de;q=0.51", "en;q=0,de;q=0.001"] {
            assert_eq!(accepted(&[german]), Language::German, "{german}");
        }
        for english in ["", "en-GB", "fr", "*", "de;q=0", "de;q=0.5, en", "den", "de;q=x", "de;level=1;q=0, en"] {
            assert_eq!(accepted(&[english]), Language::English, "{english}");
        }
        assert_eq!(accepted(&[]), Language::English);
        assert_eq!(accepted(&["fr", "de"]), Language::German);
    }
}
