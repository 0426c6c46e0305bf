//! `/v1/workspaces`

use axum::{Extension, Json, extract::State, http::StatusCode};
use service_api::{
    page::Page,
    workspaces::{ChangeRole, Invitation, Invite, Member, NameWorkspace, Workspace},
};

use crate::{
    app::App,
    flows::{
        Asker, invitations,
        workspaces::{self, Caller as Asking},
    },
    http::{
        body::Body,
        caller::{Caller, Read, SignedIn, Workspaces, Write},
        error::ApiError,
        paging,
        path::{PathId, PathIds},
        query::Query,
    },
};

fn asking<'a, S>(caller: &'a Caller<S>, asker: &'a Asker) -> Asking<'a> {
    Asking { credential: caller.credential(), asker }
}

fn deciding<'a, S>(caller: &'a SignedIn<S>, asker: &'a Asker) -> Asking<'a> {
    Asking { credential: caller.credential(), asker }
}

pub async fn list(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: Caller<Read<Workspaces>>,
    query: Query,
) -> Result<Json<Page<Workspace>>, ApiError> {
    let limit = paging::limit(&query)?;
    Ok(Json(workspaces::list(&app, &asking(&caller, &asker), limit, query.get("cursor")).await?))
}

pub async fn create(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: Caller<Write<Workspaces>>,
    Body(named): Body<NameWorkspace>,
) -> Result<(StatusCode, Json<Workspace>), ApiError> {
    let made = workspaces::create(&app, &asking(&caller, &asker), &named.name).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

pub async fn read(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: Caller<Read<Workspaces>>,
    PathId(id): PathId,
    _: Query,
) -> Result<Json<Workspace>, ApiError> {
    Ok(Json(workspaces::find(&app, &asking(&caller, &asker), &id).await?))
}

pub async fn rename(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: Caller<Write<Workspaces>>,
    PathId(id): PathId,
    Body(named): Body<NameWorkspace>,
) -> Result<Json<Workspace>, ApiError> {
    Ok(Json(workspaces::rename(&app, &asking(&caller, &asker), &id, &named.name).await?))
}

pub async fn delete(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: SignedIn<Write<Workspaces>>,
    PathId(id): PathId,
    _: Query,
) -> Result<StatusCode, ApiError> {
    workspaces::delete(&app, &deciding(&caller, &asker), &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn members(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: Caller<Read<Workspaces>>,
    PathId(id): PathId,
    query: Query,
) -> Result<Json<Page<Member>>, ApiError> {
    let page = (paging::limit(&query)?, query.get("cursor"));
    Ok(Json(workspaces::members(&app, &asking(&caller, &asker), &id, page).await?))
}

pub async fn change_role(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: SignedIn<Write<Workspaces>>,
    PathIds(id, member): PathIds,
    Body(change): Body<ChangeRole>,
) -> Result<Json<Member>, ApiError> {
    Ok(Json(workspaces::change_role(&app, &deciding(&caller, &asker), (&id, &member), &change).await?))
}

pub async fn remove_member(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: SignedIn<Write<Workspaces>>,
    PathIds(id, member): PathIds,
    _: Query,
) -> Result<StatusCode, ApiError> {
    workspaces::remove_member(&app, &deciding(&caller, &asker), &id, &member).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn list_invitations(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: Caller<Read<Workspaces>>,
    PathId(id): PathId,
    query: Query,
) -> Result<Json<Page<Invitation>>, ApiError> {
    let page = (paging::limit(&query)?, query.get("cursor"));
    Ok(Json(invitations::list(&app, &asking(&caller, &asker), &id, page).await?))
}

pub async fn invite(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: SignedIn<Write<Workspaces>>,
    PathId(id): PathId,
    Body(invite): Body<Invite>,
) -> Result<(StatusCode, Json<Invitation>), ApiError> {
    let invited = invitations::invite(&app, &deciding(&caller, &asker), &id, &invite).await?;
    Ok((StatusCode::CREATED, Json(invited)))
}

pub async fn revoke_invitation(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: SignedIn<Write<Workspaces>>,
    PathIds(id, invitation): PathIds,
    _: Query,
) -> Result<StatusCode, ApiError> {
    invitations::revoke(&app, &deciding(&caller, &asker), &id, &invitation).await?;
    Ok(StatusCode::NO_CONTENT)
}
