//! Where somebody is signed in, and ending it (`/v1/sessions`).

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{GrantId, Id as _, UserId},
    page::Page,
    sessions::{OthersEnded, Session},
};

use crate::{
    app::App,
    cursor::{Foreign, List},
    failure::Failure,
    flows::{Asker, end_access::EndingTransaction, refresh},
    store::{
        self,
        grants::{Listed, Which},
    },
};

/// Who asks, and from which of their sessions.
pub struct SignedIn {
    pub user_id: UserId,
    pub session: GrantId,
}

/// There is no such session of this user.
#[derive(Debug)]
pub struct NoSuchSession;

/// Sessions that still live, the youngest first.
pub async fn list(
    app: &App,
    caller: &SignedIn,
    limit: u16,
    cursor: Option<&str>,
) -> Result<Page<Session>, Failure<Foreign>> {
    let now = app.clock.now();
    let owner = caller.user_id.to_string();
    let list = List { vault: &app.vault, of: &[b"sessions", owner.as_bytes()], limit };
    let before = list.behind(cursor).map_err(Failure::Refused)?.map(GrantId::from);
    let listed = Listed { now, used_after: refresh::idle_since(now), before, limit: list.rows() };
    let db = app.database.connect().await?;
    let mut data = store::grants::list_by_user(&db, caller.user_id, &listed).await?;
    for session in &mut data {
        session.current = session.id == caller.session;
    }
    Ok(list.page(data, |session| session.id.uuid()))
}

/// Ends one session of the caller; ending it again changes nothing.
pub async fn end(app: &App, asker: &Asker, caller: &SignedIn, id: &str) -> Result<(), Failure<NoSuchSession>> {
    let now = app.clock.now();
    let id: GrantId = id.parse().map_err(|_| Failure::Refused(NoSuchSession))?;
    let mut transaction = EndingTransaction::begin(app, now).await?;
    if !store::grants::is_of_user(transaction.db(), id, caller.user_id).await? {
        return Err(Failure::Refused(NoSuchSession));
    }
    if transaction.end_grant(id, Reason::RevokedByUser).await? {
        let mut event = asker.event(EventName::SessionEnded, now, json!({ "by": caller.session }))?;
        event.user_id = Some(caller.user_id);
        event.subject = Some(id.to_string());
        store::audit_events::insert(transaction.db(), &event).await?;
    }
    Ok(transaction.commit().await?)
}

/// Ends every session of the caller but the one that asks.
pub async fn end_others(app: &App, asker: &Asker, caller: &SignedIn) -> anyhow::Result<OthersEnded> {
    let now = app.clock.now();
    let because = Reason::RevokedByUser;
    let mut transaction = EndingTransaction::begin(app, now).await?;
    // Whoever opens another session at this moment has done so before, or does so after.
    store::users::lock(transaction.db(), caller.user_id).await?;
    let ended = transaction.end_grants_of(caller.user_id, Which::Except(caller.session), because).await?;
    store::browser_sessions::delete_by_user(transaction.db(), caller.user_id, None).await?;
    if ended > 0 {
        let mut event =
            asker.event(EventName::SessionOthersEnded, now, json!({ "by": caller.session, "ended": ended }))?;
        event.user_id = Some(caller.user_id);
        store::audit_events::insert(transaction.db(), &event).await?;
    }
    transaction.commit().await?;
    Ok(OthersEnded { ended: ended as u64 })
}
