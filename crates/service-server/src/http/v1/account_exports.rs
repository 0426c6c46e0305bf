//! `/v1/account/exports`

use axum::{Json, extract::State, http::Method};
use service_api::account_exports::AccountExport;

use crate::{
    app::App,
    flows::account::export,
    http::{
        caller::{Read, RecentUserSession, Sessions, UserSession, Write},
        download::Download,
        errors::{ApiError, api},
        operation::Created,
        path::PathId,
        query::Query,
    },
};

pub async fn start(
    State(app): State<App>,
    caller: RecentUserSession<Write<Sessions>>,
    _: Query,
) -> Result<Created<AccountExport>, ApiError> {
    let started = export::start(&app, &caller.actor(), caller.sign_in).await;
    let started = started.map_err(|failure| api::account_export(failure, &app.config.base_url))?;
    Ok(Created::at(format!("/v1/account/exports/{}", started.id), started))
}

pub async fn read(
    State(app): State<App>,
    caller: UserSession<Read<Sessions>>,
    PathId(id): PathId,
    _: Query,
) -> Result<Json<AccountExport>, ApiError> {
    let found = export::find(&app, &caller.actor(), &id).await;
    Ok(Json(found.map_err(|failure| api::account_export(failure, &app.config.base_url))?))
}

/// Begins a download. A `HEAD` begins none.
pub async fn download(
    State(app): State<App>,
    caller: UserSession<Read<Sessions>>,
    PathId(id): PathId,
    _: Query,
    method: Method,
) -> Result<Download, ApiError> {
    let refused = |failure| api::account_export(failure, &app.config.base_url);
    if method == Method::HEAD {
        export::check_download(&app, &caller.actor(), &id).await.map_err(refused)?;
        return Ok(Download::empty());
    }
    let body = export::download(&app, &caller.actor(), &id).await.map_err(refused)?;
    Ok(Download::new(body))
}
