//! Clients that we have never met, whose name is the address of a document about them.
//!
//! 1. The name must be an address that can be read in one way only.
//! 2. What was fetched lately is not fetched again. Of many who want the same, one fetches.
//! 3. The document must say of itself that it is the one at this address, and hold no secrets.

use service_rules::{
    Timestamp,
    clients::Client,
    lifetimes,
    limits::Limited,
    registration::{self, Metadata},
    signing::later,
};
use url::Url;

use crate::{
    app::App,
    document_fetcher::{self, NotFetched},
    failure::Failure,
    flows::{
        Asker,
        limit::{Limit, network_of},
    },
    store,
};

#[derive(Debug)]
pub enum Refusal {
    /// It is not the address of a document.
    Address,
    NotFetched,
    /// The document does not do; this says why.
    Document(String),
    Limited(Limited),
}

/// The client of this name; its document is fetched if the name is an address.
pub async fn find_client(app: &App, asker: &Asker, id: &str) -> Result<Option<Client>, Failure<Refusal>> {
    if id.starts_with("https://") {
        fetch_if_old(app, asker, id).await?;
    }
    let db = app.database.connect().await?;
    Ok(store::clients::find(&db, id).await?)
}

/// What is known from before is believed for a while if it cannot be had anew.
async fn fetch_if_old(app: &App, asker: &Asker, id: &str) -> Result<(), Failure<Refusal>> {
    let refuse = |refusal| Failure::Refused(refusal);
    if !registration::is_document_address(id) {
        return Err(refuse(Refusal::Address));
    }
    let url = Url::parse(id).map_err(|_| refuse(Refusal::Address))?;
    let now = app.clock.now();
    if is_fresh(app, id, now).await? {
        return Ok(());
    }
    let known = is_fresh(app, id, later(now, -lifetimes::STALE_DOCUMENT)).await?;
    match fetch(app, asker, id, &url, known).await {
        Err(Failure::Refused(Refusal::NotFetched | Refusal::Limited(_))) if known => Ok(()),
        fetched => fetched,
    }
}

async fn fetch(app: &App, asker: &Asker, id: &str, url: &Url, known: bool) -> Result<(), Failure<Refusal>> {
    let refuse = |refusal| Failure::Refused(refusal);
    let now = app.clock.now();
    let (network, host) = (network_of(asker.address), url.host_str().unwrap_or_default().to_owned());
    // A stranger who names one address after another uses up the host's budget, and not that of clients we know.
    let limits = [("documents-network", &network), ("documents-host", &host)];
    for (policy, whom) in limits.into_iter().take(if known { 1 } else { 2 }) {
        let limit = Limit { policy, whom: whom.as_bytes() };
        let db = app.database.connect().await?;
        if let Some(limited) = limit.take_at_rate(app, &db, app.config.limits.documents, now).await? {
            return Err(refuse(Refusal::Limited(limited)));
        }
    }
    let Some(turn) = app.documents.turn(id).await else { return Err(refuse(Refusal::NotFetched)) };
    // Whoever had the turn before may have fetched it.
    if is_fresh(app, id, now).await? {
        return Ok(());
    }
    let fetched = document_fetcher::fetch(&app.documents, url).await;
    let fetched = fetched.map_err(|why: NotFetched| {
        tracing::info!(why = why.as_str(), host, "A client's document could not be fetched");
        turn.failed();
        refuse(Refusal::NotFetched)
    })?;
    let metadata: Metadata = serde_json::from_slice(&fetched.body)
        .map_err(|_| refuse(Refusal::Document("the document is not a JSON object of client metadata.".into())))?;
    let said = registration::check_document(id, &metadata).map_err(|refusal| match refusal {
        registration::Refusal::RedirectUri(text) | registration::Refusal::Metadata(text) => {
            refuse(Refusal::Document(text))
        }
    })?;
    let db = app.database.connect().await?;
    Ok(store::clients::replace_document(&db, id, &said, (now, later(now, fetched.fresh_for))).await?)
}

async fn is_fresh(app: &App, id: &str, at: Timestamp) -> anyhow::Result<bool> {
    let db = app.database.connect().await?;
    Ok(store::clients::is_fresh(&db, id, at).await?)
}
