//! Domains that a workspace claims: how they are spelled, which can be claimed, and what a check of the DNS record means.

use std::{fmt, net::IpAddr};

use crate::{Timestamp, email::Address, lifetimes, signing::later};

/// What the DNS record of every claim begins with.
pub const RECORD_PREFIX: &str = "service-verification=";
/// The number of checks in a row that do not find the record, after which the domain is lost.
pub const FAILURES_UNTIL_LOST: i16 = 3;

/// A domain that can be claimed, spelled as [`Address::domain`] spells it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Domain(String);

/// Why a domain cannot be claimed. The error does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    #[error("the text is not a domain")]
    Invalid,
    #[error("the text is an IP address")]
    IpAddress,
    #[error("the domain has one label only")]
    SingleLabel,
    #[error("the domain is a public suffix")]
    PublicSuffix,
    #[error("the domain belongs to a public mail provider")]
    PublicMail,
}

impl Domain {
    /// Normalizes a domain and checks that no public suffix is claimed.
    ///
    /// # Errors
    /// [`DomainError`], except [`DomainError::PublicMail`].
    pub fn parse(text: &str) -> Result<Self, DomainError> {
        let text = text.trim_matches(' ');
        if text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
            return Err(DomainError::IpAddress);
        }
        // An address is parsed, so that a claimed domain is spelled as the domain of its users' addresses.
        let address = Address::parse(&format!("a@{text}"));
        let is_one_label =
            !text.is_empty() && text.chars().all(|character| character.is_alphanumeric() || character == '-');
        let address =
            address.map_err(|_| if is_one_label { DomainError::SingleLabel } else { DomainError::Invalid })?;
        let domain = address.domain();
        if psl::domain_str(domain).is_none() {
            return Err(DomainError::PublicSuffix);
        }
        Ok(Self(domain.to_owned()))
    }

    /// Checks that the domain is none of those where anyone can have an address.
    ///
    /// # Errors
    /// [`DomainError::PublicMail`].
    pub fn check_not_public_mail(&self, public_mail_domains: &[Self]) -> Result<(), DomainError> {
        if public_mail_domains.contains(self) { Err(DomainError::PublicMail) } else { Ok(()) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text of the DNS record that proves a claim. `tag` depends on the workspace and the domain.
#[must_use]
pub fn record_value(tag: [u8; 16]) -> String {
    format!("{RECORD_PREFIX}{:032x}", u128::from_be_bytes(tag))
}

/// Whether the record of a claim is among the TXT records of a domain.
#[must_use]
pub fn has_record(found: &[String], value: &str) -> bool {
    found.iter().any(|text| text.trim_ascii() == value)
}

/// What a check found in DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// The record is there.
    Found,
    /// The domain has no such record, or does not exist.
    Missing,
    /// DNS did not answer, so nothing is known.
    Unanswered,
}

/// What is stored about a verified domain.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Checks in a row that did not find the record.
    pub failures: i16,
    /// The last check that DNS answered.
    pub checked_at: Timestamp,
}

/// What the weekly check of a verified domain means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckVerdict {
    /// The domain stays verified.
    Confirmed { next_check_at: Timestamp },
    /// The domain stays verified for now. Its owners are notified of the first failure.
    Failing { failures: i16, notify: bool, next_check_at: Timestamp },
    /// The domain no longer counts.
    Lost { failures: i16 },
    /// Nothing is known, so nothing changes.
    Postponed { next_check_at: Timestamp },
}

/// Judges the weekly check of a verified domain. A check that DNS does not answer counts as a failure only if there was no
/// answer for four weeks.
#[must_use]
pub fn judge_check(standing: Standing, looked: Looked, now: Timestamp) -> CheckVerdict {
    let next_check_at = later(now, lifetimes::DOMAIN_CHECK);
    let is_silent = later(standing.checked_at, lifetimes::DOMAIN_SILENCE) <= now;
    match looked {
        Looked::Found => CheckVerdict::Confirmed { next_check_at },
        Looked::Unanswered if !is_silent => {
            CheckVerdict::Postponed { next_check_at: later(now, lifetimes::DOMAIN_CHECK_RETRY) }
        }
        Looked::Missing | Looked::Unanswered => {
            let failures = standing.failures.saturating_add(1);
            if failures >= FAILURES_UNTIL_LOST {
                CheckVerdict::Lost { failures }
            } else {
                CheckVerdict::Failing { failures, notify: failures == 1, next_check_at }
            }
        }
    }
}

/// The part of a host name that its owner registered, such as `acme.test` of `sso.acme.test`; the whole name if there is none.
/// An owner can have any number of names below it.
#[must_use]
pub fn registered_part(host: &str) -> &str {
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    psl::domain_str(host).filter(|_| !is_address).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, DomainError> {
        Domain::parse(text).map(|domain| domain.to_string())
    }

    #[test]
    fn spellings_of_one_domain_become_one() {
        for text in ["acme.test", "ACME.test", " acme.test ", "ａcme.test", "acme。test"] {
            assert_eq!(parsed(text).as_deref(), Ok("acme.test"), "{text}");
        }
        for text in ["bücher.test", "BÜCHER.test", "bu\u{308}cher.test", "xn--bcher-kva.test", "XN--bcher-kva.test"] {
            assert_eq!(parsed(text).as_deref(), Ok("xn--bcher-kva.test"), "{text}");
        }
        assert_eq!(parsed("mail.acme.co.uk").as_deref(), Ok("mail.acme.co.uk"));
    }

    #[test]
    fn a_claimed_domain_is_spelled_as_that_of_an_address() {
        for text in ["Acme.test", "bücher.test", "mail.ACME.co.uk"] {
            let address = Address::parse(&format!("ann@{text}")).unwrap();
            assert_eq!(Domain::parse(text).unwrap().as_str(), address.domain());
        }
    }

    #[test]
    fn what_is_no_domain_of_one_company_cannot_be_claimed() {
        for text in
            ["", ".", "acme.test.", "acme..test", "-acme.test", "https://acme.test", "ann@acme.test", "acme.test/x"]
        {
            assert_eq!(parsed(text), Err(DomainError::Invalid), "{text}");
        }
        assert_eq!(parsed(&format!("{}test", "b.".repeat(130))), Err(DomainError::Invalid));
        assert_eq!(parsed(&format!("{}.test", "b".repeat(64))), Err(DomainError::Invalid));
        for text in ["127.0.0.1", "[127.0.0.1]", "::1", "[2001:db8::1]"] {
            assert_eq!(parsed(text), Err(DomainError::IpAddress), "{text}");
        }
        for text in ["localhost", "com", "test", "acme"] {
            assert_eq!(parsed(text), Err(DomainError::SingleLabel), "{text}");
        }
        for text in ["co.uk", "com.au", "github.io", "公司.cn", "xn--55qx5d.cn", "CO.UK", "anything.ck"] {
            assert_eq!(parsed(text), Err(DomainError::PublicSuffix), "{text}");
        }
    }

    #[test]
    fn domains_of_public_mail_providers_cannot_be_claimed() {
        let public = ["gmail.com", "outlook.com"].map(|text| Domain::parse(text).unwrap());
        let check = |text: &str| Domain::parse(text).unwrap().check_not_public_mail(&public);
        assert_eq!(check("GMail.com"), Err(DomainError::PublicMail));
        assert_eq!(check("acme.test"), Ok(()));
    }

    #[test]
    fn a_record_is_found_among_others() {
        let value = record_value([7; 16]);
        assert_eq!(value, "service-verification=07070707070707070707070707070707");
        let found =
            |texts: &[&str]| has_record(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), &value);
        assert!(found(&["v=spf1 -all", "service-verification=07070707070707070707070707070707"]));
        assert!(found(&[" service-verification=07070707070707070707070707070707 "]));
        assert!(!found(&["service-verification=07070707070707070707070707070708"]));
        assert!(!found(&["service-verification=070707070707070707070707070707"]));
        assert!(!found(&["x service-verification=07070707070707070707070707070707"]));
        assert!(!found(&[]));
    }

    #[test]
    fn three_failures_in_a_row_lose_a_domain() {
        let now: Timestamp = "2027-01-15T12:00:00Z".parse().unwrap();
        let (week, day) = (later(now, lifetimes::DOMAIN_CHECK), later(now, lifetimes::DOMAIN_CHECK_RETRY));
        let judge = |failures, looked| judge_check(Standing { failures, checked_at: now }, looked, now);
        let failing = |failures, notify| CheckVerdict::Failing { failures, notify, next_check_at: week };
        assert_eq!(judge(0, Looked::Missing), failing(1, true));
        assert_eq!(judge(1, Looked::Missing), failing(2, false));
        assert_eq!(judge(2, Looked::Missing), CheckVerdict::Lost { failures: 3 });
        for failures in 0..3 {
            assert_eq!(judge(failures, Looked::Found), CheckVerdict::Confirmed { next_check_at: week });
            assert_eq!(judge(failures, Looked::Unanswered), CheckVerdict::Postponed { next_check_at: day });
        }
    }

    #[test]
    fn four_weeks_without_an_answer_count_as_a_failure() {
        let now: Timestamp = "2027-01-15T12:00:00Z".parse().unwrap();
        let next_check_at = later(now, lifetimes::DOMAIN_CHECK);
        let judge = |seconds: i64| {
            let standing = Standing { failures: 0, checked_at: later(now, -seconds) };
            judge_check(standing, Looked::Unanswered, now)
        };
        assert!(matches!(judge(lifetimes::DOMAIN_SILENCE - 1), CheckVerdict::Postponed { .. }));
        let failing = CheckVerdict::Failing { failures: 1, notify: true, next_check_at };
        assert_eq!(judge(lifetimes::DOMAIN_SILENCE), failing);
    }

    #[test]
    fn names_below_a_registered_domain_have_one_owner() {
        for (host, owner) in [
            ("a.b.acme.test", "acme.test"),
            ("acme.test", "acme.test"),
            ("tenant.acme.co.uk", "acme.co.uk"),
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(registered_part(host), owner, "{host}");
        }
    }
}
