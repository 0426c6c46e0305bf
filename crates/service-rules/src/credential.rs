//! The credential of a request, once it is verified: the user it authenticates, and what it authorizes.

use service_api::{
    Timestamp,
    ids::{CliTokenId, GrantId, UserId},
    oauth::is_first_party,
    scope::{Scope, Scopes},
};

use crate::{bearer::BearerError, space::SpaceAccess};

/// A verified access token or CLI token.
#[derive(Clone, Debug)]
pub struct Credential {
    pub kind: CredentialKind,
    pub user_id: UserId,
    pub client_id: String,
    pub scopes: Scopes,
    pub space_access: SpaceAccess,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Which kind of credential it is, which restricts it further than its scopes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CredentialKind {
    /// An access token of this session.
    Session(GrantId),
    /// A CLI token, which a signed-in user created.
    CliToken(CliTokenId),
}

/// The action needs a user session of a first-party client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the credential is not a user session of a first-party client")]
pub struct UserSessionRequired;

impl Credential {
    /// The user session of a first-party client. A CLI token has none, and a third-party client may neither create
    /// credentials nor revoke sessions.
    ///
    /// # Errors
    /// [`UserSessionRequired`].
    pub fn user_session(&self) -> Result<GrantId, UserSessionRequired> {
        match self.kind {
            CredentialKind::Session(id) if is_first_party(&self.client_id) => Ok(id),
            CredentialKind::Session(_) | CredentialKind::CliToken(_) => Err(UserSessionRequired),
        }
    }

    /// The scopes that count. For a CLI token and a third-party client, `read` and `write` do not include the account
    /// itself: its scopes have to be named.
    #[must_use]
    pub fn effective_scopes(&self) -> Scopes {
        if self.user_session().is_ok() { self.scopes } else { self.scopes.written_out() }
    }

    /// Checks that the credential has a scope.
    ///
    /// # Errors
    /// [`BearerError::InsufficientScope`].
    pub fn check_scope(&self, needed: Scope) -> Result<(), BearerError> {
        if self.effective_scopes().allow(needed) { Ok(()) } else { Err(BearerError::InsufficientScope(needed)) }
    }
}

/// Checks that a credential with the wanted scopes would not have more rights than a session with the held ones.
///
/// # Errors
/// [`BearerError::InsufficientScope`] with the first wanted scope that the session lacks.
pub fn check_covers(held: Scopes, wanted: Scopes) -> Result<(), BearerError> {
    held.first_beyond(wanted).map_or(Ok(()), |beyond| Err(BearerError::InsufficientScope(beyond)))
}

#[cfg(test)]
mod tests {
    use service_api::scope::Action;
    use uuid::Uuid;

    use super::*;

    const READ: Scope = Scope::any(Action::Read);
    const WRITE: Scope = Scope::any(Action::Write);

    fn credential(kind: CredentialKind, scopes: &str) -> Credential {
        Credential {
            kind,
            user_id: Uuid::from_u128(1).into(),
            client_id: "service-cli".into(),
            scopes: Scopes::parse(scopes),
            space_access: SpaceAccess::Anywhere(None),
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_live_token_opens_what_its_scope_allows() {
        for kind in
            [CredentialKind::Session(Uuid::from_u128(2).into()), CredentialKind::CliToken(Uuid::from_u128(3).into())]
        {
            assert_eq!(credential(kind, "read").check_scope(READ), Ok(()));
            assert_eq!(credential(kind, "read").check_scope(WRITE), Err(BearerError::InsufficientScope(WRITE)));
        }
    }

    #[test]
    fn nothing_is_created_with_more_scopes_than_its_maker_has() {
        let check = |held, wanted| check_covers(Scopes::parse(held), Scopes::parse(wanted));
        assert_eq!(check("read", "projects:read"), Ok(()));
        assert_eq!(check("read write", "read write"), Ok(()));
        assert_eq!(check("read", "read write"), Err(BearerError::InsufficientScope(WRITE)));
        assert!(check("projects:read", "read").is_err());
    }

    #[test]
    fn plain_scopes_of_others_leave_the_account_out_rv_16() {
        use service_api::scope::Resource;
        let audit = Scope::of(Action::Read, Resource::Audit);
        let session = CredentialKind::Session(Uuid::from_u128(2).into());
        let own = credential(session, "read");
        let others = Credential { client_id: "client_x".into(), ..credential(session, "read") };
        let token = credential(CredentialKind::CliToken(Uuid::from_u128(3).into()), "read");
        assert_eq!(own.check_scope(audit), Ok(()));
        for limited in [others, token] {
            assert_eq!(limited.check_scope(audit), Err(BearerError::InsufficientScope(audit)));
            let named = Credential { scopes: Scopes::parse("read audit:read"), ..limited };
            assert_eq!(named.check_scope(audit), Ok(()));
        }
    }

    #[test]
    fn only_a_session_is_signed_in_cl_01() {
        let id = Uuid::from_u128(2).into();
        assert_eq!(credential(CredentialKind::Session(id), "").user_session(), Ok(id));
        assert_eq!(
            credential(CredentialKind::CliToken(Uuid::from_u128(3).into()), "read").user_session(),
            Err(UserSessionRequired)
        );
    }
}
