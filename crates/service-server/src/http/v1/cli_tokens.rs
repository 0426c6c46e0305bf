//! `/v1/cli/tokens`

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use service_api::{
    cli_tokens::{CreateCliToken, CreatedCliToken, ListedCliToken, RotateCliToken, StatusFilter},
    page::Page,
};

use crate::{
    app::App,
    flows::{self, Asker, maker::Maker},
    http::{
        body::Body,
        caller::{AnyCaller, Read, SignedIn, Tokens, Write},
        error::{ApiError, Unreadable},
        idempotency, paging,
        path::PathId,
        query::Query,
        refusals,
    },
};

pub async fn create(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: SignedIn<Write<Tokens>>,
    headers: HeaderMap,
    Body(request): Body<CreateCliToken>,
) -> Result<(StatusCode, Json<CreatedCliToken>), ApiError> {
    let key = idempotency::key(&headers)?;
    let maker = Maker::by_token(caller.credential(), caller.session, &asker);
    let created = flows::cli_tokens::create(&app, &maker, &request, key).await;
    Ok((StatusCode::CREATED, Json(created.map_err(|failure| refusals::cli_tokens(failure, &app.config.base_url))?)))
}

pub async fn list(
    State(app): State<App>,
    caller: SignedIn<Read<Tokens>>,
    query: Query,
) -> Result<Json<Page<ListedCliToken>>, ApiError> {
    let limit = paging::limit(&query)?;
    let status = StatusFilter::parse(query.get("status"))
        .ok_or_else(|| Unreadable::Query("status is not active, expired, revoked or all.".into()))?;
    Ok(Json(flows::cli_tokens::list(&app, caller.credential().user_id, status, limit, query.get("cursor")).await?))
}

pub async fn revoke(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    AnyCaller(caller): AnyCaller,
    PathId(id): PathId,
    _: Query,
) -> Result<StatusCode, ApiError> {
    let revoked = flows::cli_tokens::revoke(&app, &asker, &caller, &id).await;
    revoked.map_err(|failure| refusals::cli_tokens(failure, &app.config.base_url))?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn rotate(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: SignedIn<Write<Tokens>>,
    PathId(id): PathId,
    Body(request): Body<RotateCliToken>,
) -> Result<(StatusCode, Json<CreatedCliToken>), ApiError> {
    let maker = Maker::by_token(caller.credential(), caller.session, &asker);
    let created = flows::cli_tokens::rotate(&app, &maker, &id, &request).await;
    Ok((StatusCode::CREATED, Json(created.map_err(|failure| refusals::cli_tokens(failure, &app.config.base_url))?)))
}
