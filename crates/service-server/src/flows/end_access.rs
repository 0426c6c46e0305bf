//! Ending access before its time: everything that ends a credential goes through here.
//!
//! What ended is written in the transaction that ends it, so there is never the one without the other. When it has been
//! committed, this node knows it at once and the others are told.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{CliTokenId, GrantId, UserId, WorkspaceId},
};
use service_rules::{
    Timestamp,
    email::Address,
    revocation::{Ending, Subject},
};

use crate::{
    app::App,
    database::{Connection, Error},
    mint, revocation_feed,
    store::{self, audit_events::Event, grants::Which},
};

/// A transaction that ends something.
pub struct EndingTransaction<'a> {
    app: &'a App,
    db: Connection,
    now: Timestamp,
    endings: Vec<Ending>,
}

impl<'a> EndingTransaction<'a> {
    pub async fn begin(app: &'a App, now: Timestamp) -> Result<Self, Error> {
        let db = app.database.begin().await?;
        if app.clock.is_off(now, store::database_time(&db).await?) {
            // By a clock that is slow, what ends now would have ended before it began.
            return Err(Error::Unavailable("this machine's clock differs from the database's".into()));
        }
        Ok(Self { app, db, now, endings: Vec::new() })
    }

    #[must_use]
    pub fn db(&self) -> &Connection {
        &self.db
    }

    /// Ends every token of the subject that was issued until now.
    pub async fn end(&mut self, subject: Subject, because: Reason) -> anyhow::Result<()> {
        let ending = Ending::of(subject, because, self.now);
        store::revocations::insert(&self.db, mint::id(self.now)?, &ending).await?;
        self.endings.push(ending);
        Ok(())
    }

    /// Ends a grant with all its tokens; `false`: it had been ended already.
    ///
    /// Whoever asks a second time may do so because the first answer was 503. So something is written all the same, and
    /// its commit is confirmed only if the first one is.
    pub async fn end_grant(&mut self, id: GrantId, because: Reason) -> anyhow::Result<bool> {
        let ended = store::grants::mark_revoked(&self.db, id, because, self.now).await?;
        if ended {
            self.end(Subject::Grant(id), because).await?;
        } else {
            store::grants::touch(&self.db, id).await?;
        }
        Ok(ended)
    }

    /// Ends a token for automation; `false`: it had been ended already, see [`Self::end_grant`].
    pub async fn end_cli_token(&mut self, id: CliTokenId, because: Reason) -> anyhow::Result<bool> {
        let ended = store::cli_tokens::mark_revoked(&self.db, id, because, self.now).await?;
        if ended {
            self.end(Subject::CliToken(id), because).await?;
        } else {
            store::cli_tokens::touch(&self.db, id).await?;
        }
        Ok(ended)
    }

    /// Ends all grants of a user but one; returns how many.
    pub async fn end_grants_of(&mut self, user_id: UserId, which: Which, because: Reason) -> anyhow::Result<usize> {
        let ended = store::grants::mark_all_revoked(&self.db, user_id, which, because, self.now).await?;
        let made =
            ended.into_iter().map(|id| Ok((mint::id(self.now)?, Ending::of(Subject::Grant(id), because, self.now))));
        let made = made.collect::<anyhow::Result<Vec<_>>>()?;
        store::revocations::insert_grants(&self.db, &made).await?;
        let count = made.len();
        self.endings.extend(made.into_iter().map(|(_, ending)| ending));
        Ok(count)
    }

    pub async fn commit(self) -> Result<(), Error> {
        self.db.commit().await?;
        self.app.revocations.committed(self.endings);
        Ok(())
    }
}

/// There is nothing that could end.
#[derive(Debug)]
pub struct NothingToEnd;

/// Ends all sessions of a user and lets nobody sign in as them.
pub async fn disable_user(app: &App, address: &Address) -> anyhow::Result<Result<UserId, NothingToEnd>> {
    let now = app.clock.now();
    let mut transaction = EndingTransaction::begin(app, now).await?;
    let Some(user_id) = find_user(transaction.db(), address).await? else { return Ok(Err(NothingToEnd)) };
    if !store::users::mark_disabled(transaction.db(), user_id, Some(now)).await? {
        return Ok(Err(NothingToEnd));
    }
    let because = Reason::UserDisabled;
    transaction.end_grants_of(user_id, Which::All, because).await?;
    store::cli_tokens::mark_all_revoked(transaction.db(), user_id, None, because, now).await?;
    store::browser_sessions::delete_by_user(transaction.db(), user_id, None).await?;
    transaction.end(Subject::User(user_id), because).await?;
    record(transaction.db(), EventName::UserDisabled, Some(user_id), None, now).await?;
    finish(app, transaction).await?;
    Ok(Ok(user_id))
}

/// Lets a disabled user sign in again. The sessions that were ended stay ended.
pub async fn enable_user(app: &App, address: &Address) -> anyhow::Result<Result<UserId, NothingToEnd>> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    let Some(user_id) = find_user(&db, address).await? else { return Ok(Err(NothingToEnd)) };
    if !store::users::mark_disabled(&db, user_id, None).await? {
        return Ok(Err(NothingToEnd));
    }
    record(&db, EventName::UserEnabled, Some(user_id), None, now).await?;
    db.commit().await?;
    Ok(Ok(user_id))
}

/// Ends all sessions of a user, who may sign in again. Tokens for automation go on.
pub async fn sign_out_user(app: &App, address: &Address) -> anyhow::Result<Result<UserId, NothingToEnd>> {
    let now = app.clock.now();
    let mut transaction = EndingTransaction::begin(app, now).await?;
    let Some(user_id) = find_user(transaction.db(), address).await? else { return Ok(Err(NothingToEnd)) };
    // Whoever signs in at this moment has done so before, or does so after.
    store::users::lock(transaction.db(), user_id).await?;
    let because = Reason::RevokedByAdmin;
    transaction.end_grants_of(user_id, Which::All, because).await?;
    store::browser_sessions::delete_by_user(transaction.db(), user_id, None).await?;
    record(transaction.db(), EventName::UserSignedOut, Some(user_id), None, now).await?;
    finish(app, transaction).await?;
    Ok(Ok(user_id))
}

/// Takes a user out of a workspace, and ends their tokens for it.
pub async fn remove_member(
    app: &App,
    user_id: UserId,
    workspace_id: WorkspaceId,
) -> anyhow::Result<Result<(), NothingToEnd>> {
    let now = app.clock.now();
    let mut transaction = EndingTransaction::begin(app, now).await?;
    store::users::lock(transaction.db(), user_id).await?;
    store::workspaces::lock(transaction.db(), workspace_id).await?;
    if !store::memberships::mark_ended(transaction.db(), user_id, workspace_id, now).await? {
        return Ok(Err(NothingToEnd));
    }
    store::invitations::delete_by_member(transaction.db(), workspace_id, user_id).await?;
    // For good: whoever is let in again signs in again, and what was stolen before stays worthless.
    let because = Reason::WorkspaceRemoved;
    transaction.end_grants_of(user_id, Which::For(workspace_id), because).await?;
    store::cli_tokens::mark_all_revoked(transaction.db(), user_id, Some(workspace_id), because, now).await?;
    transaction.end(Subject::Membership(user_id, workspace_id), Reason::WorkspaceRemoved).await?;
    record(transaction.db(), EventName::MemberRemoved, Some(user_id), Some(workspace_id), now).await?;
    finish(app, transaction).await?;
    Ok(Ok(()))
}

/// Deletes a workspace, and ends every token for it.
pub async fn delete_workspace(app: &App, workspace_id: WorkspaceId) -> anyhow::Result<Result<(), NothingToEnd>> {
    let now = app.clock.now();
    let mut transaction = EndingTransaction::begin(app, now).await?;
    if !store::workspaces::mark_deleted(transaction.db(), workspace_id, now).await? {
        return Ok(Err(NothingToEnd));
    }
    store::memberships::mark_all_ended(transaction.db(), workspace_id, now).await?;
    store::invitations::delete_by_workspace(transaction.db(), workspace_id).await?;
    store::cli_tokens::mark_revoked_for(transaction.db(), workspace_id, Reason::WorkspaceRemoved, now).await?;
    transaction.end(Subject::Workspace(workspace_id), Reason::WorkspaceRemoved).await?;
    record(transaction.db(), EventName::WorkspaceDeleted, None, Some(workspace_id), now).await?;
    finish(app, transaction).await?;
    Ok(Ok(()))
}

/// Ends every session and every token of everybody, as after a restore: what was ended after the moment that was
/// restored is not known to the database any more, so nothing that is older than this can be trusted.
pub async fn bump_epoch(app: &App) -> anyhow::Result<Timestamp> {
    let now = app.clock.now();
    let mut transaction = EndingTransaction::begin(app, now).await?;
    transaction.end(Subject::Everybody, Reason::RevokedByAdmin).await?;
    record(transaction.db(), EventName::EpochBumped, None, None, now).await?;
    finish(app, transaction).await?;
    Ok(Ending::of(Subject::Everybody, Reason::RevokedByAdmin, now).not_before)
}

/// An operator's command ends before its background work would ring.
pub async fn finish(app: &App, transaction: EndingTransaction<'_>) -> anyhow::Result<()> {
    transaction.commit().await?;
    if let Err(error) = revocation_feed::ring_now(app).await {
        tracing::debug!(error = format!("{error:#}"), "Could not ring");
    }
    Ok(())
}

async fn find_user(db: &Connection, address: &Address) -> Result<Option<UserId>, Error> {
    Ok(store::emails::find_user(db, address).await?.map(|account| account.user_id))
}

async fn record(
    db: &Connection,
    event: EventName,
    user_id: Option<UserId>,
    workspace_id: Option<WorkspaceId>,
    now: Timestamp,
) -> anyhow::Result<()> {
    let event = Event {
        id: mint::id(now)?,
        at: now,
        event,
        user_id,
        client_id: None,
        workspace_id,
        subject: None,
        address: None,
        request_id: None,
        details: json!({}),
    };
    Ok(store::audit_events::insert(db, &event).await?)
}
