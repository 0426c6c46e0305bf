//! Revoking credentials: every flow that revokes one does it in a [`RevocationTransaction`].
//!
//! The revocation is written in the transaction that marks the credential as revoked, so neither exists without the other.
//! Once it is committed, this node refuses the credential at once and notifies the other nodes.

pub mod lineage;
pub mod replay;

use anyhow::Context as _;
use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{CliTokenId, GrantId, Id as _, RevocationId, UserId, WorkspaceId},
};
use service_rules::{
    Timestamp,
    email::Address,
    lifetimes,
    revocation::{Revocation, Subject, position::LANES},
    rotation,
    signing::later,
};
use uuid::Uuid;

use crate::{
    app::App,
    crypto::random,
    database::{self, Connection},
    flows::{account::address_change::Stop, operator::Operator, sign_in::email_key::email_key, sso::routes},
    store::{self, audit_events::NewAuditEvent, grants::GrantSelection},
};

/// A transaction that revokes credentials.
pub struct RevocationTransaction<'a> {
    app: &'a App,
    db: Connection,
    now: Timestamp,
    /// Written with the last statement before the commit.
    revocations: Vec<(RevocationId, Revocation)>,
}

impl<'a> RevocationTransaction<'a> {
    /// The node that this transaction is of.
    pub(crate) const fn app(&self) -> &'a App {
        self.app
    }

    pub async fn begin(app: &'a App, now: Timestamp) -> Result<Self, database::Error> {
        let db = app.database.begin().await?;
        if app.clock.is_off(now, store::database_time(&db).await?) {
            // By a slow clock, a credential would be revoked before the moment at which it was issued.
            return Err(database::Error::Unavailable("this machine's clock differs from the database's".into()));
        }
        Ok(Self { app, db, now, revocations: Vec::new() })
    }

    #[must_use]
    pub fn db(&self) -> &Connection {
        &self.db
    }

    /// The moment of the revocation.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Revokes every token of the subject that was issued until now.
    pub fn revoke(&mut self, subject: Subject, reason: Reason) -> anyhow::Result<()> {
        self.revocations.push((random::id(self.now)?, Revocation::of(subject, reason, self.now)));
        Ok(())
    }

    /// Revokes a grant with all its tokens. Returns `false` if it was revoked before.
    ///
    /// A caller may repeat the request after a 503. The row is then written without change, so that this commit is
    /// confirmed only if the first one is.
    pub async fn revoke_grant(&mut self, id: GrantId, reason: Reason) -> anyhow::Result<bool> {
        let revoked = store::grants::mark_revoked(&self.db, id, reason, self.now).await?;
        if revoked {
            self.revoke(Subject::Grant(id), reason)?;
        } else {
            store::grants::touch(&self.db, id).await?;
        }
        Ok(revoked)
    }

    /// Revokes a CLI token. Returns `false` if it was revoked before; the row is then written as by [`Self::revoke_grant`].
    pub async fn revoke_cli_token(&mut self, id: CliTokenId, reason: Reason) -> anyhow::Result<bool> {
        let revoked = store::cli_tokens::mark_revoked(&self.db, id, reason, self.now).await?;
        if revoked {
            self.revoke(Subject::CliToken(id), reason)?;
        } else {
            store::cli_tokens::touch(&self.db, id).await?;
        }
        Ok(revoked)
    }

    /// Revokes grants of a user with all their tokens, and returns which.
    pub async fn revoke_grants_of_user(
        &mut self,
        user_id: UserId,
        which: GrantSelection,
        reason: Reason,
    ) -> anyhow::Result<Vec<GrantId>> {
        let revoked = store::grants::mark_all_revoked(&self.db, user_id, which, reason, self.now).await?;
        revoked.iter().try_for_each(|id| self.revoke(Subject::Grant(*id), reason))?;
        Ok(revoked)
    }

    /// Revokes several grants of a user with all their tokens. Those that were revoked before keep their reason.
    pub async fn revoke_grants(&mut self, user_id: UserId, ids: &[Uuid], reason: Reason) -> anyhow::Result<()> {
        let revoked = store::grants::mark_several_revoked(&self.db, user_id, ids, reason, self.now).await?;
        revoked.into_iter().try_for_each(|id| self.revoke(Subject::Grant(id), reason))
    }

    /// Revokes several CLI tokens of a user. Those that were revoked before keep their reason.
    pub async fn revoke_cli_tokens(&mut self, user_id: UserId, ids: &[Uuid], reason: Reason) -> anyhow::Result<()> {
        let revoked = store::cli_tokens::mark_several_revoked(&self.db, user_id, ids, reason, self.now).await?;
        revoked.into_iter().try_for_each(|id| self.revoke(Subject::CliToken(id), reason))
    }

    /// Ends a membership and revokes every token of the user for the workspace. Returns `false` if there was none. A user who
    /// joins again needs new tokens, so tokens that were stolen before stay revoked.
    pub async fn revoke_membership(&mut self, user_id: UserId, workspace_id: WorkspaceId) -> anyhow::Result<bool> {
        if !store::memberships::mark_ended(&self.db, user_id, workspace_id, self.now).await? {
            return Ok(false);
        }
        store::invitations::delete_by_member(&self.db, workspace_id, user_id).await?;
        store::connections::remove_break_glass(&self.db, workspace_id, user_id).await?;
        let reason = Reason::WorkspaceRemoved;
        self.revoke_grants_of_user(user_id, GrantSelection::For(workspace_id), reason).await?;
        store::cli_tokens::mark_all_revoked(&self.db, user_id, Some(workspace_id), reason, self.now).await?;
        self.revoke(Subject::Membership(user_id, workspace_id), reason)?;
        Ok(true)
    }

    /// Announces that a member has another role. Every node that has cached the former one reads it again.
    pub fn announce_role(&mut self, user_id: UserId, workspace_id: WorkspaceId) -> anyhow::Result<()> {
        // No token is revoked, so no client is told this reason.
        self.revoke(Subject::Role(user_id, workspace_id), Reason::RevokedByAdmin)
    }

    /// Deletes a workspace with its memberships, invitations, connections and domains, and revokes every token for it. Returns
    /// `false` if there was none.
    pub async fn revoke_workspace(&mut self, id: WorkspaceId) -> anyhow::Result<bool> {
        if !store::workspaces::mark_deleted(&self.db, id, self.now).await? {
            return Ok(false);
        }
        store::memberships::mark_all_ended(&self.db, id, self.now).await?;
        store::invitations::delete_by_workspace(&self.db, id).await?;
        store::blocked_workspaces::delete_by_workspace(&self.db, id).await?;
        routes::delete_workspace(self.app, &self.db, id, self.now).await?;
        store::cli_tokens::mark_revoked_by_workspace(&self.db, id, Reason::WorkspaceRemoved, self.now).await?;
        self.revoke(Subject::Workspace(id), Reason::WorkspaceRemoved)?;
        Ok(true)
    }

    /// Removes a member from a workspace and records it; `false`: there was no such member. User and workspace are held, so
    /// that nothing is made for the membership at the same time.
    pub async fn remove_member(
        &mut self,
        user_id: UserId,
        workspace_id: WorkspaceId,
        event: NewAuditEvent<'_>,
    ) -> anyhow::Result<bool> {
        store::users::lock(&self.db, user_id).await?;
        store::workspaces::lock(&self.db, workspace_id).await?;
        let removed = self.revoke_membership(user_id, workspace_id).await?;
        if removed {
            event.insert(&self.db).await?;
        }
        Ok(removed)
    }

    /// Deletes a workspace for all its members and records it; `false`: there was none.
    pub async fn delete_workspace(&mut self, id: WorkspaceId, event: NewAuditEvent<'_>) -> anyhow::Result<bool> {
        store::workspaces::lock(&self.db, id).await?;
        let deleted = self.revoke_workspace(id).await?;
        if deleted {
            event.insert(&self.db).await?;
        }
        Ok(deleted)
    }

    /// Disables a user, and revokes every credential of theirs; `false`: the user is disabled already. The user must be locked.
    pub async fn close_account(&mut self, user_id: UserId) -> anyhow::Result<bool> {
        let (now, reason) = (self.now, Reason::UserDisabled);
        if !store::users::mark_disabled(&self.db, user_id, Some(now)).await? {
            return Ok(false);
        }
        // One revocation stands for all tokens of the user.
        self.revoke(Subject::User(user_id), reason)?;
        store::grants::mark_all_revoked(&self.db, user_id, GrantSelection::All, reason, now).await?;
        store::cli_tokens::mark_all_revoked(&self.db, user_id, None, reason, now).await?;
        store::browser_sessions::delete_by_user(&self.db, user_id, None).await?;
        store::devices::delete_by_user(&self.db, user_id, None).await?;
        store::invitations::delete_by_inviter(&self.db, user_id).await?;
        store::consents::delete_without_sessions(&self.db, user_id, now, rotation::idle_since(now)).await?;
        // The user could no longer stop the removal of all passkeys.
        store::passkey_recoveries::delete(&self.db, user_id).await?;
        // Nor a change of the address.
        store::address_changes::delete(&self.db, user_id).await?;
        Ok(true)
    }

    /// Writes the revocations in a random lane, and commits at once, because the lane is held until then.
    pub async fn commit(self) -> Result<(), database::Error> {
        if let Some((id, _)) = self.revocations.first() {
            let [.., random] = id.uuid().into_bytes();
            store::revocations::insert(&self.db, usize::from(random) % LANES, &self.revocations).await?;
        }
        self.db.commit().await?;
        self.app.revocations.apply_committed(self.revocations.into_iter().map(|(_, revocation)| revocation).collect());
        Ok(())
    }
}

/// Why an operator's command revoked nothing.
#[derive(Debug, thiserror::Error)]
pub enum RevocationError {
    #[error("there is no such user, member or workspace, or it is in that state already")]
    NothingToRevoke,
    #[error("the account is being erased, and nothing stops that any more")]
    BeingErased,
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Disables a user: revokes all their sessions and tokens, and refuses further sign-ins. An erasure that has not begun is
/// stopped, so that what an operator looks into is not erased.
pub async fn disable_user(app: &App, operator: &Operator, address: &Address) -> Result<UserId, RevocationError> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let user_id = find_user(app, transaction.db(), address).await?;
    store::users::lock(transaction.db(), user_id).await?;
    let was_closed = store::account_deletions::delete(transaction.db(), user_id).await?;
    if store::account_deletions::find(transaction.db(), user_id).await?.is_some() {
        return Err(RevocationError::BeingErased);
    }
    if !transaction.close_account(user_id).await? && !was_closed {
        return Err(RevocationError::NothingToRevoke);
    }
    operator.event(EventName::UserDisabled, now, json!({}))?.user(user_id).insert(transaction.db()).await?;
    finish(app, transaction).await?;
    Ok(user_id)
}

/// Enables a disabled user, and stops the erasure of the account if it has not begun. Sessions and tokens that were revoked stay
/// revoked.
pub async fn enable_user(app: &App, operator: &Operator, address: &Address) -> Result<UserId, RevocationError> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    let user_id = find_user(app, &db, address).await?;
    store::users::lock(&db, user_id).await?;
    store::account_deletions::delete(&db, user_id).await?;
    let is_being_erased = store::account_deletions::find(&db, user_id).await?.is_some();
    if is_being_erased || !store::users::mark_disabled(&db, user_id, None).await? {
        return Err(RevocationError::NothingToRevoke);
    }
    operator.event(EventName::UserEnabled, now, json!({}))?.user(user_id).insert(&db).await?;
    db.commit().await?;
    Ok(user_id)
}

/// Revokes all sessions of a user, forgets their devices, and stops a change of the address. The user can sign in again; CLI tokens stay
/// valid.
pub async fn sign_out_user(app: &App, operator: &Operator, address: &Address) -> Result<UserId, RevocationError> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let user_id = find_user(app, transaction.db(), address).await?;
    // A concurrent sign-in commits before this lock is taken, or starts after this transaction.
    store::users::lock(transaction.db(), user_id).await?;
    let reason = Reason::RevokedByAdmin;
    transaction.revoke_grants_of_user(user_id, GrantSelection::All, reason).await?;
    store::browser_sessions::delete_by_user(transaction.db(), user_id, None).await?;
    store::devices::delete_by_user(transaction.db(), user_id, None).await?;
    store::consents::delete_without_sessions(transaction.db(), user_id, now, rotation::idle_since(now)).await?;
    if let Some(address) = store::address_changes::delete(transaction.db(), user_id).await? {
        let event = operator.event(EventName::AddressChangeStopped, now, json!({}))?.user(user_id);
        Stop { user_id, address, now }.record(app, transaction.db(), event).await?;
    }
    operator.event(EventName::UserSignedOut, now, json!({}))?.user(user_id).insert(transaction.db()).await?;
    finish(app, transaction).await?;
    Ok(user_id)
}

/// Removes a user from a workspace, and revokes their tokens for it.
pub async fn remove_member(
    app: &App,
    operator: &Operator,
    user_id: UserId,
    workspace_id: WorkspaceId,
) -> Result<(), RevocationError> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let event = operator.event(EventName::MemberRemoved, now, json!({}))?.user(user_id).in_workspace(workspace_id);
    if !transaction.remove_member(user_id, workspace_id, event).await? {
        return Err(RevocationError::NothingToRevoke);
    }
    finish(app, transaction).await?;
    Ok(())
}

/// Deletes a workspace, and revokes every token for it.
pub async fn delete_workspace(
    app: &App,
    operator: &Operator,
    workspace_id: WorkspaceId,
) -> Result<(), RevocationError> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let event = operator.event(EventName::WorkspaceDeleted, now, json!({}))?.in_workspace(workspace_id);
    if !transaction.delete_workspace(workspace_id, event).await? {
        return Err(RevocationError::NothingToRevoke);
    }
    finish(app, transaction).await?;
    Ok(())
}

/// Revokes every session and every token of all users, as after a restore. The database has lost the revocations that were
/// committed after the backup, so no older credential can be trusted. No account is erased for a week,
/// no address is changed that a user had wanted to change, and no passkeys are removed that a user had lost.
pub async fn bump_epoch(app: &App, operator: &Operator) -> anyhow::Result<Timestamp> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    transaction.revoke(Subject::AllUsers, Reason::RevokedByAdmin)?;
    operator.event(EventName::EpochBumped, now, json!({}))?.insert(transaction.db()).await?;
    finish(app, transaction).await?;
    // Requests to keep an account, an address or passkeys may be lost, too.
    let db = app.background_database.connect().await?;
    let kept = store::passkey_recoveries::delete_all(&db).await;
    kept.context("every credential is revoked, but removals of passkeys are not stopped: run it again")?;
    let stopped = store::address_changes::delete_all(&db).await;
    stopped.context("every credential is revoked, but the changes of addresses are not stopped: run it again")?;
    let postponed = store::account_deletions::postpone_all(&db, later(now, lifetimes::ERASURE_AFTER_RESTORE)).await;
    postponed
        .context("every credential is revoked, but the erasures of closed accounts are not postponed: run it again")?;
    Ok(Revocation::of(Subject::AllUsers, Reason::RevokedByAdmin, now).not_before)
}

/// Commits for an operator's command, which ends before its background work would notify the other nodes.
pub async fn finish(app: &App, transaction: RevocationTransaction<'_>) -> anyhow::Result<()> {
    transaction.commit().await?;
    if let Err(error) = notify_nodes(app).await {
        tracing::debug!(error = format!("{error:#}"), "Could not notify the other nodes");
    }
    Ok(())
}

/// Notifies the other nodes that there are revocations to read.
pub async fn notify_nodes(app: &App) -> anyhow::Result<()> {
    let db = app.background_database.connect().await?;
    Ok(store::revocations::notify(&db).await?)
}

/// Returns the user with an email address.
pub async fn find_user(app: &App, db: &Connection, address: &Address) -> Result<UserId, RevocationError> {
    let account = store::emails::find_user(db, email_key(app, db, address).await?).await?;
    Ok(account.ok_or(RevocationError::NothingToRevoke)?.user_id)
}
