//! The passkeys of a user: listing, renaming and removing them (`/v1/account/passkeys` and the account page).
//!
//! 1. The user and the session or browser that the request acts by are locked, so that a request that waited while they were
//!    revoked changes nothing.
//! 2. The passkey is renamed, or removed with a mail to its user. Removing needs a recent sign-in: the last passkey that is
//!    removed leaves only the mailbox.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{Id as _, PasskeyId, UserId},
    page::Page,
    passkeys::{MAX_NAME, Passkey},
};
use service_rules::{
    Timestamp,
    display_name::{DisplayName, DisplayNameError},
    lifetimes,
    signing::later,
};

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        Actor,
        account::passkey_requirement,
        recovery_codes::{self, RemovedBy},
        sign_in::{relying_party::RelyingParty, step_up::RecentSignIn},
    },
    mail::Email,
    store::{self, deletions::ContentKey, passkeys::ListedPasskey},
};

/// Why a passkey was not renamed or removed.
#[derive(Debug, thiserror::Error)]
pub enum PasskeyChangeError {
    #[error("the user has no such passkey")]
    NotFound,
    #[error("the session ended while the request ran")]
    SessionEnded,
    #[error(transparent)]
    Name(#[from] DisplayNameError),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Whether users of this installation can have passkeys.
#[must_use]
pub fn are_available(app: &App) -> bool {
    RelyingParty::of(app).is_some()
}

/// Lists the passkeys of the user, the newest first. A user has so few that they are on one page.
pub async fn list(app: &App, actor: &Actor<'_>) -> Result<Page<Passkey>, database::Error> {
    let db = app.database.connect().await?;
    let listed = store::passkeys::list_by_user(&db, actor.user_id).await?;
    Ok(Page { data: listed.into_iter().map(view).collect(), next_cursor: None })
}

/// Renames a passkey of the user.
pub async fn rename(app: &App, actor: &Actor<'_>, id: &str, name: &str) -> Result<Passkey, PasskeyChangeError> {
    let id: PasskeyId = id.parse().map_err(|_| PasskeyChangeError::NotFound)?;
    let name = parse_name(app, name)?;
    let now = app.clock.now();
    let db = app.database.begin().await?;
    if !actor.hold_session(&db).await? {
        return Err(PasskeyChangeError::SessionEnded);
    }
    let found = store::passkeys::lock(&db, actor.user_id, id).await?.ok_or(PasskeyChangeError::NotFound)?;
    // The row is written also without a change, so that a repeated request is confirmed only if the first one was.
    store::passkeys::update_name(&db, actor.user_id, id, &name).await?;
    if found.name != name.as_str() {
        actor.event(EventName::PasskeyRenamed, now, json!({}))?.subject(id).insert(&db).await?;
    }
    db.commit().await?;
    Ok(view(ListedPasskey { name: name.into_string(), ..found }))
}

/// Removes a passkey of the user; returns its name. `None`: it was removed before, and removing it again changes nothing.
pub async fn remove(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    id: &str,
) -> Result<Option<String>, PasskeyChangeError> {
    let id: PasskeyId = id.parse().map_err(|_| PasskeyChangeError::NotFound)?;
    let now = app.clock.now();
    let db = app.database.begin().await?;
    actor.hold(&db, now).await?.ok_or(PasskeyChangeError::SessionEnded)?;
    let removed = ContentKey { space_id: actor.user_id.uuid(), kind: PasskeyId::KIND, id: id.uuid() };
    let name = store::passkeys::delete(&db, actor.user_id, id).await?;
    if let Some(name) = &name {
        store::deletions::insert(&db, removed, now).await?;
        if store::passkeys::count_by_user(&db, actor.user_id).await? == 0 {
            let by = RemovedBy::Request(actor.meta);
            store::passkey_recoveries::delete(&db, actor.user_id).await?;
            recovery_codes::remove(app, by, &db, actor.user_id).await?;
            passkey_requirement::end_without_passkey(app, by, &db, actor.user_id).await?;
        }
        let details = json!({ "by": actor.basis.to_string() });
        actor.event(EventName::PasskeyRemoved, now, details)?.subject(id).insert(&db).await?;
        enqueue_mail(app, &db, actor, name.clone(), now).await?;
    } else if !store::deletions::touch(&db, removed).await? {
        return Err(PasskeyChangeError::NotFound);
    }
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(name)
}

/// Tells the user that a passkey was removed.
async fn enqueue_mail(
    app: &App,
    db: &Connection,
    actor: &Actor<'_>,
    name: String,
    now: Timestamp,
) -> Result<(), PasskeyChangeError> {
    let mail = Email::PasskeyRemoved {
        to: find_email(db, actor.user_id).await?,
        name,
        at: now,
        from: actor.meta.address.to_string(),
        language: actor.meta.language,
    };
    Ok(mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?)
}

/// Checks the name of a passkey.
pub(super) fn parse_name(app: &App, name: &str) -> Result<DisplayName, DisplayNameError> {
    DisplayName::parse(name, MAX_NAME, &app.config.brand.own_names)
}

/// The address of a user with a passkey.
pub(super) async fn find_email(db: &Connection, user_id: UserId) -> anyhow::Result<String> {
    let user = store::users::find(db, user_id).await?;
    Ok(user.ok_or_else(|| anyhow::anyhow!("a passkey is of a user who does not exist"))?.email)
}

/// A passkey as the API shows it.
fn view(passkey: ListedPasskey) -> Passkey {
    let ListedPasskey { id, name, is_backed_up, created_at, last_used_at, .. } = passkey;
    Passkey { id, name, backed_up: is_backed_up, created_at, last_used_at }
}
