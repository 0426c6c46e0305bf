//! Finishing a restore (`serviced admin restore finish`): revocations from after the backup are repeated.
//!
//! 1. The epoch is bumped: every session and every token is revoked, because the backup does not say which had been.
//! 2. A copy of the audit events from after the backup is replayed: users and clients that were disabled, keys that were
//!    retired, members that were removed or whose role changed, workspaces that were deleted, invitations and consents that
//!    were revoked, connections that were deleted, disabled or required, domains that were removed or lost, and passkey
//!    requirements of users and workspaces that were set or lifted.
//! 3. No address is changed that a user wanted to change, and no passkeys are removed: a request to stop that may be lost. An
//!    address that was changed after the backup is changed again. No account is erased for a week: a request to keep it may be
//!    lost. One that had been erased after the backup is erased again.
//! 4. The fence is lifted, and the server written down.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::{Value, json};
use service_api::{
    audit_events::EventName,
    ids::{InvitationId, UserId, WorkspaceId},
    workspaces::Role,
};
use service_rules::{Timestamp, lifetimes, signing::later};
use uuid::Uuid;

use crate::{
    app::App,
    database::Connection,
    flows::{
        account::{
            address_change::due,
            deletion::after_restore::{self as deletions, RepeatedRequest},
        },
        operator::Operator,
        revocation::{self, RevocationTransaction},
        rotate_signing_keys::{self, RetireKeyError},
        sso::after_restore::{self, LaterEvent},
    },
    store,
};

/// An audit event of a copy: one JSON object a line, with the names of the table's columns.
#[derive(Debug, Deserialize)]
pub struct CopiedEvent {
    id: String,
    at: Timestamp,
    event: String,
    user_id: Option<String>,
    client_id: Option<String>,
    workspace_id: Option<String>,
    subject: Option<String>,
    #[serde(default)]
    details: Value,
    /// Personal details, sealed, in hexadecimal digits after `\x`.
    sealed_details: Option<String>,
}

/// What finishing a restore changed.
#[derive(Debug, Default)]
pub struct FinishedRestore {
    /// The moment before which every credential is revoked; `None`: the operator said that the database lost nothing.
    pub epoch: Option<Timestamp>,
    /// How many events of each name changed something.
    pub replayed: BTreeMap<String, usize>,
}

/// Reads a copy; an error names the line that cannot be read.
pub fn read_copy(text: &str) -> anyhow::Result<Vec<CopiedEvent>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut events = lines
        .map(|(place, line)| {
            serde_json::from_str(line).map_err(|error| anyhow::anyhow!("line {} of the copy: {error}", place + 1))
        })
        .collect::<anyhow::Result<Vec<CopiedEvent>>>()?;
    events.sort_by_key(|event| event.at);
    Ok(events)
}

/// Finishes a restore and lifts the fence. Returns `None` if there is no fence. With `None` instead of events nothing is
/// revoked: the operator knows that the database lost nothing, as after `pg_upgrade`.
pub async fn finish(
    app: &App,
    operator: &Operator,
    copy: Option<&[CopiedEvent]>,
) -> anyhow::Result<Option<FinishedRestore>> {
    let found = store::installation::find(&app.database.connect().await?, app.node_id).await?;
    let Some(found) = found.filter(|found| found.fenced.is_some()) else { return Ok(None) };
    let mut finished = FinishedRestore::default();
    if let Some(events) = copy {
        finished.epoch = Some(revocation::bump_epoch(app, operator).await?);
        for event in events {
            if replay(app, event).await? {
                *finished.replayed.entry(event.event.clone()).or_default() += 1;
            }
        }
    }
    let now = app.clock.now();
    let details = json!({ "replayed": finished.replayed, "epoch": finished.epoch.is_some() });
    let event = operator.event(EventName::RestoreFinished, now, details)?;
    if finished.epoch.is_some() {
        // Those that were replayed, too. Until the fence is lifted, nothing is erased.
        let background = app.background_database.connect().await?;
        store::account_deletions::postpone_all(&background, later(now, lifetimes::ERASURE_AFTER_RESTORE)).await?;
    }
    let db = app.database.begin().await?;
    anyhow::ensure!(
        store::installation::mark_finished(&db, &found.server).await?,
        "another operator has just finished this restore"
    );
    event.insert(&db).await?;
    db.commit().await?;
    Ok(Some(finished))
}

/// Repeats the action of an event. Returns whether that changed anything.
async fn replay(app: &App, copied: &CopiedEvent) -> anyhow::Result<bool> {
    let Some(name) = EventName::parse(&copied.event) else { return Ok(false) };
    if name == EventName::KeyRetired {
        return retire_key(app, copied).await;
    }
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let changed = match name {
        EventName::MemberRemoved | EventName::WorkspaceDeleted => revoke_again(&mut transaction, copied).await?,
        EventName::ConnectionDeleted
        | EventName::ConnectionEnabled
        | EventName::ConnectionRequired
        | EventName::ConnectionChanged
        | EventName::DomainRemoved
        | EventName::DomainLost => {
            let Some(workspace_id) = id_in(copied.workspace_id.as_deref()) else { return Ok(false) };
            let event = LaterEvent { name, workspace_id, details: &copied.details };
            after_restore::repeat(app, transaction.db(), event, now).await?
        }
        _ => mark_again(&transaction, name, copied, now).await?,
    };
    if changed {
        revocation::finish(app, transaction).await?;
    }
    Ok(changed)
}

async fn revoke_again(transaction: &mut RevocationTransaction<'_>, copied: &CopiedEvent) -> anyhow::Result<bool> {
    let Some(workspace_id) = id_in::<WorkspaceId>(copied.workspace_id.as_deref()) else { return Ok(false) };
    if copied.event == EventName::WorkspaceDeleted.as_str() {
        return transaction.revoke_workspace(workspace_id).await;
    }
    let Some(member) = copied.member() else { return Ok(false) };
    transaction.revoke_membership(member, workspace_id).await
}

async fn mark_again(
    transaction: &RevocationTransaction<'_>,
    name: EventName,
    copied: &CopiedEvent,
    now: Timestamp,
) -> anyhow::Result<bool> {
    let db = transaction.db();
    let user_id = id_in::<UserId>(copied.user_id.as_deref());
    let (client_id, workspace_id) = (copied.client_id.as_deref(), id_in::<WorkspaceId>(copied.workspace_id.as_deref()));
    let host = copied.details["host"].as_str();
    Ok(match (name, user_id, client_id, workspace_id) {
        (
            EventName::UserDisabled
            | EventName::UserEnabled
            | EventName::AccountDeletionRequested
            | EventName::AccountErased
            | EventName::AccountKept
            | EventName::TokenLeaked
            | EventName::PasskeyRequired
            | EventName::PasskeyNotRequired
            | EventName::AddressChanged,
            Some(id),
            ..,
        ) => mark_account_again(transaction, name, id, copied, now).await?,
        (EventName::ClientDisabled, _, Some(id), _) => store::clients::mark_disabled(db, id, Some(now)).await?,
        (EventName::ClientEnabled, _, Some(id), _) => store::clients::mark_disabled(db, id, None).await?,
        (EventName::SupportClientRevoked, ..) => match copied.subject.as_deref().and_then(|id| id.parse().ok()) {
            Some(id) => store::support_clients::mark_revoked(db, id, now).await?,
            None => false,
        },
        (EventName::ConsentWithdrawn, Some(user), Some(client), _) => {
            store::consents::delete_by_client(db, user, client).await? > 0
        }
        (
            EventName::RecoveryCodesCreated
            | EventName::RecoveryCodesRemoved
            | EventName::RecoveryCodeUsed
            | EventName::AccountSecured,
            Some(user),
            ..,
        ) => store::recovery_codes::delete(db, user).await?.is_some(),
        (EventName::RoleChanged, _, _, Some(workspace)) => match (copied.member(), copied.role()) {
            (Some(member), Some(role)) => store::memberships::update_role(db, member, workspace, role).await?,
            _ => false,
        },
        (EventName::WorkspacePasskeyRequired | EventName::WorkspacePasskeyNotRequired, _, _, Some(workspace)) => {
            let required = name == EventName::WorkspacePasskeyRequired;
            store::workspaces::update_passkey_requirement(db, workspace, required).await?
        }
        (EventName::InvitationRevoked, _, _, Some(workspace)) => match copied.invitation() {
            Some(invitation) => store::invitations::delete(db, workspace, invitation).await?,
            None => false,
        },
        (EventName::ClientHostBlocked, ..) if host.is_some() => {
            let by = copied.details["operator"].as_str().unwrap_or("unknown");
            store::blocked_client_hosts::insert(db, host.unwrap_or_default(), by, now).await?
        }
        (EventName::ClientHostUnblocked, ..) => {
            store::blocked_client_hosts::delete(db, host.unwrap_or_default()).await?
        }
        _ => false,
    })
}

/// Repeats an event about the account of a user.
async fn mark_account_again(
    transaction: &RevocationTransaction<'_>,
    name: EventName,
    id: UserId,
    copied: &CopiedEvent,
    now: Timestamp,
) -> anyhow::Result<bool> {
    let (app, db) = (transaction.app(), transaction.db());
    match name {
        EventName::UserDisabled | EventName::UserEnabled => {
            let is_stopped = store::account_deletions::delete(db, id).await?;
            let disabled_at = (name == EventName::UserDisabled).then_some(now);
            Ok(store::users::mark_disabled(db, id, disabled_at).await? || is_stopped)
        }
        EventName::TokenLeaked if copied.details["kind"] == "account_link" => {
            Ok(deletions::repeat_replacement(app, db, id, &copied.details).await?)
        }
        EventName::PasskeyRequired | EventName::PasskeyNotRequired => {
            let required = name == EventName::PasskeyRequired;
            Ok(store::users::update_passkey_requirement(db, id, required).await?)
        }
        EventName::AddressChanged => {
            let details = personal_details(app, db, id, copied).await?;
            due::repeat(app, db, id, details["email"].as_str()).await
        }
        EventName::AccountDeletionRequested | EventName::AccountErased | EventName::AccountKept => {
            let by_operator = name == EventName::AccountErased || copied.details["operator"].is_string();
            let is_kept = name == EventName::AccountKept;
            let request = RepeatedRequest { is_kept, by_operator, at: copied.at, details: &copied.details };
            Ok(deletions::repeat(app, db, id, request).await?)
        }
        _ => Ok(false),
    }
}

/// Retires a signing key again, unless it is the last one that signs. Then the operator makes a successor first.
async fn retire_key(app: &App, copied: &CopiedEvent) -> anyhow::Result<bool> {
    let Some(kid) = &copied.subject else { return Ok(false) };
    match rotate_signing_keys::retire(app, kid).await {
        Ok(()) => Ok(true),
        Err(RetireKeyError::Unknown) => Ok(false),
        Err(RetireKeyError::StillNeeded) => anyhow::bail!(
            "the signing key {kid} was retired after the backup, and no other key signs: create a successor with \
             keys.publish_lead_seconds set to 1 (`serviced keys rotate`), then finish the restore again"
        ),
        Err(error @ (RetireKeyError::Database(_) | RetireKeyError::Defect(_))) => Err(error.into()),
    }
}

/// Ids are plain UUIDs in the table.
fn id_in<I: From<Uuid>>(text: Option<&str>) -> Option<I> {
    text?.parse::<Uuid>().ok().map(I::from)
}

impl CopiedEvent {
    /// The member whom an event concerns. An owner's event names them in its details; an operator's event is about them.
    fn member(&self) -> Option<UserId> {
        match self.details["member"].as_str() {
            Some(member) => member.parse().ok(),
            None => id_in(self.user_id.as_deref()),
        }
    }

    fn role(&self) -> Option<Role> {
        serde_json::from_value(self.details["role"].clone()).ok()
    }

    fn invitation(&self) -> Option<InvitationId> {
        // An owner's event names it in its details; one that was revoked with its session is the event's subject.
        let id = self.details["invitation"].as_str().or(self.subject.as_deref())?;
        id.parse().ok()
    }
}

/// The personal details of an event, which are sealed under the key of its user. `Null`: there are none, or the key is gone.
async fn personal_details(app: &App, db: &Connection, user_id: UserId, copied: &CopiedEvent) -> anyhow::Result<Value> {
    let sealed = copied.sealed_details.as_deref().and_then(bytes_of);
    let key = store::audit_keys::list_users(db, &[user_id]).await?.pop();
    let (Some(sealed), Some((_, key)), Ok(id)) = (sealed, key, copied.id.parse::<Uuid>()) else {
        return Ok(Value::Null);
    };
    let key = app.audit_keys.open_user(user_id, &key)?;
    Ok(Value::Object(key.open_details(id.into(), &sealed)?))
}

/// The bytes of a `bytea` as PostgreSQL writes it into JSON.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    HEXLOWER.decode(text.strip_prefix("\\x")?.as_bytes()).ok()
}
