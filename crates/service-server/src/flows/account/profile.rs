//! The account itself: the address, and the name that members of the user's workspaces see.

use serde_json::json;
use service_api::{
    account::{Account, MAX_NAME},
    audit_events::EventName,
    ids::Id as _,
};
use service_rules::{
    limits::{Limited, Window},
    person_name::{PersonName, PersonNameError},
};

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        Actor, RequestMeta,
        account::{AccountError, actor},
        rate_limit::Limit,
        sign_in::browser_session::Browser,
    },
    store,
};

/// New names of a user that one day allows. Each one is an audit event.
const RENAMES: [Window; 1] = [Window { count: 20, seconds: 86_400 }];

/// Why the account was not read, or not renamed.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("the session ended while the request ran")]
    SessionEnded,
    #[error(transparent)]
    Name(#[from] PersonNameError),
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Returns the account of the user of a token.
pub async fn read(app: &App, actor: &Actor<'_>) -> Result<Account, ProfileError> {
    find(&app.database.connect().await?, actor).await
}

/// Changes the name of the user who is signed in with a browser.
pub async fn rename_from_browser(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    name: &str,
) -> Result<Account, AccountError> {
    Ok(rename(app, &actor(browser, meta)?, name).await?)
}

/// Changes the name of the user. A blank one removes it.
pub async fn rename(app: &App, actor: &Actor<'_>, name: &str) -> Result<Account, ProfileError> {
    let name = PersonName::parse(name, MAX_NAME, &app.config.brand.own_names)?;
    let now = app.clock.now();
    let db = app.database.begin().await?;
    if !actor.hold_session(&db).await? {
        return Err(ProfileError::SessionEnded);
    }
    if store::users::update_name(&db, actor.user_id, name.as_ref()).await? {
        let whom = actor.user_id.uuid();
        let limit = Limit { policy: "account-renames", whom: whom.as_bytes() };
        if let Some(limited) = limit.take_in_windows(app, &db, &RENAMES, now).await? {
            return Err(limited.into());
        }
        let details = json!({ "by": actor.basis.to_string() });
        actor.user_event(EventName::AccountRenamed, now, details)?.insert(&db).await?;
    }
    let renamed = find(&db, actor).await?;
    db.commit().await?;
    Ok(renamed)
}

async fn find(db: &Connection, actor: &Actor<'_>) -> Result<Account, ProfileError> {
    let user = store::users::find(db, actor.user_id).await?.ok_or(ProfileError::SessionEnded)?;
    Ok(user.account(actor.user_id))
}
