//! `/v1/invitations` and `/v1/blocked-workspaces`: what a user decides about invitations to their own addresses.

use axum::{Json, extract::State};
use service_api::{
    page::Page,
    workspaces::{BlockedWorkspace, ReceivedInvitation, Workspace},
};

use crate::{
    app::App,
    flows::workspaces::received_invitations,
    http::{
        caller::{Read, UserSession, Workspaces, Write},
        errors::ApiError,
        paging,
        path::PathId,
        query::Query,
    },
};

pub async fn list(
    State(app): State<App>,
    caller: UserSession<Read<Workspaces>>,
    query: Query,
) -> Result<Json<Page<ReceivedInvitation>>, ApiError> {
    let page = received_invitations::list(&app, &caller.actor(), paging::page(&query)?).await?;
    Ok(Json(page))
}

pub async fn accept(
    State(app): State<App>,
    caller: UserSession<Write<Workspaces>>,
    PathId(id): PathId,
    _: Query,
) -> Result<Json<Workspace>, ApiError> {
    Ok(Json(received_invitations::accept(&app, &caller.actor(), &id).await?))
}

pub async fn decline(
    State(app): State<App>,
    caller: UserSession<Write<Workspaces>>,
    PathId(id): PathId,
    _: Query,
) -> Result<(), ApiError> {
    received_invitations::decline(&app, &caller.actor(), &id).await?;
    Ok(())
}

pub async fn block(
    State(app): State<App>,
    caller: UserSession<Write<Workspaces>>,
    PathId(id): PathId,
    _: Query,
) -> Result<Json<BlockedWorkspace>, ApiError> {
    Ok(Json(received_invitations::block(&app, &caller.actor(), &id).await?))
}

pub async fn list_blocked(
    State(app): State<App>,
    caller: UserSession<Read<Workspaces>>,
    query: Query,
) -> Result<Json<Page<BlockedWorkspace>>, ApiError> {
    let page = received_invitations::list_blocked(&app, &caller.actor(), paging::page(&query)?).await?;
    Ok(Json(page))
}

pub async fn unblock(
    State(app): State<App>,
    caller: UserSession<Write<Workspaces>>,
    PathId(id): PathId,
    _: Query,
) -> Result<(), ApiError> {
    received_invitations::unblock(&app, &caller.actor(), &id).await?;
    Ok(())
}
