//! `/v1/projects`, `/v1/packs`, `/v1/playbooks`, `/v1/cases`, `/v1/records`: one handler for each thing done to them.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use service_api::{
    JsonObject,
    contents::{Content, DeletedContent},
    page::Page,
    search::{Found, SearchPacks},
    workspaces::PERSONAL,
};

use crate::{
    app::App,
    flows::contents::{self, Collection, MAX_PAGE_BYTES, Precondition, Target, deleted, search},
    http::{
        body::Body,
        caller::{OfKind, Packs, Read, Write},
        errors::{ApiError, MalformedRequest},
        idempotency,
        operation::Reply,
        paging,
        path::PathId,
        space::{OwnSpace, Space},
    },
};

/// The contents of a kind in the space of the request.
fn collection<K: OfKind, S>(space: &Space<S>) -> Collection {
    Collection { kind: K::KIND, space: space.entered.space }
}

/// A content, with its version as the `ETag` that `If-Match` can name.
pub struct Versioned {
    /// The name of its kind in paths.
    resource: &'static str,
    content: Content,
    version: i64,
}

impl Versioned {
    fn new<K: OfKind>(content: Content, version: i64) -> Self {
        Self { resource: K::KIND.resource().as_str(), content, version }
    }
}

impl Reply<Content> for Versioned {
    fn into_response(self, status: StatusCode) -> Response {
        // The path names the space, so that it leads to the content whatever the default space of a token is.
        let path = (status == StatusCode::CREATED).then(|| {
            let (kind, id) = (self.resource, &self.content.id);
            let space = self.content.workspace_id.map_or_else(|| PERSONAL.to_owned(), |id| id.to_string());
            format!("/v1/{kind}/{id}?workspaceId={space}")
        });
        let mut response = (status, Json(self.content)).into_response();
        if let Some(Ok(path)) = path.map(HeaderValue::try_from) {
            response.headers_mut().insert(header::LOCATION, path);
        }
        if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", self.version)) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

/// The versions that a change is meant for (RFC 9110 section 13.1.1): of tags that are not ours, or weak, none is.
fn if_match(headers: &HeaderMap) -> Result<Precondition, ApiError> {
    let mut values = headers.get_all(header::IF_MATCH).iter();
    let Some(value) = values.next() else { return Ok(Precondition::Any) };
    let unreadable = || MalformedRequest::Body("If-Match must be an ETag from a response with this content.".into());
    let text = value.to_str().ok().filter(|_| values.next().is_none()).ok_or_else(unreadable)?;
    if text.trim() == "*" {
        return Ok(Precondition::Any);
    }
    let mut versions = Vec::new();
    for tag in text.split(',').map(str::trim) {
        let (weak, tag) = tag.strip_prefix("W/").map_or((false, tag), |tag| (true, tag));
        let quoted = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).filter(|tag| !tag.contains('"'));
        versions.extend(quoted.ok_or_else(unreadable)?.parse::<i64>().ok().filter(|_| !weak));
    }
    Ok(Precondition::VersionIn(versions))
}

pub async fn list<K: OfKind>(State(app): State<App>, space: Space<Read<K>>) -> Result<Json<Page<Content>>, ApiError> {
    let page = paging::page(&space.query)?;
    Ok(Json(contents::list(&app, &space.actor(), collection::<K, _>(&space), page, MAX_PAGE_BYTES).await?))
}

pub async fn search(
    State(app): State<App>,
    space: Space<Read<Packs>>,
    Body(request): Body<SearchPacks>,
) -> Result<Json<Page<Found>>, ApiError> {
    let actor = space.actor();
    let _turn = app.search_turns.take(actor.user_id).await?;
    Ok(Json(search::search(&app, &actor, space.entered.space, &request, MAX_PAGE_BYTES).await?))
}

pub async fn create<K: OfKind>(
    State(app): State<App>,
    space: Space<Write<K>>,
    headers: HeaderMap,
    Body(sent): Body<JsonObject>,
) -> Result<Versioned, ApiError> {
    let key = idempotency::key(&headers)?;
    let stored = contents::create(&app, &space.actor(), collection::<K, _>(&space), &sent, key).await?;
    Ok(Versioned::new::<K>(stored.content, stored.version))
}

pub async fn read<K: OfKind>(
    State(app): State<App>,
    space: Space<Read<K>>,
    PathId(id): PathId,
) -> Result<Versioned, ApiError> {
    let stored = contents::find(&app, &space.actor(), collection::<K, _>(&space), &id).await?;
    Ok(Versioned::new::<K>(stored.content, stored.version))
}

pub async fn update<K: OfKind>(
    State(app): State<App>,
    space: Space<Write<K>>,
    PathId(id): PathId,
    headers: HeaderMap,
    Body(sent): Body<JsonObject>,
) -> Result<Versioned, ApiError> {
    let precondition = if_match(&headers)?;
    let target = Target { id: &id, precondition: &precondition };
    let stored = contents::update(&app, &space.actor(), collection::<K, _>(&space), target, &sent).await?;
    Ok(Versioned::new::<K>(stored.content, stored.version))
}

pub async fn delete<K: OfKind>(
    State(app): State<App>,
    space: Space<Write<K>>,
    PathId(id): PathId,
    headers: HeaderMap,
) -> Result<(), ApiError> {
    let precondition = if_match(&headers)?;
    let target = Target { id: &id, precondition: &precondition };
    contents::delete(&app, &space.actor(), collection::<K, _>(&space), target).await?;
    Ok(())
}

pub async fn list_deleted<K: OfKind>(
    State(app): State<App>,
    OwnSpace(space): OwnSpace<Read<K>>,
) -> Result<Json<Page<DeletedContent>>, ApiError> {
    let page = paging::page(&space.query)?;
    Ok(Json(deleted::list(&app, &space.actor(), collection::<K, _>(&space), page).await?))
}

pub async fn restore<K: OfKind>(
    State(app): State<App>,
    OwnSpace(space): OwnSpace<Write<K>>,
    PathId(id): PathId,
) -> Result<Versioned, ApiError> {
    let stored = deleted::restore(&app, &space.actor(), collection::<K, _>(&space), &id).await?;
    Ok(Versioned::new::<K>(stored.content, stored.version))
}
