//! Revoking one session, one browser or one CLI token of a user, with what it made.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{BrowserSessionId, CliTokenId, GrantId, UserId},
};
use service_rules::lineage::Event;

use super::{SupportError, SupportOperator};
use crate::{
    app::App,
    flows::revocation::{
        self, RevocationTransaction,
        lineage::{Cause, LineageRevocation, RevokedLineage},
    },
    store,
};

/// A credential that an operator revokes.
#[derive(Clone, Copy)]
enum Credential {
    Session(GrantId),
    Browser(BrowserSessionId),
    CliToken(CliTokenId),
}

/// Revokes a session, `grant_…`, a browser, `sess_…`, or a CLI token, `clit_…`. A session that looks stolen may have made other
/// credentials, so recent ones are revoked with it. Returns them.
pub async fn revoke(app: &App, operator: &SupportOperator, id: &str) -> Result<RevokedLineage, SupportError> {
    let credential = parse(id).ok_or_else(|| SupportError::NotAName(id.to_owned()))?;
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let user_id = find_owner(&transaction, credential).await?;
    store::users::lock(transaction.db(), user_id).await?;
    let reason = Reason::RevokedByAdmin;
    let (revoked, event) = match credential {
        Credential::Session(id) => (transaction.revoke_grant(id, reason).await?, EventName::SessionEnded),
        Credential::CliToken(id) => (transaction.revoke_cli_token(id, reason).await?, EventName::CliTokenRevoked),
        Credential::Browser(id) => {
            (store::browser_sessions::delete_one(transaction.db(), id, user_id).await?, EventName::SessionEnded)
        }
    };
    if !revoked {
        return Err(SupportError::NotFound);
    }
    let event = operator.event(event, now, json!({ "reason": reason.as_str() }))?;
    event.user(user_id).subject(id).insert(transaction.db()).await?;
    let cause = Cause::Operator(&operator.0);
    let lineage = LineageRevocation { cause, user_id, event: Event::SingledOutByOperator };
    let made = lineage.revoke(&mut transaction, vec![id.to_owned()]).await?;
    revocation::finish(app, transaction).await?;
    Ok(made)
}

fn parse(id: &str) -> Option<Credential> {
    let session = id.parse().map(Credential::Session);
    let session = session.or_else(|_| id.parse().map(Credential::Browser));
    session.or_else(|_| id.parse().map(Credential::CliToken)).ok()
}

async fn find_owner(transaction: &RevocationTransaction<'_>, credential: Credential) -> Result<UserId, SupportError> {
    let db = transaction.db();
    let owner = match credential {
        Credential::Session(id) => store::grants::find(db, id).await?.map(|grant| grant.user_id),
        Credential::CliToken(id) => store::cli_tokens::find(db, id).await?.map(|token| token.user_id),
        Credential::Browser(id) => store::browser_sessions::find_user(db, id).await?,
    };
    owner.ok_or(SupportError::NotFound)
}
