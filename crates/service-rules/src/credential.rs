//! What a request is made with, once it is known to be genuine: whoever it speaks for, and how far it reaches.

use service_api::{
    Timestamp,
    ids::{CliTokenId, GrantId, UserId},
    oauth::is_first_party,
    scope::{Scope, Scopes},
};

use crate::{bearer::Refusal, space::Reach};

#[derive(Clone, Debug)]
pub struct Credential {
    pub kind: Kind,
    pub user_id: UserId,
    pub client_id: String,
    pub scopes: Scopes,
    pub reach: Reach,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// How it came to be, which decides what it may do beside its scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By signing in; the session it is part of.
    Session(GrantId),
    /// Made by somebody who had signed in, for automation.
    CliToken(CliTokenId),
}

/// What only somebody who signed in may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSignedIn;

impl Credential {
    /// The session that one of our own clients has. A token for automation has none, and another's client may neither
    /// make credentials nor end sessions.
    pub fn session(&self) -> Result<GrantId, NotSignedIn> {
        match self.kind {
            Kind::Session(id) if is_first_party(&self.client_id) => Ok(id),
            Kind::Session(_) | Kind::CliToken(_) => Err(NotSignedIn),
        }
    }

    /// Whether it may do what needs this scope.
    pub fn check_scope(&self, needed: Scope) -> Result<(), Refusal> {
        if self.scopes.allow(needed) { Ok(()) } else { Err(Refusal::LacksScope(needed)) }
    }

    /// Whether something with these scopes would not be more than it is itself.
    pub fn check_covers(&self, scopes: Scopes) -> Result<(), Refusal> {
        self.scopes.first_beyond(scopes).map_or(Ok(()), |beyond| Err(Refusal::LacksScope(beyond)))
    }
}

#[cfg(test)]
mod tests {
    use service_api::scope::Action;
    use uuid::Uuid;

    use super::*;

    const READ: Scope = Scope::any(Action::Read);
    const WRITE: Scope = Scope::any(Action::Write);

    fn credential(kind: Kind, scopes: &str) -> Credential {
        Credential {
            kind,
            user_id: Uuid::from_u128(1).into(),
            client_id: "service-cli".into(),
            scopes: Scopes::parse(scopes),
            reach: Reach::Anywhere(None),
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_live_token_opens_what_its_scope_allows() {
        for kind in [Kind::Session(Uuid::from_u128(2).into()), Kind::CliToken(Uuid::from_u128(3).into())] {
            assert_eq!(credential(kind, "read").check_scope(READ), Ok(()));
            assert_eq!(credential(kind, "read").check_scope(WRITE), Err(Refusal::LacksScope(WRITE)));
            assert_eq!(credential(kind, "read").check_covers(Scopes::parse("projects:read")), Ok(()));
            assert_eq!(
                credential(kind, "read").check_covers(Scopes::parse("read write")),
                Err(Refusal::LacksScope(WRITE))
            );
        }
    }

    #[test]
    fn only_a_session_is_signed_in_cl_01() {
        let id = Uuid::from_u128(2).into();
        assert_eq!(credential(Kind::Session(id), "").session(), Ok(id));
        assert_eq!(credential(Kind::CliToken(Uuid::from_u128(3).into()), "read").session(), Err(NotSignedIn));
    }
}
