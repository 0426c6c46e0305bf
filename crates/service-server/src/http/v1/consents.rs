//! `/v1/consents`

use axum::{Extension, Json, extract::State};
use service_api::{consents::Consent, page::Page};

use crate::{
    app::App,
    flows::{self, RequestMeta},
    http::{
        caller::{Read, Sessions, UserSession, Write},
        errors::ApiError,
        paging,
        path::PathId,
        query::Query,
    },
};

pub async fn list(
    State(app): State<App>,
    caller: UserSession<Read<Sessions>>,
    query: Query,
) -> Result<Json<Page<Consent>>, ApiError> {
    let limit = paging::limit(&query)?;
    Ok(Json(flows::oauth::consents::list(&app, caller.actor().user_id, limit, query.get("cursor")).await?))
}

pub async fn withdraw(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    caller: UserSession<Write<Sessions>>,
    PathId(id): PathId,
    _: Query,
) -> Result<(), ApiError> {
    let by = caller.session.to_string();
    flows::oauth::consents::withdraw(&app, &meta, caller.actor().user_id, &by, &id).await?;
    Ok(())
}
