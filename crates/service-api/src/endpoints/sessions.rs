//! Sessions and consents.

use super::{
    Access::{RecentSignIn, SignedIn},
    operation::{delete, get, operations, post},
};
use crate::{
    consents::Consent,
    errors::ErrorCode::NotFound,
    page::Page,
    scope::{Action, Resource, Scope},
    secure_account::{SecureAccount, SecuredAccount},
    sessions::{OthersEnded, SessionPage},
};

const READ: Scope = Scope::of(Action::Read, Resource::Sessions);
const WRITE: Scope = Scope::of(Action::Write, Resource::Sessions);

operations! {
    /// List sessions
    LIST_SESSIONS(Sessions, "listSessions"): () => SessionPage =
        get("/v1/sessions", SignedIn(READ)).query(&["limit", "cursor"]).returns(200);

    /// Revoke a session (idempotent)
    REVOKE_SESSION(Sessions, "endSession"): () => () =
        delete("/v1/sessions/{sessionId}", SignedIn(WRITE)).query(&["made"]).fails(&[NotFound]);

    /// Revoke other sessions
    REVOKE_OTHER_SESSIONS(Sessions, "endOtherSessions"): () => OthersEnded =
        post("/v1/sessions/revoke-others", SignedIn(WRITE)).query(&["made"]).returns(200);

    /// Secure your account: revoke everything but this session
    SECURE_ACCOUNT(Sessions, "secureAccount"): SecureAccount => SecuredAccount =
        post("/v1/account/secure", RecentSignIn(WRITE)).takes().returns(200).note(
            "For an account that someone else got into. Sessions, browsers, CLI tokens, MCP tokens, app access and pending \
             invitations are revoked, and devices count as new. Passkeys that were added in the last 7 days are removed, unless \
             `keepPasskeys` lists those that stay. Recovery codes are removed, codes that wait to be entered no longer work, and a \
             pending removal of all passkeys is stopped.",
        );

    /// List the apps that have access to your account
    LIST_CONSENTS(Sessions, "listConsents"): () => Page<Consent> =
        get("/v1/consents", SignedIn(READ)).query(&["limit", "cursor"]).returns(200);

    /// Remove an app's access (idempotent)
    WITHDRAW_CONSENT(Sessions, "withdrawConsent"): () => () =
        delete("/v1/consents/{consentId}", SignedIn(WRITE)).fails(&[NotFound]);
}
