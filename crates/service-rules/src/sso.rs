//! Single sign-on: whose account an identity of a provider is, and for how long a sign-in counts.
//!
//! A connection decides about the users of its own verified domains and about no others. An identity is its connection and
//! its subject. The address that the provider sends selects an account only once, when the identity is new.

use service_api::ids::UserId;

use crate::{
    Timestamp,
    connections::is_entra,
    email::Address,
    id_token::{EmailVerified, IdToken},
    lifetimes,
    signing::later,
};

/// Sign-ins by email code of one user within [`BREAK_GLASS_SECONDS`], where single sign-on is required.
pub const MAX_BREAK_GLASS_SIGN_INS: u32 = 3;
pub const BREAK_GLASS_SECONDS: u32 = 30 * 86_400;

/// The client id of codes that link an account with an identity of a company's provider. They sign no user in by themselves.
pub const LINK_CLIENT: &str = "sso-link";

const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

/// A user as a provider names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What identifies the user at the provider. It never changes.
    pub subject: String,
    /// The address that the provider sent, if it is one.
    pub address: Option<Address>,
    pub verified: EmailVerified,
}

/// Why an identity is not signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("the identity is of another Entra tenant, or names no tenant and object")]
    OtherTenant,
    #[error("the provider sent no email address")]
    NoAddress,
    #[error("the provider says that the email address is not verified")]
    UnverifiedAddress,
    #[error("the email address is outside of the connection's verified domains")]
    ForeignDomain,
    #[error("the account is disabled")]
    AccountDisabled,
    #[error("the user requires a passkey")]
    PasskeyRequired,
}

impl IdentityError {
    /// The reason as audit events record it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OtherTenant => "other_tenant",
            Self::NoAddress => "no_address",
            Self::UnverifiedAddress => "unverified_address",
            Self::ForeignDomain => "foreign_domain",
            Self::AccountDisabled => "account_disabled",
            Self::PasskeyRequired => "passkey_required",
        }
    }
}

impl Identity {
    /// Reads who the user of a valid ID token is. Entra users are identified by tenant and object: their `sub` differs from
    /// app to app.
    ///
    /// # Errors
    /// The user is of another Entra tenant than the issuer.
    pub fn of(issuer: &str, token: &IdToken) -> Result<Self, IdentityError> {
        let subject = match entra_tenant(issuer) {
            None => token.subject.clone(),
            Some(tenant) => match (&token.tenant_id, &token.object_id) {
                (Some(named), Some(object)) if named.eq_ignore_ascii_case(tenant) => format!("{tenant}/{object}"),
                _ => return Err(IdentityError::OtherTenant),
            },
        };
        let address = token.email.as_deref().and_then(|email| Address::parse(email).ok());
        Ok(Self { subject, address, verified: token.email_verified })
    }
}

/// The tenant of an Entra issuer: the first segment of its path.
fn entra_tenant(issuer: &str) -> Option<&str> {
    issuer.split('/').nth(3).filter(|_| is_entra(issuer))
}

/// An account that an identity may be signed in to.
#[derive(Clone, Debug)]
pub struct Account {
    pub user_id: UserId,
    pub address: Address,
    pub disabled: bool,
}

/// What is known about an identity.
#[derive(Debug)]
pub struct IdentityFacts<'a> {
    /// The verified domains of the connection.
    pub domains: &'a [String],
    /// The account that the identity is linked with.
    pub linked: Option<Account>,
    /// The account with the address that the provider sent.
    pub by_address: Option<Account>,
}

/// What happens with an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityVerdict {
    /// Sign the user in whose account the identity is linked with.
    SignIn(UserId),
    /// Create an account with this address.
    Create(Address),
    /// Ask the owner of the account with this address for a code, once, and then link the identity.
    Link(Address),
}

/// Decides what happens with an identity that signed in at its provider.
///
/// # Errors
/// Why it is not signed in.
pub fn judge(identity: &Identity, facts: &IdentityFacts<'_>) -> Result<IdentityVerdict, IdentityError> {
    if let Some(account) = &facts.linked {
        if identity.verified == EmailVerified::Other {
            return Err(IdentityError::UnverifiedAddress);
        }
        // Whatever address the provider sends now. But a connection that has lost the domain of an account decides about
        // the account no longer.
        return match account.disabled {
            _ if !covers(facts.domains, &account.address) => Err(IdentityError::ForeignDomain),
            true => Err(IdentityError::AccountDisabled),
            false => Ok(IdentityVerdict::SignIn(account.user_id)),
        };
    }
    let address = usable_address(identity, facts.domains)?.clone();
    match &facts.by_address {
        None => Ok(IdentityVerdict::Create(address)),
        Some(account) if account.disabled => Err(IdentityError::AccountDisabled),
        Some(_) => Ok(IdentityVerdict::Link(address)),
    }
}

/// The address by which a new identity finds or creates an account. Some providers do not say whether an address is
/// verified. They are believed about the domains that are verified to be theirs, and no provider is believed about others.
fn usable_address<'a>(identity: &'a Identity, domains: &[String]) -> Result<&'a Address, IdentityError> {
    let address = identity.address.as_ref().ok_or(IdentityError::NoAddress)?;
    if identity.verified == EmailVerified::Other {
        return Err(IdentityError::UnverifiedAddress);
    }
    if covers(domains, address) { Ok(address) } else { Err(IdentityError::ForeignDomain) }
}

/// Whether an address is in one of these domains. A domain does not include its subdomains.
#[must_use]
pub fn covers(domains: &[String], address: &Address) -> bool {
    domains.iter().any(|domain| domain == address.domain())
}

/// The provider used an earlier sign-in although it was told to ask the user again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the provider did not ask the user to sign in again")]
pub struct NotFresh;

/// When the user authenticated, as far as it is known. `fresh_since`: the provider was told to ask the user again, and the
/// user must have authenticated at this time or later.
///
/// # Errors
/// The provider says that the user authenticated before that.
pub fn auth_time(
    claim: Option<Timestamp>,
    fresh_since: Option<Timestamp>,
    now: Timestamp,
) -> Result<Option<Timestamp>, NotFresh> {
    let claim = claim.map(|at| at.min(now));
    match (fresh_since, claim) {
        (None, claim) => Ok(claim),
        // The provider does not say when, but it was told to ask now.
        (Some(_), None) => Ok(Some(now)),
        (Some(since), Some(at)) if later(at, lifetimes::PROVIDER_CLOCK_SKEW) < since => Err(NotFresh),
        // The provider's clock may be slow.
        (Some(since), Some(at)) => Ok(Some(at.max(since).min(now))),
    }
}

/// When an interactive session that began with a sign-in at this time has to sign in again.
#[must_use]
pub fn session_end(signed_in_at: Timestamp, session_hours: i16) -> Timestamp {
    later(signed_in_at, i64::from(session_hours) * HOUR)
}

/// Until when the other credentials of a user work, who signed in through a connection at this time.
#[must_use]
pub fn tokens_end(signed_in_at: Timestamp, token_days: i16) -> Timestamp {
    later(signed_in_at, i64::from(token_days) * DAY)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
    const TENANT: &str = "9b8f0a52-1111-4222-8333-444455556666";

    fn token(email: Option<&str>, verified: EmailVerified) -> IdToken {
        IdToken {
            subject: "ann".into(),
            email: email.map(str::to_owned),
            email_verified: verified,
            auth_time: None,
            session_id: None,
            tenant_id: None,
            object_id: None,
        }
    }

    fn account(address: &str, disabled: bool) -> Account {
        Account { user_id: Uuid::from_u128(1).into(), address: Address::parse(address).unwrap(), disabled }
    }

    fn judged(
        email: Option<&str>,
        verified: EmailVerified,
        linked: Option<Account>,
        by_address: Option<Account>,
    ) -> Result<IdentityVerdict, IdentityError> {
        let identity = Identity::of("https://id.acme.test", &token(email, verified)).unwrap();
        judge(&identity, &IdentityFacts { domains: &["acme.test".to_owned()], linked, by_address })
    }

    #[test]
    fn only_a_verified_address_of_the_domains_creates_or_links_so_04() {
        let ann = Address::parse("ann@acme.test").unwrap();
        for verified in [EmailVerified::True, EmailVerified::Absent] {
            let created = judged(Some("Ann@ACME.test"), verified, None, None);
            assert_eq!(created, Ok(IdentityVerdict::Create(ann.clone())));
            let linked = judged(Some("ann@acme.test"), verified, None, Some(account("ann@acme.test", false)));
            assert_eq!(linked, Ok(IdentityVerdict::Link(ann.clone())));
            for foreign in ["ann@other.test", "ann@sub.acme.test", "ann@acme.test.evil.test", "ann@notacme.test"] {
                for known in [None, Some(account(foreign, false))] {
                    assert_eq!(judged(Some(foreign), verified, None, known), Err(IdentityError::ForeignDomain));
                }
            }
        }
        let other = judged(Some("ann@acme.test"), EmailVerified::Other, None, None);
        assert_eq!(other, Err(IdentityError::UnverifiedAddress));
        for none in [None, Some("ann"), Some("ann@"), Some("ann@acme.test, eve@evil.test")] {
            assert_eq!(judged(none, EmailVerified::True, None, None), Err(IdentityError::NoAddress));
        }
    }

    #[test]
    fn a_known_identity_is_its_user_whatever_the_address_says_so_05() {
        let ann = account("ann@acme.test", false);
        for email in [Some("ann@acme.test"), Some("maria@acme.test"), Some("ann@other.test"), None] {
            let judged = |verified| judged(email, verified, Some(ann.clone()), Some(account("maria@acme.test", false)));
            for verified in [EmailVerified::True, EmailVerified::Absent] {
                assert_eq!(judged(verified), Ok(IdentityVerdict::SignIn(ann.user_id)));
            }
            assert_eq!(judged(EmailVerified::Other), Err(IdentityError::UnverifiedAddress), "{email:?}");
        }
    }

    #[test]
    fn a_disabled_user_is_not_signed_in_so_06() {
        let disabled = account("ann@acme.test", true);
        let known = judged(Some("ann@acme.test"), EmailVerified::True, Some(disabled.clone()), None);
        assert_eq!(known, Err(IdentityError::AccountDisabled));
        let new = judged(Some("ann@acme.test"), EmailVerified::True, None, Some(disabled));
        assert_eq!(new, Err(IdentityError::AccountDisabled));
    }

    #[test]
    fn a_connection_decides_about_accounts_of_its_domains_only_so_15() {
        for disabled in [false, true] {
            let moved = account("ann@moved.test", disabled);
            let verdict = judged(Some("ann@acme.test"), EmailVerified::True, Some(moved), None);
            assert_eq!(verdict, Err(IdentityError::ForeignDomain));
        }
    }

    #[test]
    fn entra_users_are_their_tenant_and_object_so_12() {
        let issuer = format!("https://login.microsoftonline.com/{TENANT}/v2.0");
        let of = |tenant: Option<&str>, object: Option<&str>| {
            let named = |text: Option<&str>| text.map(str::to_owned);
            let token = IdToken {
                tenant_id: named(tenant),
                object_id: named(object),
                ..token(Some("ann@acme.test"), EmailVerified::Absent)
            };
            Identity::of(&issuer, &token).map(|identity| identity.subject)
        };
        assert_eq!(of(Some(TENANT), Some("o")), Ok(format!("{TENANT}/o")));
        assert_eq!(of(Some(&TENANT.to_uppercase()), Some("o")), Ok(format!("{TENANT}/o")));
        for (tenant, object) in [(None, Some("o")), (Some(TENANT), None), (Some("other"), Some("o")), (None, None)] {
            assert_eq!(of(tenant, object), Err(IdentityError::OtherTenant));
        }
        let elsewhere = Identity::of("https://id.acme.test", &token(None, EmailVerified::Absent)).unwrap();
        assert_eq!(elsewhere.subject, "ann");
    }

    #[test]
    fn a_provider_that_was_told_to_ask_again_must_have_asked() {
        let at = |seconds: i64| later(NOW, seconds);
        assert_eq!(auth_time(None, None, NOW), Ok(None));
        assert_eq!(auth_time(Some(at(-500)), None, NOW), Ok(Some(at(-500))));
        assert_eq!(auth_time(Some(at(500)), None, NOW), Ok(Some(NOW)), "a time in the future counts as now");
        assert_eq!(auth_time(None, Some(at(-10)), NOW), Ok(Some(NOW)));
        assert_eq!(auth_time(Some(at(-5)), Some(at(-10)), NOW), Ok(Some(at(-5))));
        assert_eq!(auth_time(Some(at(-70)), Some(at(-10)), NOW), Ok(Some(at(-10))), "the provider's clock is slow");
        assert_eq!(auth_time(Some(at(-71)), Some(at(-10)), NOW), Err(NotFresh));
    }

    #[test]
    fn sessions_and_tokens_end_after_their_own_times() {
        assert_eq!(session_end(NOW, 12), later(NOW, 12 * 3_600));
        assert_eq!(tokens_end(NOW, 30), later(NOW, 30 * 86_400));
    }
}
