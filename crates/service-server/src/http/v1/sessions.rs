//! `/v1/sessions`

use axum::{Json, extract::State};
use service_api::sessions::{MadeTreatment, OthersEnded, SessionPage};

use crate::{
    app::App,
    flows,
    http::{
        caller::{Read, Sessions, UserSession, Write},
        errors::{ApiError, MalformedRequest},
        paging,
        path::PathId,
        query::Query,
    },
};

pub async fn list(
    State(app): State<App>,
    caller: UserSession<Read<Sessions>>,
    query: Query,
) -> Result<Json<SessionPage>, ApiError> {
    Ok(Json(flows::sessions::list(&app, &caller.actor(), paging::page(&query)?).await?))
}

pub async fn end(
    State(app): State<App>,
    caller: UserSession<Write<Sessions>>,
    PathId(id): PathId,
    query: Query,
) -> Result<(), ApiError> {
    flows::sessions::revoke(&app, &caller.actor(), &id, made(&query)?).await?;
    Ok(())
}

pub async fn end_others(
    State(app): State<App>,
    caller: UserSession<Write<Sessions>>,
    query: Query,
) -> Result<Json<OthersEnded>, ApiError> {
    Ok(Json(flows::sessions::revoke_others(&app, &caller.actor(), caller.session, made(&query)?).await?))
}

/// How to treat what a revoked session made.
fn made(query: &Query) -> Result<MadeTreatment, ApiError> {
    let unknown = || MalformedRequest::Query("made must be recommended, keep or revoke.".into());
    Ok(MadeTreatment::parse(query.get("made")).ok_or_else(unknown)?)
}
