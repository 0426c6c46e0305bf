//! Forms with which a user answers invitations, wherever they are shown.

use axum::{Extension, extract::State, response::Response};

use crate::{
    app::App,
    flows::{
        Actor, RequestMeta,
        workspaces::{WorkspaceError, received_invitations},
    },
    http::{
        errors::ApiError,
        pages::{account::workspaces, request_browser::Form, see_other},
        path::PathId,
    },
};

pub async fn accept(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let Some(actor) = Actor::in_browser(&form.browser, &meta) else { return see_other("/sign-in") };
    match received_invitations::accept(&app, &actor, &id).await {
        Ok(workspace) => see_other(&format!("/workspaces/{}", workspace.id)),
        Err(failure) => workspaces::answer(&app, &meta, &form.browser, Err(failure)).await,
    }
}

pub async fn decline(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    decide(&app, &meta, &form, async |actor| received_invitations::decline(&app, actor, &id).await).await
}

pub async fn block(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    decide(&app, &meta, &form, async |actor| received_invitations::block(&app, actor, &id).await.map(drop)).await
}

pub async fn unblock(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    decide(&app, &meta, &form, async |actor| received_invitations::unblock(&app, actor, &id).await).await
}

/// Carries a decision out for the user who is signed in, and goes back to the list.
async fn decide(
    app: &App,
    meta: &RequestMeta,
    form: &Form,
    decision: impl AsyncFnOnce(&Actor<'_>) -> Result<(), WorkspaceError>,
) -> Result<Response, ApiError> {
    let Some(actor) = Actor::in_browser(&form.browser, meta) else { return see_other("/sign-in") };
    workspaces::answer(app, meta, &form.browser, decision(&actor).await).await
}
