//! Searching packs (`POST /v1/packs/search`): full text, else names that resemble the query, in the spaces that the
//! caller may read.

use service_api::{
    page::Page,
    search::{Found, SearchPacks, Segment},
    workspaces::ContentScope,
};
use service_rules::{contents, scope_of_content, space::Space};
use uuid::Uuid;

use crate::{
    app::App,
    crypto::digest::sha256,
    flows::{
        Actor,
        contents::{ContentError, lacks_workspace},
    },
    pagination::List,
    store::{
        self,
        contents::SpaceOwner,
        pack_search::{PackHit, PackQuery},
    },
};

/// Search results beyond this offset are not listed.
const MAX_SEARCH_OFFSET: u128 = 1_000;

/// Searches packs in the space of the request, or in those that it names. The page ends after `max_bytes` of packs.
pub async fn search(
    app: &App,
    actor: &Actor<'_>,
    space: Space,
    request: &SearchPacks,
    max_bytes: i64,
) -> Result<Page<Found>, ContentError> {
    let limit = contents::check_search(request)?;
    let spaces = choose_spaces(actor, space, request.scopes.as_deref())?;
    let named: Vec<_> = spaces.iter().map(|space| space.id.to_string()).collect();
    let asked = sha256(format!("{} {} {}", request.pack_type, named.join(","), request.query));
    let owner = actor.user_id.to_string();
    let list = List { root_keys: &app.root_keys, of: &[b"packs found", owner.as_bytes(), &asked], limit };
    let behind = list.behind(request.cursor.as_deref())?;
    let offset = behind.map_or(0, |last| last.as_u128());
    let (pack_type, query) = (&request.pack_type, &request.query);
    let wanted = PackQuery {
        pack_type,
        query,
        offset: i64::try_from(offset).unwrap_or(i64::MAX),
        limit: list.rows(),
        bytes: max_bytes,
    };
    let db = app.content_database.begin().await?;
    store::pack_search::enter(&db, &spaces).await?;
    let found = store::pack_search::search(&db, &wanted).await?;
    let next = offset + u128::from(limit).min(found.rows.len() as u128);
    let found_packs = found.rows.into_iter().map(shown).collect();
    let mut page = list.page_of(found_packs, found.cut, |_| Uuid::from_u128(next));
    page.next_cursor = page.next_cursor.filter(|_| next < MAX_SEARCH_OFFSET);
    Ok(page)
}

/// The spaces to search: those that the request names, or every one that it may search.
fn choose_spaces(
    actor: &Actor<'_>,
    space: Space,
    scopes: Option<&[ContentScope]>,
) -> Result<Vec<SpaceOwner>, ContentError> {
    if scopes.into_iter().flatten().any(|scope| scope_of_content::lacks_workspace(space, Some(*scope))) {
        return Err(lacks_workspace("scopes").into());
    }
    let choose = |scope| scope_of_content::choose(space, actor.space_access, Some(scope));
    let spaces: Vec<Space> = match scopes {
        Some(scopes) => scopes.iter().map(|scope| choose(*scope)).collect::<Result<_, _>>()?,
        None => [ContentScope::Personal, ContentScope::Workspace]
            .into_iter()
            .filter_map(|scope| choose(scope).ok())
            .collect(),
    };
    let mut owners: Vec<_> = spaces.into_iter().map(|space| SpaceOwner::of(space, actor.user_id)).collect();
    owners.dedup();
    Ok(owners)
}

/// A search result. The database marks matches with characters that no text contains; they delimit the segments.
fn shown(hit: PackHit) -> Found {
    let mut snippet = Vec::new();
    for part in hit.marked.split('\u{e000}') {
        let (inside, outside) = part.split_once('\u{e001}').map_or((None, part), |(inside, rest)| (Some(inside), rest));
        snippet.extend(inside.map(|text| Segment { text: text.to_owned(), is_match: true }));
        if !outside.is_empty() {
            snippet.push(Segment { text: outside.to_owned(), is_match: false });
        }
    }
    Found { content: hit.content, score: hit.score, snippet }
}
