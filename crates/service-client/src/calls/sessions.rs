//! Sessions, consents and audit events.

use service_api::{
    audit_events::AuditEvent,
    consents::Consent,
    endpoints,
    ids::{BrowserSessionId, ConsentId, GrantId, PasskeyId},
    page::Page,
    secure_account::{SecureAccount, SecuredAccount},
    sessions::{MadeTreatment, OthersEnded, SessionPage},
    token::AccessToken,
};

use crate::{Client, Error};

/// Sessions, consents and audit events.
///
/// # Errors
/// [`Error::Refused`] with `not_found` if the user has no such session or consent, with `forbidden` for a token that does not
/// belong to a user session.
impl Client {
    /// Lists the active sessions of the user and, on the first page, the browsers that the user is signed in with.
    pub async fn list_sessions(&self, token: &AccessToken, cursor: Option<&str>) -> Result<SessionPage, Error> {
        self.call(&endpoints::LIST_SESSIONS, &[]).bearer(token).query(&[("cursor", cursor)]).send().await
    }

    /// Revokes a session of the user. `made` says what happens to the tokens and invitations that it made.
    pub async fn end_session(&self, token: &AccessToken, id: GrantId, made: MadeTreatment) -> Result<(), Error> {
        let query = [("made", Some(made.as_str()))];
        self.call(&endpoints::REVOKE_SESSION, &[&id.to_string()]).bearer(token).query(&query).send().await
    }

    /// Signs a browser of the user out. `made` says what happens to the tokens and invitations that were made with it.
    pub async fn end_browser(
        &self,
        token: &AccessToken,
        id: BrowserSessionId,
        made: MadeTreatment,
    ) -> Result<(), Error> {
        let query = [("made", Some(made.as_str()))];
        self.call(&endpoints::REVOKE_SESSION, &[&id.to_string()]).bearer(token).query(&query).send().await
    }

    /// Revokes every other session of the user. `made` says what happens to the tokens and invitations that they made.
    pub async fn end_other_sessions(&self, token: &AccessToken, made: MadeTreatment) -> Result<OthersEnded, Error> {
        let query = [("made", Some(made.as_str()))];
        self.call(&endpoints::REVOKE_OTHER_SESSIONS, &[]).bearer(token).query(&query).send().await
    }

    /// Revokes everything but this session: other sessions, browsers, tokens, app access, invitations, and passkeys that do not
    /// stay. `keep_passkeys`: `None` keeps those that were added more than 7 days ago. Fails with
    /// `insufficient_user_authentication` if the user signed in more than 15 minutes ago.
    pub async fn secure_account(
        &self,
        token: &AccessToken,
        keep_passkeys: Option<Vec<PasskeyId>>,
    ) -> Result<SecuredAccount, Error> {
        self.call_with(&endpoints::SECURE_ACCOUNT, &[], &SecureAccount { keep_passkeys }).bearer(token).send().await
    }

    /// Lists the consents of the user for third-party clients.
    pub async fn list_consents(&self, token: &AccessToken, cursor: Option<&str>) -> Result<Page<Consent>, Error> {
        self.call(&endpoints::LIST_CONSENTS, &[]).bearer(token).query(&[("cursor", cursor)]).send().await
    }

    /// Withdraws a consent and revokes the sessions of its client for the same resource.
    pub async fn withdraw_consent(&self, token: &AccessToken, id: ConsentId) -> Result<(), Error> {
        self.call(&endpoints::WITHDRAW_CONSENT, &[&id.to_string()]).bearer(token).send().await
    }

    /// Lists audit events, newest first. `query` has the parameters of the endpoint: `workspaceId`, `event`, `userId`, `since`,
    /// `until`, `limit`, `cursor`.
    pub async fn list_audit_events(
        &self,
        token: &AccessToken,
        query: &[(&str, Option<&str>)],
    ) -> Result<Page<AuditEvent>, Error> {
        self.call(&endpoints::LIST_AUDIT_EVENTS, &[]).bearer(token).query(query).send().await
    }
}
