//! Deleting an account. It is closed at once, and erased after 14 days.
//!
//! 1. The user signed in within the last 15 minutes, by a passkey if one counts. User, session and the workspaces that the user owns
//!    are locked. A workspace with other members needs another owner first.
//! 2. In one transaction: the user is disabled, every credential is revoked, and the erasure is stored with the key of a link that
//!    keeps the account. A mail has the link.
//! 3. Until then the link undoes it (`keep.rs`), and so does the report of the sign-in that requested it. A user who signs in
//!    meanwhile is shown the link.
//! 4. A background task erases the account (`erasure.rs`).
//!
//! After a restore, requests from after the backup are repeated (`after_restore.rs`).

pub mod after_restore;
pub mod by_operator;
pub mod erasure;
pub mod keep;

use serde_json::json;
use service_api::{
    account_deletion::AccountDeletion,
    audit_events::EventName,
    ids::{Id as _, UserId, WorkspaceId},
    token::{KeepAccount, Token},
};
use service_rules::{
    lifetimes,
    limits::{Limited, Window},
    signing::later,
};
use tokio::try_join;
use uuid::Uuid;

use crate::{
    app::App,
    crypto::{random, root_keys::Purpose},
    database::{self, Connection},
    flows::{
        Actor, RequestMeta,
        account::{AccountError, actor},
        rate_limit::Limit,
        revocation::RevocationTransaction,
        sign_in::{
            browser_session::Browser,
            step_up::{self, RecentSignIn},
        },
        sso::break_glass,
    },
    mail::Email,
    store::{
        self,
        account_deletions::{KeepKey, NewAccountDeletion},
        workspaces::StoredWorkspace,
    },
};

/// Requests of a user that one day allows. Each one sends a mail.
const REQUESTS: [Window; 1] = [Window { count: 3, seconds: 86_400 }];

/// Why an account was not closed.
#[derive(Debug, thiserror::Error)]
pub enum DeletionError {
    #[error("the session ended while the request ran")]
    SessionEnded,
    #[error("workspaces would be left without an owner")]
    Needed(WorkspacesOfLeaver),
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// What becomes of the workspaces that a leaving user owns, by name. Others that the user is in are only left.
#[derive(Debug, Default)]
pub struct WorkspacesOfLeaver {
    /// No other member is in them: they are erased with the account.
    pub erased: Vec<ErasedWorkspace>,
    /// Their other members, or those who join through a connection to an identity provider, would have no owner.
    pub without_owner: Vec<String>,
    /// Single sign-on is required, and no other owner could sign in without it.
    pub without_break_glass: Vec<String>,
}

/// A workspace that is erased with the account of its owner.
#[derive(Debug)]
pub struct ErasedWorkspace {
    pub id: WorkspaceId,
    pub name: String,
}

impl WorkspacesOfLeaver {
    /// Whether the user can leave now.
    #[must_use]
    pub fn can_be_left(&self) -> bool {
        self.without_owner.is_empty() && self.without_break_glass.is_empty()
    }

    /// The ids of the workspaces that are erased.
    fn erased_ids(&self) -> Vec<WorkspaceId> {
        self.erased.iter().map(|workspace| workspace.id).collect()
    }

    /// The names of the workspaces that are erased.
    #[must_use]
    fn into_erased_names(self) -> Vec<String> {
        self.erased.into_iter().map(|workspace| workspace.name).collect()
    }
}

/// An account that is closed and not yet erased, for its user who tries to sign in.
#[derive(Debug)]
pub struct ClosedAccount {
    /// The secret of the link that keeps the account.
    pub link: Token<KeepAccount>,
}

/// What becomes of the workspaces of the user who is signed in with a browser.
pub async fn list_workspaces(app: &App, browser: &Browser) -> Result<WorkspacesOfLeaver, AccountError> {
    let user_id = super::signed_in(browser)?.user_id;
    Ok(judge_workspaces(&app.database.connect().await?, user_id, false).await?)
}

/// Closes the account of the user who is signed in with a browser.
pub async fn request_from_browser(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
) -> Result<AccountDeletion, AccountError> {
    let actor = actor(browser, meta)?;
    let sign_in = step_up::require_recent_sign_in(app, &actor).await?;
    Ok(request(app, &actor, sign_in).await?)
}

/// Closes the account of the user of a token.
pub async fn request(app: &App, actor: &Actor<'_>, _: RecentSignIn) -> Result<AccountDeletion, DeletionError> {
    let (user_id, now) = (actor.user_id, app.clock.now());
    // What is refused locks nothing that others wait for.
    let workspaces = judge_workspaces(&app.database.connect().await?, user_id, false).await?;
    if !workspaces.can_be_left() {
        return Err(DeletionError::Needed(workspaces));
    }
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    actor.hold(transaction.db(), now).await?.ok_or(DeletionError::SessionEnded)?;
    let workspaces = judge_workspaces(transaction.db(), user_id, true).await?;
    if !workspaces.can_be_left() {
        return Err(DeletionError::Needed(workspaces));
    }
    let whom = user_id.uuid();
    let limit = Limit { policy: "account-deletions", whom: whom.as_bytes() };
    if let Some(limited) = limit.take_in_windows(app, transaction.db(), &REQUESTS, now).await? {
        return Err(limited.into());
    }
    transaction.close_account(user_id).await?;
    let db = transaction.db();
    let id = random::uuid(now)?;
    let key_id = app.root_keys.key_in_use();
    let link = derive_link(app, key_id, user_id, id).ok_or_else(|| anyhow::anyhow!("no root key is in use"))?;
    let due_at = later(now, lifetimes::ACCOUNT_DELETION);
    let session_id = actor.basis.to_string();
    let new = NewAccountDeletion {
        user_id,
        id,
        link: Some((KeepKey::of(&link), key_id)),
        session_id: Some(session_id.clone()),
        requested_at: now,
        due_at,
    };
    store::account_deletions::insert(db, &new).await?;
    let details = json!({
        "by": session_id,
        "erasedOn": due_at,
        "deletion": id,
        "rootKey": key_id,
        "workspaces": workspaces.erased_ids(),
    });
    actor.user_event(EventName::AccountDeletionRequested, now, details)?.insert(db).await?;
    let address = store::users::find_address(db, user_id).await?.ok_or(DeletionError::SessionEnded)?;
    let mail = Email::AccountClosed {
        to: address.as_str().to_owned(),
        at: now,
        from: Some(actor.meta.address.to_string()),
        erased_on: due_at,
        workspaces: workspaces.into_erased_names(),
        keep: Some(link),
    };
    mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?;
    transaction.commit().await?;
    app.metrics.account.deletions_requested.inc();
    app.mail_waiting.notify_one();
    Ok(AccountDeletion { erased_on: due_at })
}

/// The link that replaced a leaked one.
pub(in crate::flows) struct ReplacedLink {
    pub(in crate::flows) user_id: UserId,
    /// What its secret is derived from, for the audit event.
    pub(in crate::flows) id: Uuid,
    pub(in crate::flows) key_id: u8,
}

/// Gives the account of a leaked link another one, and mails it: the finder must not open the account. `None`: the link was used, or
/// it is too late.
pub(in crate::flows) async fn replace_link(
    app: &App,
    db: &Connection,
    leaked: &Token<KeepAccount>,
) -> anyhow::Result<Option<ReplacedLink>> {
    let (old, now) = (KeepKey::of(leaked), app.clock.now());
    let Some((user_id, erased_on)) = store::account_deletions::find_by_link(db, &old).await? else { return Ok(None) };
    let (id, key_id) = (random::uuid(now)?, app.root_keys.key_in_use());
    let link = derive_link(app, key_id, user_id, id).ok_or_else(|| anyhow::anyhow!("no root key is in use"))?;
    if !store::account_deletions::replace_link(db, &old, id, &KeepKey::of(&link), key_id).await? {
        return Ok(None);
    }
    if let Some(user) = store::users::find(db, user_id).await? {
        let mail = Email::AccountLinkReplaced { to: user.email, erased_on, keep: link };
        mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?;
    }
    Ok(Some(ReplacedLink { user_id, id, key_id }))
}

/// What becomes of the workspaces that a user owns. Locked, they stay as they are until the transaction ends.
pub(super) async fn judge_workspaces(
    db: &Connection,
    user_id: UserId,
    lock: bool,
) -> Result<WorkspacesOfLeaver, database::Error> {
    let owned = store::memberships::list_owned(db, user_id).await?;
    if lock {
        store::workspaces::lock_several(db, &owned).await?;
    }
    let (others, connected) = try_join!(
        store::members::find_others(db, &owned, user_id),
        store::connections::find_workspaces_with_some(db, &owned),
    )?;
    let (mut judged, mut found) = (WorkspacesOfLeaver::default(), store::workspaces::find_several(db, &owned).await?);
    for id in owned {
        let Some(StoredWorkspace { name, .. }) = found.remove(&id) else { continue };
        let others = others.get(&id).copied().unwrap_or_default();
        // Through a connection, members may join until the account is erased.
        let can_grow = connected.contains(&id);
        if !can_grow && !others.has_member {
            judged.erased.push(ErasedWorkspace { id, name });
        } else if !others.has_owner {
            judged.without_owner.push(name);
        } else if can_grow && !break_glass::remains(db, id, user_id).await? {
            judged.without_break_glass.push(name);
        }
    }
    Ok(judged)
}

/// The account of a user who proved who they are and is disabled, if the user closed it and it can still be kept.
pub(in crate::flows) async fn find_closed(
    app: &App,
    db: &Connection,
    user_id: UserId,
) -> Result<Option<ClosedAccount>, database::Error> {
    let Some(found) = store::account_deletions::find(db, user_id).await? else { return Ok(None) };
    let Some(key_id) = found.mac_key.filter(|_| found.begun_at.is_none()) else { return Ok(None) };
    Ok(derive_link(app, key_id, user_id, found.id).map(|link| ClosedAccount { link }))
}

/// The secret of the link that keeps an account. It is derived, so that a user who signs in gets the same one as by mail.
/// `None`: the root key is not configured.
fn derive_link(app: &App, key_id: u8, user_id: UserId, id: Uuid) -> Option<Token<KeepAccount>> {
    let whom = user_id.uuid();
    let parts: [&[u8]; 2] = [whom.as_bytes(), id.as_bytes()];
    let secret = app.root_keys.mac_under(key_id, Purpose::KeepAccount, &parts)?;
    Some(Token::in_shard(user_id.shard(), secret))
}
