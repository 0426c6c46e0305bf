//! Clients whose id is the URL of their metadata document (OAuth Client ID Metadata Document).
//!
//! 1. The id must be a normalized URL.
//! 2. A document that was fetched recently is not fetched again. Of concurrent requests for one document, one fetches it.
//! 3. Documents are fetched only for signed-in users, so unauthenticated callers use up no limit and no slot of a host.
//! 4. The document must name its own URL as `client_id`, and contain no secrets.

use service_api::ids::UserId;
use service_rules::{
    Timestamp,
    clients::Client,
    lifetimes,
    limits::{Limited, Rate},
    network_rates::NetworkRates,
    registration::{self, Metadata, RegistrationError},
    signing::later,
};
use url::Url;

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        RequestMeta,
        clients::blocked_hosts,
        rate_limit::{Limit, NetworkLimit},
    },
    net::document_fetcher::{self, FetchError},
    store,
};

/// How many users it takes to use up the limit of a host.
const MIN_USERS_PER_HOST_LIMIT: u32 = 5;

/// Why a client's metadata document is not used.
#[derive(Debug, thiserror::Error)]
pub enum ClientMetadataError {
    #[error("the client id is not the URL of a metadata document")]
    InvalidUrl,
    #[error("the metadata document could not be fetched")]
    NotFetched,
    #[error("the metadata document is not a JSON object of client metadata")]
    NotJson,
    #[error(transparent)]
    Metadata(#[from] RegistrationError),
    #[error("an operator has blocked the host of the client")]
    BlockedHost,
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// What is known about a client.
pub enum FoundClient {
    /// The client is registered, or its document need not be fetched again.
    Current(Option<Client>),
    /// The document would have to be fetched, which is done for signed-in users only. This is the stored one, unless it is
    /// too old.
    Unfetched(Option<Client>),
}

/// Finds a client. If its id is a URL, its metadata document is fetched for a user who is signed in.
pub async fn find_client(
    app: &App,
    meta: &RequestMeta,
    id: &str,
    user_id: Option<UserId>,
) -> Result<FoundClient, ClientMetadataError> {
    let current = !id.starts_with("https://") || fetch_if_old(app, meta, id, user_id).await?;
    let db = app.database.connect().await?;
    if current {
        return Ok(FoundClient::Current(find_stored(&db, id).await?));
    }
    let since = later(app.clock.now(), -lifetimes::STALE_DOCUMENT);
    let known = store::clients::is_fresh(&db, id, since).await?;
    Ok(FoundClient::Unfetched(if known { find_stored(&db, id).await? } else { None }))
}

/// Finds a stored client. It counts as disabled if its host is blocked.
async fn find_stored(db: &Connection, id: &str) -> Result<Option<Client>, database::Error> {
    let Some(mut client) = store::clients::find(db, id).await? else { return Ok(None) };
    client.disabled |= blocked_hosts::is_client_blocked(db, &client).await?;
    Ok(Some(client))
}

/// Fetches the document unless the stored one is fresh. If it cannot be fetched, the stored one counts for a while.
/// `false`: no user is signed in for whom it could be fetched.
async fn fetch_if_old(
    app: &App,
    meta: &RequestMeta,
    id: &str,
    user_id: Option<UserId>,
) -> Result<bool, ClientMetadataError> {
    if !registration::is_document_address(id) {
        return Err(ClientMetadataError::InvalidUrl);
    }
    let url = Url::parse(id).map_err(|_| ClientMetadataError::InvalidUrl)?;
    let now = app.clock.now();
    if is_fresh(app, id, now).await? {
        return Ok(true);
    }
    let Some(user_id) = user_id else {
        let db = app.database.connect().await?;
        let is_blocked = blocked_hosts::is_blocked(&db, &[id]).await?;
        return if is_blocked { Err(ClientMetadataError::BlockedHost) } else { Ok(false) };
    };
    let known = is_fresh(app, id, later(now, -lifetimes::STALE_DOCUMENT)).await?;
    match fetch(app, meta, &DocumentRequest { id, url, known, user_id }).await {
        Err(ClientMetadataError::NotFetched | ClientMetadataError::Limited(_)) if known => Ok(true),
        fetched => fetched.map(|()| true),
    }
}

/// A document that is to be fetched for a user.
struct DocumentRequest<'a> {
    id: &'a str,
    url: Url,
    /// Whether it was fetched before.
    known: bool,
    /// The user who is signed in in the browser that sends the request.
    user_id: UserId,
}

async fn fetch(app: &App, meta: &RequestMeta, wanted: &DocumentRequest<'_>) -> Result<(), ClientMetadataError> {
    let DocumentRequest { id, url, known, user_id } = wanted;
    let now = app.clock.now();
    let (host, rate) = (url.host_str().unwrap_or_default(), app.config.limits.documents);
    let rates = NetworkRates::from_narrowest(rate);
    let per_network = NetworkLimit { policy: "documents-network", address: meta.address, rates };
    let db = app.database.connect().await?;
    // A user who names one URL after another uses up their own limit first, and then nothing of the network's and the
    // host's.
    let whom = user_id.to_string();
    let per_user = Limit { policy: "documents-user", whom: whom.as_bytes() };
    let mut limited = per_user.take_at_rate(app, &db, user_share(rate), now).await?;
    if limited.is_none() {
        limited = per_network.take(app, &db, now).await?;
    }
    if limited.is_none() && !*known {
        limited = Limit { policy: "documents-host", whom: host.as_bytes() }.take_at_rate(app, &db, rate, now).await?;
    }
    if let Some(limited) = limited {
        return Err(limited.into());
    }
    if blocked_hosts::is_blocked(&db, &[id]).await? {
        return Err(ClientMetadataError::BlockedHost);
    }
    drop(db);
    let turn = app.documents.turn(id).await.ok_or(ClientMetadataError::NotFetched)?;
    // The request that had the turn before may have fetched it.
    if is_fresh(app, id, now).await? {
        return Ok(());
    }
    let fetched = document_fetcher::fetch(&app.documents, url, *user_id).await;
    let fetched = fetched.map_err(|why: FetchError| {
        tracing::info!(why = why.to_string(), host, "A client's document could not be fetched");
        // Who finds no place has learned nothing about the document.
        if !matches!(why, FetchError::Busy | FetchError::HostBusy | FetchError::UserBusy) {
            turn.failed();
        }
        ClientMetadataError::NotFetched
    })?;
    let metadata: Metadata = serde_json::from_slice(&fetched.body).map_err(|_| ClientMetadataError::NotJson)?;
    let metadata = registration::check_document(id, &metadata, app.config.identity())?;
    let db = app.database.begin().await?;
    blocked_hosts::hold(&db).await?;
    if blocked_hosts::is_blocked(&db, &[id]).await? || blocked_hosts::is_blocked(&db, &metadata.redirect_uris).await? {
        return Err(ClientMetadataError::BlockedHost);
    }
    store::clients::replace_document(&db, id, &metadata, now, later(now, fetched.fresh_for)).await?;
    Ok(db.commit().await?)
}

/// The share of a host's or network's limit that one user may use up, so that one account does not block a host for others.
fn user_share(rate: Rate) -> Rate {
    Rate {
        burst: (rate.burst / MIN_USERS_PER_HOST_LIMIT).max(1),
        per_hour: (rate.per_hour / MIN_USERS_PER_HOST_LIMIT).max(1),
    }
}

async fn is_fresh(app: &App, id: &str, at: Timestamp) -> Result<bool, database::Error> {
    let db = app.database.connect().await?;
    store::clients::is_fresh(&db, id, at).await
}
