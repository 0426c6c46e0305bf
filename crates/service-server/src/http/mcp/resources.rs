//! Packs as resources: `service://{space}/packs/{packId}`.

use rmcp::model::{
    self, ArgumentInfo, CacheScope, CompletionInfo, ListResourcesResult, ReadResourceResult, ResourceContents,
    ResourceTemplate,
};
use service_api::{
    contents::{Content, Kind},
    page::{DEFAULT_LIMIT, MAX_LIMIT},
    scope::Resource,
    workspaces::PERSONAL,
};
use service_rules::space::{Requested, Right, Space, SpaceError};

use crate::{
    app::App,
    flows::{
        contents::{self, Collection},
        workspaces::{self, enter_space},
    },
    http::{
        errors::ApiError,
        mcp::{calls::MAX_PAGE_BYTES, guard::AdmittedCaller},
    },
    pagination::PageRequest,
};

const PREFIX: &str = "service://";
const TEMPLATE: &str = "service://{space}/packs/{packId}";
const MEDIA_TYPE: &str = "text/plain";

/// The template of the URIs.
pub(super) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "pack")
        .with_title("Pack")
        .with_description("The text of a pack. `space` is the ID of a workspace, or `personal`.")
        .with_mime_type(MEDIA_TYPE)
}

/// Lists the packs in the space of the connection. A caller who may not read packs has no resources.
pub(super) async fn list(
    app: &App,
    admitted: &AdmittedCaller,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ApiError> {
    if !admitted.may_read(Resource::Packs) {
        return Ok(ListResourcesResult::default().with_cache_scope(CacheScope::Private));
    }
    let space = enter(app, admitted, admitted.space).await?;
    let (collection, page) = (Collection { kind: Kind::Pack, space }, PageRequest { limit: DEFAULT_LIMIT, cursor });
    let found = contents::list(app, &admitted.caller.actor(), collection, page, MAX_PAGE_BYTES).await?;
    let packs = found.data.iter().map(|pack| described(space, pack)).collect();
    let mut result = ListResourcesResult::with_all_items(packs).with_cache_scope(CacheScope::Private);
    result.next_cursor = found.next_cursor;
    Ok(result)
}

/// Reads the text of a pack. `None`: no resource has this URI.
pub(super) async fn read(
    app: &App,
    admitted: &AdmittedCaller,
    uri: &str,
) -> Result<Option<ReadResourceResult>, ApiError> {
    let Some((space, id)) = uri.strip_prefix(PREFIX).and_then(|path| path.split_once("/packs/")) else {
        return Ok(None);
    };
    let Some(requested) = Requested::parse(Some(space)) else { return Ok(None) };
    let collection = Collection { kind: Kind::Pack, space: enter(app, admitted, requested).await? };
    let pack = contents::find(app, &admitted.caller.actor(), collection, id).await?.content;
    let text = pack.fields.get("text").and_then(serde_json::Value::as_str).unwrap_or_default();
    let contents = ResourceContents::text(text, uri).with_mime_type(MEDIA_TYPE);
    Ok(Some(ReadResourceResult::new(vec![contents]).with_cache_scope(CacheScope::Private)))
}

/// Completes an argument of the template: the ID of a pack or of a workspace, by the beginning of the ID or by a part of the
/// name. `space`: the space that was chosen already.
pub(super) async fn complete(
    app: &App,
    admitted: &AdmittedCaller,
    argument: &ArgumentInfo,
    space: Option<&str>,
) -> Result<CompletionInfo, ApiError> {
    let typed = argument.value.to_lowercase();
    let fits = |id: &str, name: &str| id.starts_with(&typed) || name.to_lowercase().contains(&typed);
    let actor = admitted.caller.actor();
    let first = PageRequest::first(MAX_LIMIT);
    let mut info = CompletionInfo::default();
    if argument.name == "space" && admitted.may_read(Resource::Workspaces) {
        let found = workspaces::list(app, &actor, first).await?;
        info.has_more = Some(found.next_cursor.is_some());
        let personal = fits(PERSONAL, "").then(|| PERSONAL.to_owned());
        let named = found.data.iter().filter(|workspace| fits(&workspace.id.to_string(), &workspace.name));
        info.values = personal.into_iter().chain(named.map(|workspace| workspace.id.to_string())).collect();
    } else if argument.name == "packId" && admitted.may_read(Resource::Packs) {
        let Some(requested) = Requested::parse(space) else { return Ok(info) };
        let requested = if requested == Requested::Nothing { admitted.space } else { requested };
        let collection = Collection { kind: Kind::Pack, space: enter(app, admitted, requested).await? };
        let found = contents::list(app, &actor, collection, first, MAX_PAGE_BYTES).await?;
        info.has_more = Some(found.next_cursor.is_some());
        info.values =
            found.data.iter().filter(|pack| fits(&pack.id, pack.name())).map(|pack| pack.id.clone()).collect();
    }
    info.values.truncate(CompletionInfo::MAX_VALUES);
    Ok(info)
}

fn described(space: Space, pack: &Content) -> model::Resource {
    let space = match space {
        Space::Personal => PERSONAL.to_owned(),
        Space::Workspace(id) => id.to_string(),
    };
    model::Resource::new(format!("{PREFIX}{space}/packs/{}", pack.id), pack.name())
        .with_title(pack.name())
        .with_mime_type(MEDIA_TYPE)
}

async fn enter(app: &App, admitted: &AdmittedCaller, requested: Requested) -> Result<Space, ApiError> {
    // A connection whose URL names a space reads no other.
    let is_other = admitted.space != Requested::Nothing && requested != admitted.space;
    if is_other && requested != Requested::Nothing {
        return Err(SpaceError::NotFound.into());
    }
    let entered = enter_space::enter_space(app, &admitted.caller.actor(), requested, Right::Read).await?;
    Ok(entered.space)
}
