//! Where somebody is signed in, and what happened.

use service_api::{
    audit_events::AuditEvent,
    endpoints,
    ids::GrantId,
    page::Page,
    sessions::{OthersEnded, Session},
    token::AccessToken,
};

use crate::{Client, Error};

impl Client {
    pub async fn list_sessions(&self, token: &AccessToken, cursor: Option<&str>) -> Result<Page<Session>, Error> {
        self.call(&endpoints::LIST_SESSIONS, &[]).bearer(token).query(&[("cursor", cursor)]).answer().await
    }

    pub async fn end_session(&self, token: &AccessToken, id: GrantId) -> Result<(), Error> {
        self.call(&endpoints::END_SESSION, &[&id.to_string()]).bearer(token).done().await
    }

    /// Ends every session of the user but the one that the token belongs to.
    pub async fn end_other_sessions(&self, token: &AccessToken) -> Result<OthersEnded, Error> {
        self.call(&endpoints::END_OTHER_SESSIONS, &[]).bearer(token).answer().await
    }

    /// What happened, filtered by `query`: the parameters that the endpoint names.
    pub async fn list_audit_events(
        &self,
        token: &AccessToken,
        query: &[(&str, Option<&str>)],
    ) -> Result<Page<AuditEvent>, Error> {
        self.call(&endpoints::LIST_AUDIT_EVENTS, &[]).bearer(token).query(query).answer().await
    }
}
