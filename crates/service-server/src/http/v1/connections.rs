//! `/v1/workspaces/{workspaceId}/connections`

use axum::{Json, extract::State};
use service_api::{
    connections::{ConnectionImpact, CreateConnection, SsoConnection, UpdateConnection},
    page::Page,
};

use crate::{
    app::App,
    flows::sso::connections::{self, ConnectionPath},
    http::{
        body::Body,
        caller::{Caller, Read, RecentUserSession, Workspaces, Write},
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
) -> Result<Json<Page<SsoConnection>>, ApiError> {
    Ok(Json(connections::list(&app, &caller.actor(), &id).await?))
}

pub async fn create(
    State(app): State<App>,
    caller: RecentUserSession<Write<Workspaces>>,
    PathId(id): PathId,
    Body(new): Body<CreateConnection>,
) -> Result<Created<SsoConnection>, ApiError> {
    let made = connections::create(&app, &caller.actor(), caller.sign_in, &id, &new).await?;
    Ok(Created::at(format!("/v1/workspaces/{id}/connections/{}", made.id), made))
}

pub async fn read(
    State(app): State<App>,
    caller: Caller<Read<Workspaces>>,
    PathIds(id, connection): PathIds,
    _: Query,
) -> Result<Json<SsoConnection>, ApiError> {
    let path = ConnectionPath { workspace_id: &id, connection_id: &connection };
    Ok(Json(connections::find(&app, &caller.actor(), path).await?))
}

pub async fn update(
    State(app): State<App>,
    caller: RecentUserSession<Write<Workspaces>>,
    PathIds(id, connection): PathIds,
    Body(update): Body<UpdateConnection>,
) -> Result<Json<SsoConnection>, ApiError> {
    let path = ConnectionPath { workspace_id: &id, connection_id: &connection };
    Ok(Json(connections::update(&app, &caller.actor(), caller.sign_in, path, &update).await?))
}

pub async fn delete(
    State(app): State<App>,
    caller: RecentUserSession<Write<Workspaces>>,
    PathIds(id, connection): PathIds,
    _: Query,
) -> Result<(), ApiError> {
    let path = ConnectionPath { workspace_id: &id, connection_id: &connection };
    Ok(connections::delete(&app, &caller.actor(), caller.sign_in, path).await?)
}

pub async fn impact(
    State(app): State<App>,
    caller: Caller<Read<Workspaces>>,
    PathIds(id, connection): PathIds,
    _: Query,
) -> Result<Json<ConnectionImpact>, ApiError> {
    let path = ConnectionPath { workspace_id: &id, connection_id: &connection };
    Ok(Json(connections::impact(&app, &caller.actor(), path).await?))
}
