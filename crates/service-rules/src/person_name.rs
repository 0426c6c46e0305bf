//! The name of a user, which members of the user's workspaces read beside the email address.
//!
//! Users choose it freely, so it says nothing about who they are: the address does. That is why a name cannot read like one.

use unicode_normalization::UnicodeNormalization as _;

use crate::display_name::{DisplayName, DisplayNameError, OwnNames};

/// A name that a user may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonName(DisplayName);

/// Why a text is rejected as the name of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PersonNameError {
    #[error(transparent)]
    Name(#[from] DisplayNameError),
    /// The name has an `@`, or a character that stands for one.
    #[error("the name reads like an email address")]
    Address,
}

impl PersonNameError {
    /// What is wrong, as the end of a sentence that begins with the field's name.
    #[must_use]
    pub fn message(self) -> String {
        match self {
            Self::Name(refusal) => refusal.message(),
            Self::Address => "can't contain @".to_owned(),
        }
    }
}

impl PersonName {
    /// Parses a name. `None`: the text is blank, so that the user has no name.
    ///
    /// # Errors
    /// The first reason why the text is rejected.
    pub fn parse(text: &str, longest: usize, own_names: &OwnNames) -> Result<Option<Self>, PersonNameError> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let name = DisplayName::parse(text, longest, own_names)?;
        if name.as_str().nfkc().any(|character| character == '@') {
            Err(PersonNameError::Address)
        } else {
            Ok(Some(Self(name)))
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> Result<Option<PersonName>, PersonNameError> {
        PersonName::parse(text, 80, &OwnNames::of_brand("Service"))
    }

    #[test]
    fn names_of_people_pass_and_are_trimmed_pn_02() {
        for name in ["Ann Lee", "Søren Ørsted", "O’Hara", "山田太郎", "ليلى", "Nguyễn Thị Hoa", "J. R. R."]
        {
            assert_eq!(
                judged(&format!(" {name} ")).map(|name| name.map(|name| name.as_str().to_owned())),
                Ok(Some(name.into()))
            );
        }
        assert_eq!(judged(&"n".repeat(80)).map(|name| name.is_some()), Ok(true));
    }

    #[test]
    fn a_blank_text_is_no_name_pn_02() {
        for blank in ["", " ", "\t", "\n"] {
            assert_eq!(judged(blank), Ok(None));
        }
    }

    #[test]
    fn a_name_that_misleads_is_refused_pn_02() {
        for address in ["ann@acme.test", "Ann (ann@acme.test)", "ann＠acme.test", "ann﹫acme.test"] {
            assert_eq!(judged(address), Err(PersonNameError::Address), "{address}");
        }
        for (text, why) in [
            ("Service", DisplayNameError::Reserved),
            ("https://acme.test", DisplayNameError::Link),
            ("Ann\u{202e}eeL", DisplayNameError::Invisible),
            ("Аnn", DisplayNameError::MixedScripts),
            ("Ann\nLee", DisplayNameError::Length(80)),
        ] {
            assert_eq!(judged(text), Err(why.into()), "{text}");
        }
        assert_eq!(judged(&"n".repeat(81)), Err(DisplayNameError::Length(80).into()));
    }
}
