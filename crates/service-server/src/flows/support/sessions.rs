//! Revoking one session, one browser or one CLI token of a user, with what it made.

use serde::Serialize;
use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{BrowserSessionId, CliTokenId, GrantId, UserId, WorkspaceId},
};
use service_rules::{lineage::Event, rotation};

use super::{SupportError, SupportOperator};
use crate::{
    app::App,
    flows::revocation::{
        self, RevocationTransaction,
        lineage::{Cause, LineageRevocation},
    },
    store::{self, lineage::LineageItem},
};

/// A credential that was revoked, as `serviced admin session revoke` prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevokedCredential {
    pub revoked: String,
    /// What it made in the last 31 days.
    pub revoked_too: Vec<String>,
    /// What it made before. It is still valid.
    pub kept: Vec<String>,
}

/// A credential that an operator revokes.
#[derive(Clone, Copy)]
enum Credential {
    Session(GrantId),
    Browser(BrowserSessionId),
    CliToken(CliTokenId),
}

/// Revokes a session, `grant_…`, a browser, `sess_…`, or a CLI token, `clit_…`. A session that looks stolen may have made other
/// credentials, so recent ones are revoked with it, also if the session itself is over. Returns their ids.
pub async fn revoke(app: &App, operator: &SupportOperator, id: &str) -> Result<RevokedCredential, SupportError> {
    let credential = parse(id).ok_or_else(|| SupportError::NotAName(id.to_owned()))?;
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let Some(owner) = find_owner(&transaction, credential).await? else {
        drop(transaction);
        return Err(operator.record_not_found(app.database.begin().await?, now, "session").await?);
    };
    let user_id = owner.user;
    store::users::lock(transaction.db(), user_id).await?;
    let reason = Reason::RevokedByAdmin;
    let (revoked, event) = match credential {
        Credential::Session(id) => (transaction.revoke_grant(id, reason).await?, EventName::SessionEnded),
        Credential::CliToken(id) => (transaction.revoke_cli_token(id, reason).await?, EventName::CliTokenRevoked),
        Credential::Browser(id) => {
            (store::browser_sessions::delete_one(transaction.db(), id, user_id).await?, EventName::SessionEnded)
        }
    };
    let cause = Cause::Operator(&operator.0);
    let lineage = LineageRevocation { cause, user_id, event: Event::SingledOutByOperator };
    let made = lineage.revoke(&mut transaction, vec![id.to_owned()]).await?;
    if !revoked && made.revoked.is_empty() {
        drop(transaction);
        return Err(operator.record_not_found(app.database.begin().await?, now, "session").await?);
    }
    let details = json!({ "reason": reason.as_str(), "wasOver": !revoked });
    let event = operator.event(event, now, details)?.user(user_id).in_workspace(owner.workspace).subject(id);
    match &owner.client {
        Some(client_id) => event.client(client_id).insert(transaction.db()).await?,
        None => event.insert(transaction.db()).await?,
    }
    store::consents::delete_without_sessions(transaction.db(), user_id, now, rotation::idle_since(now)).await?;
    revocation::finish(app, transaction).await?;
    let ids = |items: Vec<LineageItem>| items.into_iter().map(|item| item.id).collect();
    Ok(RevokedCredential { revoked: id.to_owned(), revoked_too: ids(made.revoked), kept: ids(made.kept) })
}

/// Whose a credential is, and what events name beside it.
struct CredentialOwner {
    user: UserId,
    client: Option<String>,
    workspace: Option<WorkspaceId>,
}

fn parse(id: &str) -> Option<Credential> {
    let session = id.parse().map(Credential::Session);
    let session = session.or_else(|_| id.parse().map(Credential::Browser));
    session.or_else(|_| id.parse().map(Credential::CliToken)).ok()
}

async fn find_owner(
    transaction: &RevocationTransaction<'_>,
    credential: Credential,
) -> Result<Option<CredentialOwner>, SupportError> {
    let db = transaction.db();
    Ok(match credential {
        Credential::Session(id) => store::grants::find(db, id).await?.map(|grant| CredentialOwner {
            user: grant.user_id,
            client: Some(grant.client.id),
            workspace: grant.workspace_id,
        }),
        Credential::CliToken(id) => store::cli_tokens::find(db, id).await?.map(|token| CredentialOwner {
            user: token.user_id,
            client: None,
            workspace: token.found.workspace_id,
        }),
        Credential::Browser(id) => store::browser_sessions::find_user(db, id).await?.map(|user| CredentialOwner {
            user,
            client: None,
            workspace: None,
        }),
    })
}
