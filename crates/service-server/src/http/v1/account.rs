//! `/v1/account`

use axum::{Json, extract::State};
use service_api::{
    account::{Account, RenameAccount},
    account_deletion::AccountDeletion,
};

use crate::{
    app::App,
    flows::account::{deletion, passkey_requirement, profile},
    http::{
        body::Body,
        caller::{Read, RecentUserSession, Sessions, UserSession, Write},
        errors::{ApiError, api},
        query::Query,
    },
};

pub async fn read(
    State(app): State<App>,
    caller: UserSession<Read<Sessions>>,
    _: Query,
) -> Result<Json<Account>, ApiError> {
    let found = profile::read(&app, &caller.actor()).await;
    Ok(Json(found.map_err(|failure| api::profile(failure, &app.config.base_url))?))
}

pub async fn rename(
    State(app): State<App>,
    caller: UserSession<Write<Sessions>>,
    Body(named): Body<RenameAccount>,
) -> Result<Json<Account>, ApiError> {
    let renamed = profile::rename(&app, &caller.actor(), &named.name).await;
    Ok(Json(renamed.map_err(|failure| api::profile(failure, &app.config.base_url))?))
}

/// Requires a passkey to sign in.
pub async fn require_passkey(
    State(app): State<App>,
    caller: RecentUserSession<Write<Sessions>>,
    _: Query,
) -> Result<Json<Account>, ApiError> {
    let account = passkey_requirement::set(&app, &caller.actor(), caller.sign_in, true).await;
    Ok(Json(account.map_err(|failure| api::passkey_requirement(failure, &app.config.base_url))?))
}

/// Allows to sign in by code again.
pub async fn allow_codes(
    State(app): State<App>,
    caller: RecentUserSession<Write<Sessions>>,
    _: Query,
) -> Result<(), ApiError> {
    let account = passkey_requirement::set(&app, &caller.actor(), caller.sign_in, false).await;
    account.map(drop).map_err(|failure| api::passkey_requirement(failure, &app.config.base_url))
}

/// Closes the account, with the session of this request.
pub async fn delete(
    State(app): State<App>,
    caller: RecentUserSession<Write<Sessions>>,
    _: Query,
) -> Result<Json<AccountDeletion>, ApiError> {
    let closed = deletion::request(&app, &caller.actor(), caller.sign_in).await;
    Ok(Json(closed.map_err(|failure| api::account_deletion(failure, &app.config.base_url))?))
}
