//! `/v1/cli/tokens`

use axum::{Extension, Json, extract::State, http::HeaderMap};
use service_api::{
    cli_tokens::{CreateCliToken, CreatedCliToken, ListedCliToken, RotateCliToken, StatusFilter},
    page::Page,
};

use crate::{
    app::App,
    flows::{self, RequestMeta, tokens::cli_tokens::Rotation},
    http::{
        body::Body,
        caller::{AnyCaller, Read, RecentUserSession, Tokens, UserSession, Write},
        errors::{ApiError, MalformedRequest, api},
        idempotency,
        operation::Created,
        paging,
        path::PathId,
        query::{self, Query},
    },
};

fn located(created: CreatedCliToken) -> Created<CreatedCliToken> {
    Created::at(format!("/v1/cli/tokens/{}", created.id), created)
}

pub async fn create(
    State(app): State<App>,
    caller: RecentUserSession<Write<Tokens>>,
    headers: HeaderMap,
    query: Query,
    Body(mut request): Body<CreateCliToken>,
) -> Result<Created<CreatedCliToken>, ApiError> {
    request.workspace_id = query::one_workspace(request.workspace_id, &query)?;
    let key = idempotency::key(&headers)?;
    let created = flows::tokens::cli_tokens::create(&app, &caller.actor(), caller.sign_in, &request, key).await;
    Ok(located(created.map_err(|failure| api::cli_tokens(failure, &app.config.base_url))?))
}

pub async fn list(
    State(app): State<App>,
    caller: UserSession<Read<Tokens>>,
    query: Query,
) -> Result<Json<Page<ListedCliToken>>, ApiError> {
    let limit = paging::limit(&query)?;
    let status = StatusFilter::parse(query.get("status"))
        .ok_or_else(|| MalformedRequest::Query("status must be active, expired, revoked or all.".into()))?;
    let user_id = caller.actor().user_id;
    let listed = flows::tokens::cli_tokens::list(&app, user_id, status, limit, query.get("cursor")).await;
    Ok(Json(listed.map_err(|failure| api::cli_tokens(failure, &app.config.base_url))?))
}

pub async fn revoke(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    AnyCaller(caller): AnyCaller,
    PathId(id): PathId,
    _: Query,
) -> Result<(), ApiError> {
    let revoked = flows::tokens::cli_tokens::revoke(&app, &meta, &caller, &id).await;
    revoked.map_err(|failure| api::cli_tokens(failure, &app.config.base_url))?;
    Ok(())
}

pub async fn rotate(
    State(app): State<App>,
    caller: RecentUserSession<Write<Tokens>>,
    PathId(id): PathId,
    headers: HeaderMap,
    Body(request): Body<RotateCliToken>,
) -> Result<Created<CreatedCliToken>, ApiError> {
    let rotation = Rotation { id: &id, request: &request, idempotency_key: idempotency::key(&headers)? };
    let created = flows::tokens::cli_tokens::rotate(&app, &caller.actor(), caller.sign_in, &rotation).await;
    Ok(located(created.map_err(|failure| api::cli_tokens(failure, &app.config.base_url))?))
}
