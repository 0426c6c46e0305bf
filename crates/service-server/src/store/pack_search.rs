//! Table `pack_search`: the search index of packs. The service accesses it through two functions of the schema's owner,
//! which only work in the spaces that the transaction has entered.

use service_api::contents::{Content, Kind};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{
    database::{Connection, Error},
    store::contents::{BoundedList, SpaceOwner, StoredContent, bounded, from_row},
};

/// Updates the search index for a pack, in the transaction that wrote the pack.
pub async fn index(db: &Connection, space: SpaceOwner, pack_id: Uuid) -> Result<(), Error> {
    db.query(r"select index_pack($1, $2)", &[&space.id, &pack_id]).await.map(drop)
}

/// Enters spaces for a search, and sets a statement timeout of half a second.
pub async fn enter(db: &Connection, spaces: &[SpaceOwner]) -> Result<(), Error> {
    let names: Vec<_> = spaces.iter().map(|space| space.id.to_string()).collect();
    let sql = r"select set_config('service.spaces', $1, true), set_config('statement_timeout', '500ms', true)";
    db.query(sql, &[&names.join(",")]).await.map(drop)
}

/// A search in the entered spaces, and the page of the result.
pub struct PackQuery<'a> {
    pub pack_type: &'a str,
    pub query: &'a str,
    pub offset: i64,
    pub limit: i64,
    /// The limit on the bytes of the fields in a page.
    pub bytes: i64,
}

/// A pack that was found, with its score and a part of its text in which the words are marked.
pub struct PackHit {
    pub content: Content,
    pub score: f32,
    pub marked: String,
}

/// Returns packs that contain the words; if there are none, packs whose name resembles the query.
///
/// Only the fields of packs in the page are read. Marking words in a long text takes milliseconds, so only the
/// surroundings of one word are passed to `ts_headline`. A text is lower-cased only if the word is not found otherwise.
pub async fn search(db: &Connection, wanted: &PackQuery<'_>) -> Result<BoundedList<PackHit>, Error> {
    let rows = db
        .query(
            r"/* entered spaces */
              select c.space_id, c.id, in_workspace, fields, version, created_at, updated_at, c.bytes, page.score, page.found,
                     ts_headline('english', substr(text, greatest(place.first - 100, 1)::integer, 600),
                                 websearch_to_tsquery('english', $2),
                                 U&'StartSel=\E000, StopSel=\E001, MaxWords=30, MinWords=10') as marked
                from (select hits.*, (sum(bytes) over (order by score desc, pack_id))::bigint - bytes as bytes_before,
                             count(*) over () as found
                        from (select * from find_packs($1, $2) order by score desc, pack_id offset $3 limit $4) as hits
                       cross join lateral
                             (select bytes from contents
                               where space_id = hits.space_id and kind = 'pack' and id = hits.pack_id
                                 and shard = hits.shard offset 0) as size
                     ) as page
               cross join lateral
                     (select space_id, id, in_workspace, fields, version, created_at, updated_at, bytes,
                             coalesce(fields->>'text', fields->>'name') as text
                        from contents
                       where space_id = page.space_id and kind = 'pack' and id = page.pack_id
                         and shard = page.shard offset 0) as c
               cross join lateral
                     (select coalesce(min(coalesce(nullif(strpos(text, word), 0),
                                                   nullif(strpos(text, initcap(word)), 0),
                                                   nullif(strpos(lower(text), word), 0))), 1) as first
                        from unnest(tsvector_to_array(to_tsvector('english', $2))) as word) as place
               where bytes_before < $5
               order by score desc, id",
            &[&wanted.pack_type, &wanted.query, &wanted.offset, &wanted.limit, &wanted.bytes],
        )
        .await?;
    let hit = |row: &Row| {
        let StoredContent { content, .. } = from_row(row, Kind::Pack)?;
        Ok(PackHit { content, score: row.try_get("score")?, marked: row.try_get("marked")? })
    };
    bounded(&rows, hit)
}
