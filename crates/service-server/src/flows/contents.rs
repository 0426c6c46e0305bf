//! What lives in spaces: creating, reading, listing, changing and deleting it.
//!
//! Whoever calls has entered the space, with a token and a role that allow it. Each of these enters it again in its own
//! transaction, for the database: what is in other spaces does not exist for it.

use serde_json::{Map, Value, json};
use service_api::{
    contents::{Content, Kind},
    ids::{self, UserId},
    page::Page,
    workspaces::ContentScope,
};
use service_rules::{
    contents::{Checked, Invalid},
    scope_of_content,
    space::{Place, Reach, Refusal as SpaceRefusal},
};
use uuid::Uuid;

use crate::{
    app::App,
    cursor::{Foreign, List},
    database::Connection,
    digest::sha256,
    failure::Failure,
    flows::{Asker, found_credential},
    mint,
    store::{
        self,
        contents::{Change, New, SpaceKey, Stored},
        deletions::Thing,
        idempotency_keys::Made,
    },
};

/// Of one kind in one space: a search looks at all of them.
const MOST: i64 = 10_000;

/// Where a request runs, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    pub asker: &'a Asker,
    pub user_id: UserId,
    pub place: Place,
    pub reach: Reach,
}

/// Which versions a change or a deletion is meant for.
#[derive(Debug, PartialEq, Eq)]
pub enum Meant {
    Whichever,
    OneOf(Vec<i64>),
}

impl Meant {
    fn is_met_by(&self, version: i64) -> bool {
        match self {
            Self::Whichever => true,
            Self::OneOf(versions) => versions.contains(&version),
        }
    }
}

#[derive(Debug)]
pub enum Refusal {
    NotFound,
    Invalid(Invalid),
    /// It says where it is to live, and cannot live there.
    Space(SpaceRefusal),
    /// It was changed since.
    Stale,
    /// The space has as many of these as it may.
    Full,
    /// The idempotency key was used for something else.
    KeyUsed,
    Cursor,
}

impl From<Foreign> for Refusal {
    fn from(_: Foreign) -> Self {
        Self::Cursor
    }
}

/// What was sent, taken apart: what is said of it, and where it is to live.
fn read(sent: &Map<String, Value>) -> Result<(Map<String, Value>, Option<ContentScope>), Refusal> {
    let mut fields = sent.clone();
    let scope = match fields.remove("scope") {
        None => None,
        Some(value) => Some(serde_json::from_value(value).map_err(|_| {
            let message = "is neither personal nor workspace".into();
            Refusal::Invalid(Invalid::Field { field: "scope".into(), message })
        })?),
    };
    Ok((fields, scope))
}

/// What did not pass the rules; whose credential is in it is told. Not to be called with a transaction open.
async fn refuse(app: &App, here: Here<'_>, invalid: Invalid) -> Failure<Refusal> {
    if let Invalid::Credential { token, .. } = &invalid
        && let Err(broken) = found_credential::tell_owner(app, here.asker, token).await
    {
        return Failure::Broken(broken);
    }
    Failure::Refused(Refusal::Invalid(invalid))
}

async fn check_room(db: &Connection, space: SpaceKey, kind: Kind) -> Result<(), Failure<Refusal>> {
    let full = store::contents::has_many(db, space, kind, MOST).await?;
    if full { Err(Failure::Refused(Refusal::Full)) } else { Ok(()) }
}

/// The space that something is to live in.
fn place(here: Here<'_>, scope: Option<ContentScope>) -> Result<SpaceKey, Refusal> {
    let place = scope_of_content::choose(here.place, here.reach, scope).map_err(Refusal::Space)?;
    Ok(SpaceKey::of(place, here.user_id))
}

pub async fn create(
    app: &App,
    here: Here<'_>,
    kind: Kind,
    sent: &Map<String, Value>,
    key: Option<&str>,
) -> Result<Stored, Failure<Refusal>> {
    let now = app.clock.now();
    let (fields, scope) = read(sent).map_err(Failure::Refused)?;
    let space = place(here, scope).map_err(Failure::Refused)?;
    let fields = match Checked::read(kind, &fields).and_then(|checked| checked.create(kind)) {
        Ok(fields) => fields,
        Err(invalid) => return Err(refuse(app, here, invalid).await),
    };
    let id = mint::uuid(now)?;
    let db = app.database.begin().await?;
    store::contents::enter(&db, &[space]).await?;
    if let Some(key) = key {
        let digest = sha256(json!([kind.prefix(), space.id.to_string(), fields]).to_string()).to_vec();
        let made = Made { digest: digest.clone(), space_id: space.id, content_id: id };
        if let Some(before) = store::idempotency_keys::take(&db, here.user_id, key, &made, now).await? {
            if before.digest != digest {
                return Err(Failure::Refused(Refusal::KeyUsed));
            }
            let found = store::contents::find(&db, space, kind, before.content_id).await?;
            return found.ok_or(Failure::Refused(Refusal::NotFound));
        }
    }
    check_room(&db, space, kind).await?;
    let new = New { space, kind, id, fields: &fields, created_by: here.user_id, now };
    let stored = store::contents::insert(&db, &new).await?;
    db.commit().await?;
    Ok(stored)
}

pub async fn find(app: &App, here: Here<'_>, kind: Kind, id: &str) -> Result<Stored, Failure<Refusal>> {
    let not_found = || Failure::Refused(Refusal::NotFound);
    let id = ids::read(kind.prefix(), id).ok_or_else(not_found)?;
    let space = SpaceKey::of(here.place, here.user_id);
    let db = app.database.begin().await?;
    store::contents::enter(&db, &[space]).await?;
    store::contents::find(&db, space, kind, id).await?.ok_or_else(not_found)
}

pub async fn list(
    app: &App,
    here: Here<'_>,
    kind: Kind,
    limit: u16,
    cursor: Option<&str>,
) -> Result<Page<Content>, Failure<Refusal>> {
    let space = SpaceKey::of(here.place, here.user_id);
    let of = [kind.prefix().as_bytes(), space.id.as_bytes()];
    let list = List { vault: &app.vault, of: &of, limit };
    let after = list.behind(cursor).map_err(|foreign| Failure::Refused(foreign.into()))?;
    let db = app.database.begin().await?;
    store::contents::enter(&db, &[space]).await?;
    let rows = store::contents::list(&db, space, kind, after, list.rows()).await?;
    let data = rows.into_iter().map(|stored| stored.content).collect();
    let id = |content: &Content| ids::read(kind.prefix(), &content.id).unwrap_or_default();
    Ok(list.page(data, id))
}

/// Changes what was sent, if it is at a version that is meant. What says where it is to live may live in personal space
/// still, or already: a move that is sent again finds what it moved.
pub async fn update(
    app: &App,
    here: Here<'_>,
    kind: Kind,
    (id, meant): (&str, &Meant),
    sent: &Map<String, Value>,
) -> Result<Stored, Failure<Refusal>> {
    let not_found = || Failure::Refused(Refusal::NotFound);
    let now = app.clock.now();
    let id: Uuid = ids::read(kind.prefix(), id).ok_or_else(not_found)?;
    let (sent, scope) = read(sent).map_err(Failure::Refused)?;
    let checked = match Checked::read(kind, &sent) {
        Ok(checked) => checked,
        Err(invalid) => return Err(refuse(app, here, invalid).await),
    };
    let to = place(here, scope).map_err(Failure::Refused)?;
    let mut spaces = vec![SpaceKey::of(here.place, here.user_id)];
    if scope.is_some() && matches!(here.reach, Reach::Anywhere(_)) {
        spaces.push(SpaceKey::of(Place::Personal, here.user_id));
    }
    let db = app.database.begin().await?;
    store::contents::enter(&db, &spaces).await?;
    let (space, found) = find_locked_in(&db, &spaces, kind, id).await?.ok_or_else(not_found)?;
    if !meant.is_met_by(found.version) {
        return Err(Failure::Refused(Refusal::Stale));
    }
    if to != space {
        check_room(&db, to, kind).await?;
    }
    let fields = checked.update(&found.content.fields);
    let change = Change { fields: &fields, to, now };
    let updated = store::contents::update(&db, space, kind, (id, found.version), &change).await?;
    // Between reading and writing somebody else changed it.
    let updated = updated.ok_or(Failure::Refused(Refusal::Stale))?;
    db.commit().await?;
    Ok(updated)
}

async fn find_locked_in(
    db: &Connection,
    spaces: &[SpaceKey],
    kind: Kind,
    id: Uuid,
) -> Result<Option<(SpaceKey, Stored)>, Failure<Refusal>> {
    // The first once more: while the others were waited for, a move may have brought it there.
    for space in spaces.iter().chain(spaces.first()) {
        if let Some(found) = store::contents::find_locked(db, *space, kind, id).await? {
            return Ok(Some((*space, found)));
        }
    }
    Ok(None)
}

/// Deletes it, if it is at a version that is meant. What was deleted before is deleted; what never was is not found.
pub async fn delete(app: &App, here: Here<'_>, kind: Kind, id: &str, meant: &Meant) -> Result<(), Failure<Refusal>> {
    let not_found = || Failure::Refused(Refusal::NotFound);
    let id: Uuid = ids::read(kind.prefix(), id).ok_or_else(not_found)?;
    let space = SpaceKey::of(here.place, here.user_id);
    let thing = Thing { space_id: space.id, kind: kind.prefix(), id };
    let db = app.database.begin().await?;
    store::contents::enter(&db, &[space]).await?;
    let Some(found) = store::contents::find_locked(&db, space, kind, id).await? else {
        return if store::deletions::touch(&db, thing).await? { Ok(db.commit().await?) } else { Err(not_found()) };
    };
    if !meant.is_met_by(found.version) {
        return Err(Failure::Refused(Refusal::Stale));
    }
    store::contents::delete(&db, space, kind, id).await?;
    store::deletions::insert(&db, thing, app.clock.now()).await?;
    Ok(db.commit().await?)
}
