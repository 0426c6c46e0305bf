//! The consents that a user gave to third-party clients: lists and withdraws them (`/v1/consents`, the account page).

use serde_json::json;
use service_api::{
    audit_events::EventName,
    consents::Consent,
    errors::Reason,
    ids::{ConsentId, Id as _, UserId},
    page::Page,
};
use service_rules::{
    Timestamp,
    clients::{Client, ClientKind},
    lifetimes, rotation,
    signing::later,
};

use crate::{
    app::App,
    crypto::random,
    database::{self, Connection},
    flows::{RequestMeta, revocation::RevocationTransaction},
    pagination::{InvalidCursor, List},
    store::{
        self,
        audit_events::NewAuditEvent,
        consents::{ConsentsAt, EndedConsent},
        deletions::ContentKey,
    },
};

/// Consents that are deleted in one transaction.
const EXPIRED_PER_TRANSACTION: i64 = 100;

/// Why consents are not listed or withdrawn.
#[derive(Debug, thiserror::Error)]
pub enum ConsentsError {
    #[error("the user has no consent with this id")]
    NotFound,
    #[error(transparent)]
    InvalidCursor(#[from] InvalidCursor),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Which consents count now. The others have expired, whether or not they were deleted yet.
#[must_use]
pub fn counting_at(now: Timestamp) -> ConsentsAt {
    ConsentsAt { now, used_since: later(now, -lifetimes::UNUSED_CONSENT) }
}

/// Lists the consents of a user, the latest first.
pub async fn list(
    app: &App,
    user_id: UserId,
    limit: u16,
    cursor: Option<&str>,
) -> Result<Page<Consent>, ConsentsError> {
    let owner = user_id.to_string();
    let list = List { root_keys: &app.root_keys, of: &[b"consents", owner.as_bytes()], limit };
    let before = list.behind(cursor)?.map(ConsentId::from);
    let at = counting_at(app.clock.now());
    let db = app.database.connect().await?;
    let data = store::consents::list_by_user(&db, user_id, before, at, list.rows()).await?;
    Ok(list.page(data, |consent| consent.id.uuid()))
}

/// Withdraws a consent and revokes every session that its client has of this user for the same resource. `by` names the
/// session or browser that sends the request.
pub async fn withdraw(app: &App, meta: &RequestMeta, user_id: UserId, by: &str, id: &str) -> Result<(), ConsentsError> {
    let now = app.clock.now();
    let id: ConsentId = id.parse().map_err(|_| ConsentsError::NotFound)?;
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    // A concurrent exchange of a code opens its session before this, or finds no consent after it.
    store::users::lock(transaction.db(), user_id).await?;
    // A caller whose first response was lost repeats the request. This commit is confirmed only if the first one is.
    if withdraw_locked(&mut transaction, meta, user_id, by, id).await?
        || store::deletions::touch(transaction.db(), content_key(user_id, id)).await?
    {
        return Ok(transaction.commit().await?);
    }
    Err(ConsentsError::NotFound)
}

fn content_key(user_id: UserId, id: ConsentId) -> ContentKey {
    ContentKey { space_id: user_id.uuid(), kind: ConsentId::KIND, id: id.uuid() }
}

/// Withdraws a consent like [`withdraw`], in a transaction in which the user is locked. Returns `false` if there is none.
pub(super) async fn withdraw_locked(
    transaction: &mut RevocationTransaction<'_>,
    meta: &RequestMeta,
    user_id: UserId,
    by: &str,
    id: ConsentId,
) -> anyhow::Result<bool> {
    let now = transaction.now();
    let Some(withdrawn) = store::consents::delete(transaction.db(), user_id, id).await? else { return Ok(false) };
    store::deletions::insert(transaction.db(), content_key(user_id, id), now).await?;
    let grants =
        store::client_grants::list(transaction.db(), user_id, &withdrawn.client_id, &withdrawn.audience).await?;
    for grant in &grants {
        transaction.revoke_grant(grant.id, Reason::RevokedByUser).await?;
    }
    let details = json!({ "by": by, "sessions": grants.len() });
    let mut event = meta.event(EventName::ConsentWithdrawn, now, details)?;
    event.user_id = Some(user_id);
    event.client_id = Some(&withdrawn.client_id);
    event.workspace_id = withdrawn.workspace_id;
    event.subject = Some(id.to_string());
    store::audit_events::insert(transaction.db(), &event).await?;
    Ok(true)
}

/// Withdraws the consents for a third-party client, if the session that was just revoked was its last.
pub async fn withdraw_if_last(
    db: &Connection,
    meta: &RequestMeta,
    user_id: UserId,
    client: &Client,
    now: Timestamp,
) -> anyhow::Result<()> {
    if client.kind == ClientKind::FirstParty
        || store::client_grants::is_any_live(db, user_id, &client.id, now, rotation::idle_since(now)).await?
    {
        return Ok(());
    }
    let withdrawn = store::consents::delete_by_client(db, user_id, &client.id).await?;
    if withdrawn > 0 {
        let details = json!({ "by": "its last session", "consents": withdrawn });
        let mut event = meta.event(EventName::ConsentWithdrawn, now, details)?;
        event.user_id = Some(user_id);
        event.client_id = Some(&client.id);
        store::audit_events::insert(db, &event).await?;
    }
    Ok(())
}

/// Deletes consents that no client has used for a long time, and consents whose end date has passed. Returns how many.
pub async fn expire(app: &App) -> anyhow::Result<u64> {
    let mut total = 0;
    loop {
        let db = app.database.begin().await?;
        let (database_time, now) = (store::database_time(&db).await?, app.clock.now());
        anyhow::ensure!(!app.clock.is_off(now, database_time), "this node's clock differs from the database's");
        let expired = store::consents::delete_expired(&db, now, EXPIRED_PER_TRANSACTION).await?;
        let unused = store::consents::delete_unused(&db, counting_at(now).used_since, EXPIRED_PER_TRANSACTION).await?;
        for (consents, because) in [(&expired, "end_date"), (&unused, "unused")] {
            for consent in consents {
                record_expired(&db, consent, because, now).await?;
            }
        }
        db.commit().await?;
        let ended = expired.len() + unused.len();
        total += ended as u64;
        if ended == 0 {
            return Ok(total);
        }
    }
}

async fn record_expired(db: &Connection, consent: &EndedConsent, because: &str, now: Timestamp) -> anyhow::Result<()> {
    let event = NewAuditEvent {
        id: random::id(now)?,
        at: now,
        event: EventName::ConsentExpired,
        user_id: Some(consent.user_id),
        client_id: Some(&consent.client_id),
        workspace_id: None,
        subject: Some(consent.id.to_string()),
        address: None,
        request_id: None,
        details: json!({ "because": because }),
        keys: None,
    };
    Ok(store::audit_events::insert(db, &event).await?)
}
