//! Registers a client (`POST /oauth/register`, RFC 7591). A repeated registration creates no second client.

use serde_json::json;
use service_api::{audit_events::EventName, ids::ClientId};
use service_rules::{
    Timestamp,
    client_links::ClientLinks,
    limits::Limited,
    registration::{self, Metadata, Registered, RegistrationError},
};

use crate::{
    app::App,
    crypto::{digest::sha256, random},
    database,
    flows::{RequestMeta, clients::blocked_hosts, rate_limit::NetworkLimit},
    store,
};

/// Why a client is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterClientError {
    #[error(transparent)]
    Metadata(#[from] RegistrationError),
    #[error("an operator has blocked the host of a redirect URI")]
    BlockedHost,
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// A client that is registered.
pub struct Registration {
    pub id: String,
    pub issued_at: Timestamp,
    pub metadata: Registered,
}

pub async fn register_client(
    app: &App,
    meta: &RequestMeta,
    metadata: &Metadata,
) -> Result<Registration, RegisterClientError> {
    let now = app.clock.now();
    let metadata = registration::check_unverified(metadata, app.config.identity())?;
    let db = app.database.connect().await?;
    let rates = app.config.limits.registrations_per_network;
    let limit = NetworkLimit { policy: "registrations-network", address: meta.address, rates };
    if let Some(limited) = limit.take(app, &db, now).await? {
        return Err(limited.into());
    }
    drop(db);
    let db = app.database.begin().await?;
    blocked_hosts::hold(&db).await?;
    if blocked_hosts::is_blocked(&db, &metadata.redirect_uris).await? {
        return Err(RegisterClientError::BlockedHost);
    }
    let name = metadata.name.as_str();
    let mut said = json!({ "name": name, "redirect_uris": metadata.redirect_uris });
    // Without links it is what clients were registered by before there were any.
    if !metadata.links.is_empty() {
        let ClientLinks { website, policy, terms } = &metadata.links;
        said["links"] = json!([website, policy, terms]);
    }
    let digest = sha256(said.to_string());
    let id = random::id::<ClientId>(now)?.to_string();
    let (known, issued_at) = store::clients::register(&db, &id, &metadata, &digest, now).await?;
    if known == id {
        let mut event = meta.event(EventName::ClientRegistered, now, json!({ "name": name }))?;
        event.subject = Some(id);
        store::audit_events::insert(&db, &event).await?;
    }
    db.commit().await?;
    Ok(Registration { id: known, issued_at, metadata })
}
