//! `/v1/account/passkeys`

use axum::{Json, extract::State};
use service_api::{
    page::Page,
    passkeys::{Passkey, RenamePasskey},
};

use crate::{
    app::App,
    flows,
    http::{
        body::Body,
        caller::{Read, RecentUserSession, Sessions, UserSession, Write},
        errors::{ApiError, api},
        path::PathId,
        query::Query,
    },
};

pub async fn list(
    State(app): State<App>,
    caller: UserSession<Read<Sessions>>,
    _: Query,
) -> Result<Json<Page<Passkey>>, ApiError> {
    Ok(Json(flows::passkeys::list(&app, &caller.actor()).await?))
}

pub async fn rename(
    State(app): State<App>,
    caller: UserSession<Write<Sessions>>,
    PathId(id): PathId,
    Body(named): Body<RenamePasskey>,
) -> Result<Json<Passkey>, ApiError> {
    let renamed = flows::passkeys::rename(&app, &caller.actor(), &id, &named.name).await;
    Ok(Json(renamed.map_err(|failure| api::passkeys(failure, &app.config.base_url))?))
}

pub async fn remove(
    State(app): State<App>,
    caller: RecentUserSession<Write<Sessions>>,
    PathId(id): PathId,
    _: Query,
) -> Result<(), ApiError> {
    let removed = flows::passkeys::remove(&app, &caller.actor(), caller.sign_in, &id).await;
    removed.map_err(|failure| api::passkeys(failure, &app.config.base_url))?;
    Ok(())
}
