//! `/v1/sessions`

use axum::{Extension, Json, extract::State, http::StatusCode};
use service_api::{
    page::Page,
    sessions::{OthersEnded, Session},
};

use crate::{
    app::App,
    flows::{self, Asker},
    http::{
        caller::{Read, Sessions, SignedIn, Write},
        error::ApiError,
        paging,
        path::PathId,
        query::Query,
    },
};

pub async fn list(
    State(app): State<App>,
    caller: SignedIn<Read<Sessions>>,
    query: Query,
) -> Result<Json<Page<Session>>, ApiError> {
    let limit = paging::limit(&query)?;
    Ok(Json(flows::sessions::list(&app, &asking(&caller), limit, query.get("cursor")).await?))
}

pub async fn end(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: SignedIn<Write<Sessions>>,
    PathId(id): PathId,
    _: Query,
) -> Result<StatusCode, ApiError> {
    flows::sessions::end(&app, &asker, &asking(&caller), &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn end_others(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    caller: SignedIn<Write<Sessions>>,
    _: Query,
) -> Result<Json<OthersEnded>, ApiError> {
    Ok(Json(flows::sessions::end_others(&app, &asker, &asking(&caller)).await?))
}

fn asking<S>(caller: &SignedIn<S>) -> flows::sessions::SignedIn {
    flows::sessions::SignedIn { user_id: caller.credential().user_id, session: caller.session }
}
