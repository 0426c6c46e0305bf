//! Erasing an account for an operator: it is closed at once, and erased after 24 hours. Operators can stop it until then, the user
//! cannot.

use serde_json::json;
use service_api::{audit_events::EventName, ids::UserId};
use service_rules::{Timestamp, email::Address, lifetimes, signing::later};

use crate::{
    app::App,
    crypto::random,
    database,
    flows::{
        account::deletion::{WorkspacesOfLeaver, judge_workspaces},
        operator::Operator,
        revocation::{self, RevocationError, RevocationTransaction, find_user},
    },
    mail::Email,
    store::{self, account_deletions::NewAccountDeletion},
};

/// Why an account is not going to be erased.
#[derive(Debug, thiserror::Error)]
pub enum EraseUserError {
    #[error("there is no such user, or it is being erased already")]
    NothingToErase,
    #[error("workspaces would be left without an owner")]
    Needed(WorkspacesOfLeaver),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

impl From<RevocationError> for EraseUserError {
    fn from(error: RevocationError) -> Self {
        match error {
            RevocationError::NothingToRevoke | RevocationError::BeingErased => Self::NothingToErase,
            RevocationError::Database(error) => error.into(),
            RevocationError::Defect(error) => error.into(),
        }
    }
}

/// Closes an account, and has it erased; returns when. A deletion that its user requested gives way, and may then be later.
pub async fn erase_user(
    app: &App,
    operator: &Operator,
    address: &Address,
) -> Result<(UserId, Timestamp), EraseUserError> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let user_id = find_user(app, transaction.db(), address).await?;
    store::users::lock(transaction.db(), user_id).await?;
    let workspaces = judge_workspaces(transaction.db(), user_id, true).await?;
    if !workspaces.can_be_left() {
        return Err(EraseUserError::Needed(workspaces));
    }
    transaction.close_account(user_id).await?;
    let db = transaction.db();
    let due_at = later(now, lifetimes::OPERATOR_ERASURE);
    let id = random::uuid(now)?;
    let new = NewAccountDeletion { user_id, id, link: None, session_id: None, requested_at: now, due_at };
    if !store::account_deletions::insert(db, &new).await? {
        return Err(EraseUserError::NothingToErase);
    }
    let details = json!({ "erasedOn": due_at, "workspaces": workspaces.erased_ids() });
    let event = operator.event(EventName::AccountDeletionRequested, now, details)?;
    event.user(user_id).insert(db).await?;
    let mail = Email::AccountClosed {
        to: address.as_str().to_owned(),
        at: now,
        from: None,
        erased_on: due_at,
        workspaces: workspaces.into_erased_names(),
        keep: None,
    };
    mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?;
    revocation::finish(app, transaction).await?;
    Ok((user_id, due_at))
}

/// Stops an erasure that an operator requested. The account stays disabled.
pub async fn stop_erasure(app: &App, operator: &Operator, address: &Address) -> Result<UserId, RevocationError> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    let user_id = find_user(app, &db, address).await?;
    store::users::lock(&db, user_id).await?;
    if !store::account_deletions::delete_of_operator(&db, user_id).await? {
        return Err(RevocationError::NothingToRevoke);
    }
    operator.event(EventName::AccountKept, now, json!({}))?.user(user_id).insert(&db).await?;
    db.commit().await?;
    Ok(user_id)
}
