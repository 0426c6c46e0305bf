//! Table `clients`: OAuth clients.

use serde_json::Value;
use service_rules::{
    Timestamp,
    client_links::ClientLinks,
    clients::{Authentication, Client, ClientKind, SecretDigest},
    display_name::DisplayName,
    registration::{Redirects, Registered},
};
use tokio_postgres::Row;

use crate::database::{Connection, Error};

/// Returns a client by its id.
pub async fn find(db: &Connection, id: &str) -> Result<Option<Client>, Error> {
    let row = db
        .query_opt(
            r"select id, name, kind, may_use_otp, may_introspect, auth_method, secret_digest, redirect_uris,
                     disabled_at is not null as disabled
                from clients where id = $1",
            &[&id],
        )
        .await?;
    row.map(|row| read(&row, "id")).transpose()
}

/// Returns the public keys of a client that authenticates by `private_key_jwt`.
pub async fn find_jwks(db: &Connection, id: &str) -> Result<Option<Value>, Error> {
    let row = db.query_opt(r"select jwks from clients where id = $1", &[&id]).await?;
    row.map_or(Ok(None), |row| Ok(row.try_get("jwks")?))
}

/// Returns the links that a client named.
pub async fn find_links(db: &Connection, id: &str) -> Result<ClientLinks, Error> {
    let row = db.query_opt(r"select client_uri, policy_uri, tos_uri from clients where id = $1", &[&id]).await?;
    let Some(row) = row else { return Ok(ClientLinks::default()) };
    Ok(ClientLinks {
        website: row.try_get("client_uri")?,
        policy: row.try_get("policy_uri")?,
        terms: row.try_get("tos_uri")?,
    })
}

/// Returns up to `size` clients after this id, ordered by id.
pub async fn list(db: &Connection, after: Option<&str>, size: i64) -> Result<Vec<Client>, Error> {
    let rows = db
        .query(
            r"select id, name, kind, may_use_otp, may_introspect, auth_method, secret_digest, redirect_uris,
                     disabled_at is not null as disabled
                from clients where $1::text is null or id > $1 order by id limit $2",
            &[&after, &size],
        )
        .await?;
    rows.iter().map(|row| read(row, "id")).collect()
}

/// Whether an enabled client has this web origin.
pub async fn is_origin(db: &Connection, origin: &str) -> Result<bool, Error> {
    let sql = r"select from clients where origins @> array[$1::text] and disabled_at is null limit 1";
    Ok(db.query_opt(sql, &[&origin]).await?.is_some())
}

/// A client that an operator creates.
pub struct NewClient<'a> {
    pub id: &'a str,
    pub name: &'a DisplayName,
    pub redirect_uris: &'a [String],
    pub origins: &'a [String],
    pub may_introspect: bool,
    pub secret: Option<&'a SecretDigest>,
    pub jwks: Option<&'a Value>,
}

/// Stores a client that an operator creates.
pub async fn insert(db: &Connection, new: &NewClient<'_>, now: Timestamp) -> Result<(), Error> {
    let method = match (new.secret, new.jwks) {
        (Some(_), _) => "secret",
        (None, Some(_)) => "private_key_jwt",
        (None, None) => "none",
    };
    db.execute(
        r"insert into clients (id, name, kind, first_party, may_use_otp, may_introspect, auth_method, secret_digest, jwks,
                               redirect_uris, origins, created_at)
          values ($1, $2, 'registered', false, false, $3, $4, $5, $6, $7, $8, $9)",
        &[
            &new.id,
            &new.name.as_str(),
            &new.may_introspect,
            &method,
            &new.secret.map(<[u8; 32]>::as_slice),
            &new.jwks,
            &new.redirect_uris,
            &new.origins,
            &now,
        ],
    )
    .await
    .map(drop)
}

/// Registers a client with this metadata. If one registered the same metadata before, returns its id and its time of
/// registration.
pub async fn register(
    db: &Connection,
    id: &str,
    said: &Registered,
    digest: &[u8; 32],
    now: Timestamp,
) -> Result<(String, Timestamp), Error> {
    let row = db
        .query_opt(
            r"with made as (
                  insert into clients (id, name, kind, first_party, may_use_otp, redirect_uris, origins, metadata_digest,
                                       created_at, client_uri, policy_uri, tos_uri)
                  values ($1, $2, 'dynamic', false, false, $3, $4, $5, $6, $7, $8, $9)
                  on conflict (metadata_digest) where metadata_digest is not null do nothing
                  returning id, created_at)
              select id, created_at from made
              union all select id, created_at from clients where metadata_digest = $5
              limit 1",
            &[
                &id,
                &said.name.as_str(),
                &said.redirect_uris,
                &said.origins,
                &digest.as_slice(),
                &now,
                &said.links.website,
                &said.links.policy,
                &said.links.terms,
            ],
        )
        .await?;
    // Two requests that register the same client at once may both see no row. The caller retries.
    let row = row.ok_or_else(|| Error::Unavailable("the client is being registered".into()))?;
    Ok((row.try_get("id")?, row.try_get("created_at")?))
}

/// Whether a client's metadata document is still fresh.
pub async fn is_fresh(db: &Connection, id: &str, now: Timestamp) -> Result<bool, Error> {
    let sql = r"select from clients where id = $1 and kind = 'document' and fresh_until > $2";
    Ok(db.query_opt(sql, &[&id, &now]).await?.is_some())
}

/// Stores a client by its metadata document, or replaces what an earlier document said.
pub async fn replace_document(
    db: &Connection,
    id: &str,
    said: &Registered,
    now: Timestamp,
    fresh_until: Timestamp,
) -> Result<(), Error> {
    db.execute(
        r"insert into clients (id, name, kind, first_party, may_use_otp, redirect_uris, origins, fresh_until, created_at,
                               client_uri, policy_uri, tos_uri)
          values ($1, $2, 'document', false, false, $3, $4, $5, $6, $7, $8, $9)
          on conflict (id) do update
             set name = excluded.name, redirect_uris = excluded.redirect_uris, origins = excluded.origins,
                 fresh_until = excluded.fresh_until, client_uri = excluded.client_uri,
                 policy_uri = excluded.policy_uri, tos_uri = excluded.tos_uri
           where clients.kind = 'document'",
        &[
            &id,
            &said.name.as_str(),
            &said.redirect_uris,
            &said.origins,
            &fresh_until,
            &now,
            &said.links.website,
            &said.links.policy,
            &said.links.terms,
        ],
    )
    .await
    .map(drop)
}

/// Deletes up to `size` self-registered clients to which no user ever consented, or that no user authorized since
/// `authorized_before`. A client that an operator disabled stays; otherwise it could register again and be enabled.
pub async fn delete_unused(
    db: &Connection,
    known_before: Timestamp,
    authorized_before: Timestamp,
    size: i64,
) -> Result<u64, Error> {
    db.execute(
        r"delete from clients where id in
              (select id from clients c
                where kind in ('dynamic', 'document') and disabled_at is null and coalesce(fresh_until, created_at) <= $1
                  and (agreed_at is null or agreed_at <= $2)
                limit $3 for update skip locked)",
        &[&known_before, &authorized_before, &size],
    )
    .await
}

/// Records that a user authorized a self-registered client. The time is exact to a day, so that a client with many users is
/// rarely written.
pub async fn mark_agreed(db: &Connection, id: &str, now: Timestamp) -> Result<(), Error> {
    let sql = r"update clients set agreed_at = $2::timestamptz
                 where id = $1 and kind in ('dynamic', 'document')
                   and (agreed_at is null or agreed_at <= $2::timestamptz - interval '1 day')";
    db.execute(sql, &[&id, &now]).await.map(drop)
}

/// Disables or enables a client; `false`: there is no such client, or nothing changes.
pub async fn mark_disabled(db: &Connection, id: &str, disabled_at: Option<Timestamp>) -> Result<bool, Error> {
    let sql = r"update clients set disabled_at = $2
                 where id = $1 and (disabled_at is null) <> ($2::timestamptz is null)";
    Ok(db.execute(sql, &[&id, &disabled_at]).await? == 1)
}

/// Replaces the redirect URIs of a client; `false`: there is no such client.
pub async fn update_redirect_uris(db: &Connection, id: &str, said: &Redirects) -> Result<bool, Error> {
    let sql = r"update clients set redirect_uris = $2, origins = $3 where id = $1";
    Ok(db.execute(sql, &[&id, &said.redirect_uris, &said.origins]).await? == 1)
}

/// Reads a client from a row whose column `id` holds the client's id.
pub(super) fn read(row: &Row, id: &str) -> Result<Client, Error> {
    let secret: Option<&[u8]> = row.try_get("secret_digest")?;
    let secret = secret.map(SecretDigest::try_from).transpose();
    let secret = secret.map_err(|_| super::impossible("clients", "secret_digest"))?;
    let authentication = match (row.try_get("auth_method")?, secret) {
        ("none", None) => Authentication::None,
        ("secret", Some(digest)) => Authentication::Secret(digest),
        ("private_key_jwt", None) => Authentication::PrivateKey,
        _ => return Err(super::impossible("clients", "auth_method")),
    };
    let kind = match row.try_get("kind")? {
        "first_party" => ClientKind::FirstParty,
        "registered" => ClientKind::Registered,
        "dynamic" => ClientKind::Dynamic,
        "document" => ClientKind::Document,
        _ => return Err(super::impossible("clients", "kind")),
    };
    Ok(Client {
        id: row.try_get(id)?,
        name: row.try_get("name")?,
        kind,
        may_use_otp: row.try_get("may_use_otp")?,
        may_introspect: row.try_get("may_introspect")?,
        authentication,
        redirect_uris: row.try_get("redirect_uris")?,
        disabled: row.try_get("disabled")?,
    })
}

/// Replaces the digest of a client secret by one that no secret has; returns the id of the client. The client stays,
/// and can no longer authenticate.
pub async fn revoke_secret(db: &Connection, digest: &[u8; 32], nobodys: &[u8; 32]) -> Result<Option<String>, Error> {
    let sql = r"update clients set secret_digest = $2 where secret_digest = $1 returning id";
    let row = db.query_opt(sql, &[&digest.as_slice(), &nobodys.as_slice()]).await?;
    row.map(|row| Ok(row.try_get("id")?)).transpose()
}
