//! What a request is made with, once it is known to be genuine: whoever it speaks for, and how far it reaches.

use service_api::{
    Timestamp,
    ids::{CliTokenId, GrantId, UserId},
    scope::Scopes,
};

use crate::space::Reach;

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
    /// The session; a token for automation has none, and may not do what needs one.
    pub fn session(&self) -> Result<GrantId, NotSignedIn> {
        match self.kind {
            Kind::Session(id) => Ok(id),
            Kind::CliToken(_) => Err(NotSignedIn),
        }
    }
}
