//! Erasing accounts that were closed long enough ago.
//!
//! 1. From its first step on, nothing stops an erasure. Each step is a short transaction under a lock on the row of the erasure, and can
//!    be repeated: a node that is stopped, or that has done its share of this round, leaves the rest to the next one.
//! 2. The user leaves every workspace. Those without other members are deleted, and housekeeping deletes their content at once.
//! 3. The content of personal space, then all rows about the user, in batches.
//! 4. In one last transaction: identities, the key of the personal details in audit events, the address and the account.
//!
//! Audit events stay, with the id of the user and nothing else about them; the record still verifies. `docs/retention.md` says what
//! else still has the id.

use std::time::{Duration, Instant};

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{Id as _, UserId, WorkspaceId},
};
use service_rules::{Timestamp, lifetimes, signing::later, space::Space};

use crate::{
    app::App,
    database::{Connection, restore_fence::Fence},
    flows::{
        audit::keys, node_event, operations::retention, revocation::RevocationTransaction,
        sign_in::email_key::email_key,
    },
    mail::Email,
    store::{self, Batch, contents::SpaceOwner, erasure::ROWS_OF_USER},
};

/// Accounts that one round erases at most.
const ACCOUNTS_PER_ROUND: i64 = 100;
/// How long one round takes. Other work of housekeeping waits for it.
const ROUND: Duration = Duration::from_secs(20);
/// Rows that one transaction deletes.
const ROWS_PER_STEP: i64 = 1_000;
/// Workspaces that are read at once.
const WORKSPACES_PER_READ: i64 = 100;

/// Erases the accounts that are due; returns how many. One that fails does not stop the others, and is tried again.
pub async fn erase_due(app: &App) -> anyhow::Result<u64> {
    if app.fence() != Fence::Open {
        // The database looks restored: what was kept since then would be erased.
        return Ok(0);
    }
    let db = app.background_database.connect().await?;
    let (database_time, now) = (store::database_time(&db).await?, app.clock.now());
    // What a wrong clock erases is lost.
    anyhow::ensure!(!app.clock.is_off(now, database_time), "this node's clock differs from the database's");
    let due = store::account_deletions::list_due(&db, Batch { now, size: ACCOUNTS_PER_ROUND }).await?;
    let overdue = store::account_deletions::count_due_since(&db, later(now, -lifetimes::ERASURE_OVERDUE)).await?;
    app.metrics.account.erasures_overdue.set(overdue);
    drop(db);
    let until = Instant::now() + ROUND;
    let (mut erased, mut failure) = (0, None);
    for user_id in due {
        match (Erasure { app, user_id, now, until }).run().await {
            Ok(ErasureStep::Done) => erased += 1,
            Ok(ErasureStep::Left) => {}
            Err(error) => {
                tracing::warn!(%user_id, error = format!("{error:#}"), "Could not erase an account");
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(erased), Err)
}

/// An account that is being erased, in one round.
struct Erasure<'a> {
    app: &'a App,
    user_id: UserId,
    now: Timestamp,
    /// When the round ends.
    until: Instant,
}

/// What came of a part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErasureStep {
    Done,
    /// The rest is left: the round is over, the node is stopping, another node is at it, or the erasure was stopped.
    Left,
}

impl Erasure<'_> {
    async fn run(&self) -> anyhow::Result<ErasureStep> {
        if self.begin().await? == ErasureStep::Left
            || self.leave_workspaces().await? == ErasureStep::Left
            || self.delete_content().await? == ErasureStep::Left
            || self.delete_rows().await? == ErasureStep::Left
        {
            return Ok(ErasureStep::Left);
        }
        self.end().await
    }

    /// Begins a transaction that holds the erasure. `None`: this round does not go on.
    async fn step(&self) -> anyhow::Result<Option<Connection>> {
        if self.is_over() {
            return Ok(None);
        }
        let db = self.app.background_database.begin().await?;
        Ok(store::account_deletions::lock_due(&db, self.user_id, self.now).await?.then_some(db))
    }

    fn is_over(&self) -> bool {
        self.app.stop.is_cancelled() || Instant::now() >= self.until
    }

    /// Begins, or goes on.
    async fn begin(&self) -> anyhow::Result<ErasureStep> {
        if self.is_over() {
            return Ok(ErasureStep::Left);
        }
        let db = self.app.background_database.begin().await?;
        let is_enabled = store::users::lock(&db, self.user_id).await?;
        if is_enabled {
            // It is closed from the request on. Who opened it by hand wants it to stay.
            store::account_deletions::delete(&db, self.user_id).await?;
            db.commit().await?;
            return Ok(ErasureStep::Left);
        }
        if !store::account_deletions::lock_due(&db, self.user_id, self.now).await? {
            return Ok(ErasureStep::Left);
        }
        store::account_deletions::mark_tried(&db, self.user_id, self.now).await?;
        db.commit().await?;
        Ok(ErasureStep::Done)
    }

    /// Takes the user out of every workspace.
    async fn leave_workspaces(&self) -> anyhow::Result<ErasureStep> {
        loop {
            let db = self.app.background_database.connect().await?;
            let workspaces = store::erasure::list_workspaces(&db, self.user_id, WORKSPACES_PER_READ).await?;
            drop(db);
            if workspaces.is_empty() {
                return Ok(ErasureStep::Done);
            }
            for id in workspaces {
                if self.is_over() || self.leave(id).await? == ErasureStep::Left {
                    return Ok(ErasureStep::Left);
                }
            }
        }
    }

    async fn leave(&self, id: WorkspaceId) -> anyhow::Result<ErasureStep> {
        let (user_id, now) = (self.user_id, self.app.clock.now());
        let mut transaction = RevocationTransaction::begin(self.app, now).await?;
        store::users::lock(transaction.db(), user_id).await?;
        store::workspaces::lock(transaction.db(), id).await?;
        if !store::account_deletions::lock_due(transaction.db(), user_id, self.now).await? {
            return Ok(ErasureStep::Left);
        }
        let is_member = store::memberships::find_role(transaction.db(), user_id, id).await?.is_some();
        let others = store::members::find_others_of(transaction.db(), id, user_id).await?;
        if is_member && !others.has_member {
            store::connections::remove_break_glass(transaction.db(), id, user_id).await?;
            transaction.revoke_workspace(id).await?;
            let event = node_event(EventName::WorkspaceDeleted, now, json!({ "by": "erasure" }))?;
            event.in_workspace(id).insert(transaction.db()).await?;
            let deleted_at = later(now, -lifetimes::ENDED_KEPT);
            store::erasure::date_back_deletion(transaction.db(), id, deleted_at).await?;
        } else if is_member {
            if !others.has_owner {
                // An operator removed or disabled the other owner since the account was closed.
                tracing::warn!(workspace_id = %id, "A workspace is left without an owner, because its owner's account is erased");
            }
            transaction.revoke_membership(user_id, id).await?;
            let event = node_event(EventName::MemberRemoved, now, json!({ "by": "erasure" }))?;
            event.user(user_id).in_workspace(id).insert(transaction.db()).await?;
        }
        store::erasure::delete_membership(transaction.db(), user_id, id).await?;
        transaction.commit().await?;
        Ok(ErasureStep::Done)
    }

    /// Deletes the content of personal space.
    async fn delete_content(&self) -> anyhow::Result<ErasureStep> {
        let space = SpaceOwner::of(Space::Personal, self.user_id);
        loop {
            let Some(db) = self.step().await? else { return Ok(ErasureStep::Left) };
            let (_, is_empty) = retention::delete_some_content(&db, space).await?;
            if is_empty {
                store::space_usage::delete(&db, space.id).await?;
            }
            db.commit().await?;
            if is_empty {
                return Ok(ErasureStep::Done);
            }
        }
    }

    /// Deletes all rows about the user that need nothing else.
    async fn delete_rows(&self) -> anyhow::Result<ErasureStep> {
        let user_id = self.user_id;
        let Some(db) = self.step().await? else { return Ok(ErasureStep::Left) };
        let passkeys = store::passkeys::list_by_user(&db, user_id).await?;
        let passkeys: Vec<_> = passkeys.iter().map(|passkey| passkey.id.uuid()).collect();
        store::passkeys::delete_several(&db, user_id, &passkeys).await?;
        store::devices::delete_by_user(&db, user_id, None).await?;
        store::invitations::delete_by_inviter(&db, user_id).await?;
        db.commit().await?;
        for statement in ROWS_OF_USER {
            loop {
                let Some(db) = self.step().await? else { return Ok(ErasureStep::Left) };
                let deleted = store::erasure::delete_rows(&db, statement, user_id, ROWS_PER_STEP).await?;
                db.commit().await?;
                if deleted < ROWS_PER_STEP.unsigned_abs() {
                    break;
                }
            }
        }
        Ok(ErasureStep::Done)
    }

    /// Deletes the account itself, and tells its user.
    async fn end(&self) -> anyhow::Result<ErasureStep> {
        let (app, user_id, now) = (self.app, self.user_id, self.now);
        let db = app.background_database.begin().await?;
        store::users::lock(&db, user_id).await?;
        if !store::account_deletions::lock_due(&db, user_id, now).await? {
            return Ok(ErasureStep::Left);
        }
        let Some(address) = store::users::find_address(&db, user_id).await? else { return Ok(ErasureStep::Left) };
        store::erasure::delete_identities(&db, user_id).await?;
        keys::erase_user(&db, user_id).await?;
        node_event(EventName::AccountErased, now, json!({}))?.user(user_id).insert(&db).await?;
        let email = email_key(app, &db, &address).await?;
        store::erasure::delete_user(&db, user_id, email).await?;
        store::account_deletions::delete_erased(&db, user_id).await?;
        let mail = Email::AccountErased { to: address.as_str().to_owned() };
        mail.enqueue(&app.root_keys, &db, now, later(now, lifetimes::WARNING)).await?;
        db.commit().await?;
        app.metrics.account.erased.inc();
        app.mail_waiting.notify_one();
        Ok(ErasureStep::Done)
    }
}
