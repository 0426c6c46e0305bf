//! `/v1/sessions`

use axum::{Json, extract::State};
use service_api::{
    secure_account::{SecureAccount, SecuredAccount},
    sessions::{MadeTreatment, OthersEnded, SessionPage},
};
use service_rules::{cli_tokens::FieldError, passkeys::MAX_PASSKEYS};

use crate::{
    app::App,
    flows,
    http::{
        body::Body,
        caller::{Read, RecentUserSession, Sessions, UserSession, Write},
        errors::{ApiError, MalformedRequest, api},
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

pub async fn secure(
    State(app): State<App>,
    caller: RecentUserSession<Write<Sessions>>,
    Body(request): Body<SecureAccount>,
) -> Result<Json<SecuredAccount>, ApiError> {
    if request.keep_passkeys.as_ref().is_some_and(|keep| keep.len() > MAX_PASSKEYS) {
        return Err(
            FieldError { field: "keepPasskeys", message: format!("must have at most {MAX_PASSKEYS} IDs") }.into()
        );
    }
    let secured = flows::account::secure::secure(&app, &caller.actor(), caller.sign_in, &request).await;
    Ok(Json(secured.map_err(|failure| api::secure_account(failure, &app.config.base_url))?))
}

/// How to treat what a revoked session made.
fn made(query: &Query) -> Result<MadeTreatment, ApiError> {
    let unknown = || MalformedRequest::Query("made must be recommended, keep or revoke.".into());
    Ok(MadeTreatment::parse(query.get("made")).ok_or_else(unknown)?)
}
