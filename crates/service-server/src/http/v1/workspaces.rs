//! `/v1/workspaces`

use axum::{Json, extract::State};
use service_api::{
    page::Page,
    workspaces::{ChangeRole, Invitation, Invite, Member, NameWorkspace, RenameWorkspace, Workspace},
};

use crate::{
    app::App,
    flows::workspaces::{
        self, MemberPath,
        invitations::{self, InvitationPath},
        passkey_requirement,
    },
    http::{
        body::Body,
        caller::{Caller, Read, RecentUserSession, UserSession, Workspaces, Write},
        errors::ApiError,
        operation::Created,
        paging,
        path::{PathId, PathIds},
        query::Query,
    },
};

pub async fn list(
    State(app): State<App>,
    caller: Caller<Read<Workspaces>>,
    query: Query,
) -> Result<Json<Page<Workspace>>, ApiError> {
    Ok(Json(workspaces::list(&app, &caller.actor(), paging::page(&query)?).await?))
}

pub async fn create(
    State(app): State<App>,
    caller: Caller<Write<Workspaces>>,
    Body(named): Body<NameWorkspace>,
) -> Result<Created<Workspace>, ApiError> {
    let made = workspaces::create(&app, &caller.actor(), &named.name).await?;
    Ok(Created::at(format!("/v1/workspaces/{}", made.id), made))
}

pub async fn read(
    State(app): State<App>,
    caller: Caller<Read<Workspaces>>,
    PathId(id): PathId,
    _: Query,
) -> Result<Json<Workspace>, ApiError> {
    Ok(Json(workspaces::find(&app, &caller.actor(), &id).await?))
}

pub async fn rename(
    State(app): State<App>,
    caller: Caller<Write<Workspaces>>,
    PathId(id): PathId,
    Body(named): Body<RenameWorkspace>,
) -> Result<Json<Workspace>, ApiError> {
    Ok(Json(workspaces::rename(&app, &caller.actor(), &id, named.name.as_deref()).await?))
}

pub async fn delete(
    State(app): State<App>,
    caller: RecentUserSession<Write<Workspaces>>,
    PathId(id): PathId,
    _: Query,
) -> Result<(), ApiError> {
    workspaces::delete(&app, &caller.actor(), caller.sign_in, &id).await?;
    Ok(())
}

pub async fn require_passkey(
    State(app): State<App>,
    caller: RecentUserSession<Write<Workspaces>>,
    PathId(id): PathId,
    _: Query,
) -> Result<Json<Workspace>, ApiError> {
    Ok(Json(passkey_requirement::set(&app, &caller.actor(), caller.sign_in, &id, true).await?))
}

pub async fn allow_codes(
    State(app): State<App>,
    caller: RecentUserSession<Write<Workspaces>>,
    PathId(id): PathId,
    _: Query,
) -> Result<(), ApiError> {
    passkey_requirement::set(&app, &caller.actor(), caller.sign_in, &id, false).await?;
    Ok(())
}

pub async fn members(
    State(app): State<App>,
    caller: Caller<Read<Workspaces>>,
    PathId(id): PathId,
    query: Query,
) -> Result<Json<Page<Member>>, ApiError> {
    Ok(Json(workspaces::list_members(&app, &caller.actor(), &id, paging::page(&query)?).await?))
}

pub async fn change_role(
    State(app): State<App>,
    caller: UserSession<Write<Workspaces>>,
    PathIds(id, member): PathIds,
    Body(change): Body<ChangeRole>,
) -> Result<Json<Member>, ApiError> {
    Ok(Json(
        workspaces::change_role(&app, &caller.actor(), MemberPath { workspace_id: &id, user_id: &member }, &change)
            .await?,
    ))
}

pub async fn remove_member(
    State(app): State<App>,
    caller: UserSession<Write<Workspaces>>,
    PathIds(id, member): PathIds,
    _: Query,
) -> Result<(), ApiError> {
    workspaces::remove_member(&app, &caller.actor(), MemberPath { workspace_id: &id, user_id: &member }).await?;
    Ok(())
}

pub async fn list_invitations(
    State(app): State<App>,
    caller: Caller<Read<Workspaces>>,
    PathId(id): PathId,
    query: Query,
) -> Result<Json<Page<Invitation>>, ApiError> {
    Ok(Json(invitations::list(&app, &caller.actor(), &id, paging::page(&query)?).await?))
}

pub async fn invite(
    State(app): State<App>,
    caller: UserSession<Write<Workspaces>>,
    PathId(id): PathId,
    Body(invite): Body<Invite>,
) -> Result<Created<Invitation>, ApiError> {
    let invited = invitations::invite(&app, &caller.actor(), &id, &invite).await?;
    Ok(Created::at(format!("/v1/workspaces/{id}/invitations/{}", invited.id), invited))
}

pub async fn revoke_invitation(
    State(app): State<App>,
    caller: UserSession<Write<Workspaces>>,
    PathIds(id, invitation): PathIds,
    _: Query,
) -> Result<(), ApiError> {
    invitations::revoke(&app, &caller.actor(), InvitationPath { workspace_id: &id, invitation_id: &invitation })
        .await?;
    Ok(())
}
