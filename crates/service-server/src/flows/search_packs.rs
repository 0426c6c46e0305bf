//! Searching packs (`POST /v1/packs/search`): by words and by words that look like them, only where the caller may look.

use service_api::{
    page::Page,
    search::{Found, SearchPacks, Segment},
    workspaces::ContentScope,
};
use service_rules::{contents, scope_of_content, space::Place};
use uuid::Uuid;

use crate::{
    app::App,
    cursor::List,
    digest::sha256,
    failure::Failure,
    flows::contents::{Here, Refusal},
    store::{
        self,
        contents::{Hit, SpaceKey, Wanted},
    },
};

/// Further than this nobody looks.
const FURTHEST: u128 = 1_000;

pub async fn search(app: &App, here: Here<'_>, request: &SearchPacks) -> Result<Page<Found>, Failure<Refusal>> {
    let limit = contents::check_search(request).map_err(|invalid| Failure::Refused(Refusal::Invalid(invalid)))?;
    let spaces = spaces(here, request.scopes.as_deref()).map_err(Failure::Refused)?;
    let named: Vec<_> = spaces.iter().map(|space| space.id.to_string()).collect();
    let asked = sha256(format!("{} {} {}", request.pack_type, named.join(","), request.query));
    let whose = here.user_id.to_string();
    let list = List { vault: &app.vault, of: &[b"packs found", whose.as_bytes(), &asked], limit };
    let behind = list.behind(request.cursor.as_deref()).map_err(|foreign| Failure::Refused(foreign.into()))?;
    let offset = behind.map_or(0, |last| last.as_u128());
    let (pack_type, query) = (&request.pack_type, &request.query);
    let wanted = Wanted {
        spaces: &spaces,
        pack_type,
        query,
        offset: i64::try_from(offset).unwrap_or(i64::MAX),
        limit: list.rows(),
    };
    let db = app.database.begin().await?;
    store::contents::enter(&db, &spaces).await?;
    let found = store::contents::search(&db, &wanted).await?.into_iter().map(shown).collect();
    let next = offset + u128::from(limit);
    let mut page = list.page(found, |_| Uuid::from_u128(next));
    page.next_cursor = page.next_cursor.filter(|_| next < FURTHEST);
    Ok(page)
}

/// The spaces to look in: those asked for, or every one that this request may look in.
fn spaces(here: Here<'_>, scopes: Option<&[ContentScope]>) -> Result<Vec<SpaceKey>, Refusal> {
    let choose = |scope| scope_of_content::choose(here.place, here.reach, Some(scope));
    let places: Vec<Place> = match scopes {
        Some(scopes) => scopes.iter().map(|scope| choose(*scope)).collect::<Result<_, _>>().map_err(Refusal::Space)?,
        None => [ContentScope::Personal, ContentScope::Workspace]
            .into_iter()
            .filter_map(|scope| choose(scope).ok())
            .collect(),
    };
    let mut keys: Vec<_> = places.into_iter().map(|place| SpaceKey::of(place, here.user_id)).collect();
    keys.dedup();
    Ok(keys)
}

/// The database marks words with characters that no text has; what they mark becomes segments.
fn shown(hit: Hit) -> Found {
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
