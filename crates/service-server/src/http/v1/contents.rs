//! `/v1/projects`, `/v1/packs`, `/v1/playbooks`, `/v1/cases`, `/v1/records`: one handler for each thing done to them.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};
use service_api::{
    contents::Content,
    page::Page,
    search::{Found, SearchPacks},
};

use crate::{
    app::App,
    flows::{
        contents::{self, Here, Meant},
        search_packs,
    },
    http::{
        body::Body,
        caller::{OfKind, Packs, Read, Write},
        error::{ApiError, Unreadable},
        idempotency, paging,
        path::PathId,
        space::Space,
    },
};

fn here<S>(space: &Space<S>) -> Here<'_> {
    let credential = space.caller.credential();
    Here { asker: &space.asker, user_id: credential.user_id, place: space.entered.place, reach: credential.reach }
}

/// A content, with the version that an `If-Match` can name.
fn shown(status: StatusCode, content: Content, version: i64) -> Response {
    let mut response = (status, Json(content)).into_response();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// The versions that a change is meant for (RFC 9110 section 13.1.1): of tags that are not ours, or weak, none is.
fn if_match(headers: &HeaderMap) -> Result<Meant, ApiError> {
    let mut values = headers.get_all(header::IF_MATCH).iter();
    let Some(value) = values.next() else { return Ok(Meant::Whichever) };
    let unreadable = || Unreadable::Body("If-Match is not an ETag that this content was read with.".into());
    let text = value.to_str().ok().filter(|_| values.next().is_none()).ok_or_else(unreadable)?;
    if text.trim() == "*" {
        return Ok(Meant::Whichever);
    }
    let mut versions = Vec::new();
    for tag in text.split(',').map(str::trim) {
        let (weak, tag) = tag.strip_prefix("W/").map_or((false, tag), |tag| (true, tag));
        let quoted = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).filter(|tag| !tag.contains('"'));
        versions.extend(quoted.ok_or_else(unreadable)?.parse::<i64>().ok().filter(|_| !weak));
    }
    Ok(Meant::OneOf(versions))
}

pub async fn list<K: OfKind>(State(app): State<App>, space: Space<Read<K>>) -> Result<Json<Page<Content>>, ApiError> {
    let limit = paging::limit(&space.query)?;
    Ok(Json(contents::list(&app, here(&space), K::KIND, limit, space.query.get("cursor")).await?))
}

pub async fn search(
    State(app): State<App>,
    space: Space<Read<Packs>>,
    Body(request): Body<SearchPacks>,
) -> Result<Json<Page<Found>>, ApiError> {
    Ok(Json(search_packs::search(&app, here(&space), &request).await?))
}

pub async fn create<K: OfKind>(
    State(app): State<App>,
    space: Space<Write<K>>,
    headers: HeaderMap,
    Body(sent): Body<Map<String, Value>>,
) -> Result<Response, ApiError> {
    let key = idempotency::key(&headers)?;
    let stored = contents::create(&app, here(&space), K::KIND, &sent, key).await?;
    Ok(shown(StatusCode::CREATED, stored.content, stored.version))
}

pub async fn read<K: OfKind>(
    State(app): State<App>,
    space: Space<Read<K>>,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let stored = contents::find(&app, here(&space), K::KIND, &id).await?;
    Ok(shown(StatusCode::OK, stored.content, stored.version))
}

pub async fn update<K: OfKind>(
    State(app): State<App>,
    space: Space<Write<K>>,
    PathId(id): PathId,
    headers: HeaderMap,
    Body(sent): Body<Map<String, Value>>,
) -> Result<Response, ApiError> {
    let meant = if_match(&headers)?;
    let stored = contents::update(&app, here(&space), K::KIND, (&id, &meant), &sent).await?;
    Ok(shown(StatusCode::OK, stored.content, stored.version))
}

pub async fn delete<K: OfKind>(
    State(app): State<App>,
    space: Space<Write<K>>,
    PathId(id): PathId,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let meant = if_match(&headers)?;
    contents::delete(&app, here(&space), K::KIND, &id, &meant).await?;
    Ok(StatusCode::NO_CONTENT)
}
