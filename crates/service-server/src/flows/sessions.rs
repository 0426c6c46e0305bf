//! The sessions of a user, and revoking them (`/v1/sessions`).

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{GrantId, Id as _},
    page::Page,
    sessions::{MadeTreatment, OthersEnded, Session},
};
use service_rules::{lineage::Event, rotation};

use crate::{
    app::App,
    database,
    flows::{
        Actor,
        actor::Basis,
        oauth::consents,
        revocation::{RevocationTransaction, lineage::LineageRevocation},
    },
    pagination::{InvalidCursor, List, PageRequest},
    store::{
        self,
        grants::{GrantQuery, GrantSelection},
    },
};

/// Why sessions were not listed or revoked.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("the user has no such session")]
    NotFound,
    #[error(transparent)]
    InvalidCursor(#[from] InvalidCursor),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Lists the user's live sessions, the newest first.
pub async fn list(app: &App, actor: &Actor<'_>, page: PageRequest<'_>) -> Result<Page<Session>, SessionError> {
    let now = app.clock.now();
    let owner = actor.user_id.to_string();
    let list = List { root_keys: &app.root_keys, of: &[b"sessions", owner.as_bytes()], limit: page.limit };
    let before = list.behind(page.cursor)?.map(GrantId::from);
    let listed = GrantQuery { now, used_after: rotation::idle_since(now), before, limit: list.rows() };
    let db = app.database.connect().await?;
    let mut data = store::grants::list_by_user(&db, actor.user_id, &listed).await?;
    for session in &mut data {
        session.current = actor.basis == Basis::Session(session.id);
    }
    Ok(list.page(data, |session| session.id.uuid()))
}

/// Revokes a session of the user. Revoking it again changes nothing. What the session made is treated as the request says.
pub async fn revoke(app: &App, actor: &Actor<'_>, id: &str, made: MadeTreatment) -> Result<(), SessionError> {
    let now = app.clock.now();
    let user_id = actor.user_id;
    let id: GrantId = id.parse().map_err(|_| SessionError::NotFound)?;
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    store::users::lock(transaction.db(), user_id).await?;
    let grant = store::grants::find(transaction.db(), id).await?;
    let grant = grant.filter(|grant| grant.user_id == user_id).ok_or(SessionError::NotFound)?;
    if transaction.revoke_grant(id, Reason::RevokedByUser).await? {
        let event = actor.user_event(EventName::SessionEnded, now, json!({ "by": actor.basis.to_string() }))?;
        event.subject(id).insert(transaction.db()).await?;
        let lineage = LineageRevocation { meta: actor.meta, user_id, event: Event::RevokedByUser(made) };
        lineage.revoke(&mut transaction, vec![id.to_string()]).await?;
        consents::withdraw_if_last(transaction.db(), actor.meta, user_id, &grant.client, now).await?;
    }
    Ok(transaction.commit().await?)
}

/// Revokes every session of the user except `current`. What they made is treated as the request says.
pub async fn revoke_others(
    app: &App,
    actor: &Actor<'_>,
    current: GrantId,
    made: MadeTreatment,
) -> Result<OthersEnded, SessionError> {
    let now = app.clock.now();
    let user_id = actor.user_id;
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    // A concurrent sign-in commits before this lock is taken, or starts after this transaction.
    store::users::lock(transaction.db(), user_id).await?;
    let others =
        transaction.revoke_grants_of_user(user_id, GrantSelection::Except(current), Reason::RevokedByUser).await?;
    let lineage = LineageRevocation { meta: actor.meta, user_id, event: Event::RevokedByUser(made) };
    let browsers = store::browser_sessions::delete_by_user(transaction.db(), user_id, None).await?;
    let makers = others.iter().map(ToString::to_string).chain(browsers.iter().map(ToString::to_string));
    lineage.revoke(&mut transaction, makers.collect()).await?;
    let consents =
        store::consents::delete_without_sessions(transaction.db(), user_id, now, rotation::idle_since(now)).await?;
    if !others.is_empty() {
        let details = json!({ "by": current, "ended": others.len(), "consents": consents });
        actor.user_event(EventName::SessionOthersEnded, now, details)?.insert(transaction.db()).await?;
    }
    transaction.commit().await?;
    Ok(OthersEnded { ended: others.len() as u64 })
}
