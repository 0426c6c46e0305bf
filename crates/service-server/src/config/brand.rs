//! The settings of the brand.

use std::path::Path;

use service_rules::{
    display_name::{DisplayName, OwnNames},
    email::Address,
};
use url::Url;

use crate::{
    brand::{Brand, Color, LANGUAGE_PLACEHOLDER, Logo},
    config::sources::Reader,
    locales::Language,
};

const MAX_NAME_CHARS: usize = 40;
const MAX_URL_CHARS: usize = 500;
const NAME: &str = "a name of 1 to 40 characters without links, braces, line breaks or hidden characters";
const LINK: &str = "an https address of at most 500 characters";

pub(super) fn brand(from: &mut Reader<'_>) -> Brand {
    let mut link = |key| from.checked(key, LINK, |text| optional(text, https_url));
    let support_url = link("brand.support_url");
    let privacy_url = link("brand.privacy_url");
    let terms_url = link("brand.terms_url");
    let name = from.checked("brand.name", NAME, brand_name);
    Brand {
        own_names: OwnNames::of_brand(&name),
        name,
        logo: from.checked("brand.logo", "the path of an SVG without scripts or a PNG, of at most 64 KiB", |text| {
            optional(text, |path| Logo::read(Path::new(path)))
        }),
        color: from.checked("brand.color", "a color such as #0b6355", |text| optional(text, Color::parse)),
        support_email: from.checked("brand.support_email", "an email address", |text| optional(text, support_email)),
        support_url,
        privacy_url,
        terms_url,
    }
}

/// Parses a setting that may be empty. The outer `None`: the text is not valid.
#[expect(clippy::option_option, reason = "that it is absent and that it is invalid are different things")]
fn optional<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { parse(text).map(Some) }
}

/// Parses the name. Braces would be placeholders in the sentences that it is put into.
fn brand_name(text: &str) -> Option<String> {
    let name = DisplayName::parse_content(text, MAX_NAME_CHARS).ok()?;
    (name.as_str() == text && !text.contains(['{', '}'])).then(|| text.to_owned())
}

/// Parses the address of a page, which may have a placeholder for the language.
fn https_url(text: &str) -> Option<String> {
    let in_a_language = text.replace(LANGUAGE_PLACEHOLDER, Language::English.tag());
    let url = Url::parse(&in_a_language).ok().filter(|url| url.scheme() == "https")?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.host_str().is_some();
    let is_printable = in_a_language.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>{}\\".contains(&byte));
    (is_plain && is_printable && text.len() <= MAX_URL_CHARS).then(|| text.to_owned())
}

/// Parses the address of a mailbox. It has no characters that mean something else in a link.
fn support_email(text: &str) -> Option<String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"@.+_-".contains(&byte));
    (is_plain && Address::parse(text).is_ok()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_links_are_checked_fh_13() {
        for name in ["Service", "Acme Cloud", "Größe & Co.", "日本語"] {
            assert_eq!(brand_name(name).as_deref(), Some(name));
        }
        for wrong in ["", " Acme", "a{b}", "<b>", "https://acme.test", "a\u{202e}b", "a\nb", &"a".repeat(41)] {
            assert_eq!(brand_name(wrong), None, "{wrong:?}");
        }
        for url in ["https://acme.test/privacy", "https://acme.test/{language}/terms?x=1"] {
            assert_eq!(https_url(url).as_deref(), Some(url));
        }
        let long = format!("https://acme.test/{}", "a".repeat(500));
        for wrong in
            ["http://acme.test", "javascript:alert(1)", "https://u:p@acme.test", "/privacy", "https://a b", &long]
        {
            assert_eq!(https_url(wrong), None, "{wrong}");
        }
        assert_eq!(https_url("https://acme.test/{other}"), None);
        assert!(support_email("help@acme.test").is_some());
        for wrong in ["help", "help@acme.test?subject=x", "Help <help@acme.test>", "a&b@acme.test"] {
            assert_eq!(support_email(wrong), None, "{wrong}");
        }
    }
}
