//! The user who acts in a flow, and by what.

use std::fmt;

use serde_json::Value;
use service_api::{
    audit_events::EventName,
    ids::{BrowserSessionId, CliTokenId, GrantId, UserId},
    oauth::SERVICE_WEB,
    scope::Scopes,
};
use service_rules::{
    Timestamp,
    credential::{Credential, CredentialKind},
    space::SpaceAccess,
};

use crate::{
    flows::{RequestMeta, sign_in::browser_session::Browser},
    store::audit_events::NewAuditEvent,
};

/// An authenticated user, the client that acts for them, and what it may do. Extractors of `http` make one from a
/// credential that they have checked.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    pub user_id: UserId,
    pub client_id: &'a str,
    pub scopes: Scopes,
    pub space_access: SpaceAccess,
    pub basis: Basis,
    pub meta: &'a RequestMeta,
}

/// The credential that the user acts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// An access token of this session.
    Session(GrantId),
    CliToken(CliTokenId),
    /// The cookie of a browser.
    Browser {
        id: BrowserSessionId,
        /// When the user authenticated, if that is known.
        auth_time: Option<Timestamp>,
    },
    /// No credential: an operator reads what is stored about the user. It changes nothing.
    Operator,
}

/// The id of the session, CLI token or browser, as `made_by` and audit events record it.
impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => id.fmt(f),
            Self::CliToken(id) => id.fmt(f),
            Self::Browser { id, .. } => id.fmt(f),
            Self::Operator => f.write_str("operator"),
        }
    }
}

impl<'a> Actor<'a> {
    /// The user of an access token or CLI token.
    #[must_use]
    pub fn by_token(credential: &'a Credential, meta: &'a RequestMeta) -> Self {
        let Credential { user_id, client_id, scopes, space_access, .. } = credential;
        let basis = match credential.kind {
            CredentialKind::Session(id) => Basis::Session(id),
            CredentialKind::CliToken(id) => Basis::CliToken(id),
        };
        Self { user_id: *user_id, client_id, scopes: *scopes, space_access: *space_access, basis, meta }
    }

    /// The user who is signed in with a browser, if any.
    #[must_use]
    pub fn in_browser(browser: &Browser, meta: &'a RequestMeta) -> Option<Self> {
        let person = browser.person.as_ref()?;
        Some(Self {
            user_id: person.user_id,
            client_id: SERVICE_WEB,
            scopes: Scopes::READ_WRITE,
            space_access: SpaceAccess::Anywhere(None),
            basis: Basis::Browser { id: browser.id, auth_time: person.auth_time },
            meta,
        })
    }

    /// The user whose account an operator reads.
    pub(super) const fn read_by_operator(user_id: UserId, meta: &'a RequestMeta) -> Self {
        let space_access = SpaceAccess::Anywhere(None);
        Self { user_id, client_id: SERVICE_WEB, scopes: Scopes::READ, space_access, basis: Basis::Operator, meta }
    }

    /// An event that this user caused, through this client.
    pub(crate) fn event(&self, name: EventName, now: Timestamp, details: Value) -> anyhow::Result<NewAuditEvent<'a>> {
        Ok(self.meta.event(name, now, details)?.user(self.user_id).client(self.client_id))
    }

    /// An event about this user that names no client.
    pub(crate) fn user_event<'e>(
        &self,
        name: EventName,
        now: Timestamp,
        details: Value,
    ) -> anyhow::Result<NewAuditEvent<'e>> {
        Ok(self.meta.event(name, now, details)?.user(self.user_id))
    }
}
