//! `/v1/workspaces/{workspaceId}/domains`

use axum::{Json, extract::State};
use service_api::{
    connections::{ClaimDomain, UpdateDomain, WorkspaceDomain},
    page::Page,
};

use crate::{
    app::App,
    flows::sso::domains::{self, DomainPath},
    http::{
        body::Body,
        caller::{Caller, Read, RecentUserSession, UserSession, Workspaces, Write},
        errors::ApiError,
        operation::Created,
        path::{PathId, PathIds},
        query::Query,
    },
};

pub async fn list(
    State(app): State<App>,
    caller: Caller<Read<Workspaces>>,
    PathId(id): PathId,
    _: Query,
) -> Result<Json<Page<WorkspaceDomain>>, ApiError> {
    Ok(Json(domains::list(&app, &caller.actor(), &id).await?))
}

pub async fn claim(
    State(app): State<App>,
    caller: RecentUserSession<Write<Workspaces>>,
    PathId(id): PathId,
    Body(claim): Body<ClaimDomain>,
) -> Result<Created<WorkspaceDomain>, ApiError> {
    let claimed = domains::claim(&app, &caller.actor(), caller.sign_in, &id, &claim).await?;
    Ok(Created::at(format!("/v1/workspaces/{id}/domains/{}", claimed.domain), claimed))
}

pub async fn verify(
    State(app): State<App>,
    caller: UserSession<Write<Workspaces>>,
    PathIds(id, domain): PathIds,
    _: Query,
) -> Result<Json<WorkspaceDomain>, ApiError> {
    Ok(Json(domains::verify(&app, &caller.actor(), DomainPath { workspace_id: &id, domain: &domain }).await?))
}

pub async fn update(
    State(app): State<App>,
    caller: RecentUserSession<Write<Workspaces>>,
    PathIds(id, domain): PathIds,
    Body(update): Body<UpdateDomain>,
) -> Result<Json<WorkspaceDomain>, ApiError> {
    let path = DomainPath { workspace_id: &id, domain: &domain };
    Ok(Json(domains::update(&app, &caller.actor(), caller.sign_in, path, &update).await?))
}

pub async fn remove(
    State(app): State<App>,
    caller: RecentUserSession<Write<Workspaces>>,
    PathIds(id, domain): PathIds,
    _: Query,
) -> Result<(), ApiError> {
    let path = DomainPath { workspace_id: &id, domain: &domain };
    Ok(domains::remove(&app, &caller.actor(), caller.sign_in, path).await?)
}
