//! What is repeated after the database was restored from a backup: accounts that were closed, kept or erased since, and links that
//! were replaced.

use std::collections::HashSet;

use serde_json::Value;
use service_api::ids::UserId;
use service_rules::{Timestamp, lifetimes, signing::later};
use uuid::Uuid;

use crate::{
    app::App,
    crypto::random,
    database::Connection,
    flows::account::deletion::{derive_link, find_closed, judge_workspaces},
    store::{
        self,
        account_deletions::{KeepKey, NewAccountDeletion},
    },
};

/// What an audit event from after a backup says about an account.
pub(in crate::flows) struct RepeatedRequest<'a> {
    pub(in crate::flows) is_kept: bool,
    pub(in crate::flows) by_operator: bool,
    pub(in crate::flows) at: Timestamp,
    pub(in crate::flows) details: &'a Value,
}

/// Repeats a request after a restore; `false`: nothing changed.
pub(in crate::flows) async fn repeat(
    app: &App,
    db: &Connection,
    user_id: UserId,
    request: RepeatedRequest<'_>,
) -> anyhow::Result<bool> {
    store::users::lock(db, user_id).await?;
    if request.is_kept {
        // An operator who stops an erasure leaves the account disabled.
        let is_stopped = store::account_deletions::delete(db, user_id).await?;
        if is_stopped && !request.by_operator {
            store::users::mark_disabled(db, user_id, None).await?;
        }
        return Ok(is_stopped);
    }
    if store::users::find(db, user_id).await?.is_none() {
        return Ok(false);
    }
    let is_closed = store::users::mark_disabled(db, user_id, Some(app.clock.now())).await?;
    // They were deleted when the account was closed, and are there again.
    store::passkey_recoveries::delete(db, user_id).await?;
    store::invitations::delete_by_inviter(db, user_id).await?;
    if would_erase_more(db, user_id, request.details).await? {
        tracing::warn!(
            %user_id,
            "An account is closed again but will not be erased, because the database no longer has the other members of its \
             workspaces. Give these workspaces another owner, then run `serviced admin user erase`"
        );
        return Ok(is_closed);
    }
    // The link of the mail works again.
    let (id, key_id) = derived_from(request.details);
    let id = id.map_or_else(|| random::uuid(request.at), Ok)?;
    let key_id = key_id.unwrap_or(app.root_keys.key_in_use());
    let (link, seconds) = if request.by_operator {
        (None, lifetimes::OPERATOR_ERASURE)
    } else if let Some(link) = derive_link(app, key_id, user_id, id) {
        (Some((link, key_id)), lifetimes::ACCOUNT_DELETION)
    } else {
        // The root key of the mailed link is gone. A user who signs in is led to the new one.
        let key_id = app.root_keys.key_in_use();
        (derive_link(app, key_id, user_id, id).map(|link| (link, key_id)), lifetimes::ACCOUNT_DELETION)
    };
    let new = NewAccountDeletion {
        user_id,
        id,
        link: link.map(|(link, key_id)| (KeepKey::of(&link), key_id)),
        session_id: request.details["by"].as_str().map(str::to_owned),
        requested_at: request.at,
        due_at: later(request.at, seconds),
    };
    Ok(store::account_deletions::insert(db, &new).await? || is_closed)
}

/// Whether a workspace would be erased that the event about the request does not name: it had other members then.
async fn would_erase_more(db: &Connection, user_id: UserId, said: &Value) -> anyhow::Result<bool> {
    let named = said["workspaces"].as_array().map_or(&[][..], Vec::as_slice);
    let named: HashSet<_> = named.iter().filter_map(Value::as_str).collect();
    let judged = judge_workspaces(db, user_id, true).await?;
    Ok(judged.erased.iter().any(|workspace| !named.contains(workspace.id.to_string().as_str())))
}

/// Replaces a link after a restore, as an audit event from after the backup says; `false`: nothing changed.
pub(in crate::flows) async fn repeat_replacement(
    app: &App,
    db: &Connection,
    user_id: UserId,
    said: &Value,
) -> anyhow::Result<bool> {
    let (Some(id), Some(key_id)) = derived_from(said) else { return Ok(false) };
    let Some(old) = find_closed(app, db, user_id).await? else { return Ok(false) };
    let Some(link) = derive_link(app, key_id, user_id, id) else { return Ok(false) };
    let (old, new) = (KeepKey::of(&old.link), KeepKey::of(&link));
    Ok(store::account_deletions::replace_link(db, &old, id, &new, key_id).await?)
}

/// What the secret of a link is derived from, as an event says: the id of the deletion, and the root key.
fn derived_from(said: &Value) -> (Option<Uuid>, Option<u8>) {
    let id = said["deletion"].as_str().and_then(|id| id.parse().ok());
    (id, said["rootKey"].as_u64().and_then(|id| u8::try_from(id).ok()))
}
