//! A client registers itself (`POST /oauth/register`, RFC 7591). Saying the same again makes no second client.

use serde_json::json;
use service_api::{audit_events::EventName, ids::ClientId};
use service_rules::{
    Timestamp,
    limits::Limited,
    registration::{self, Metadata, Registered},
};

use crate::{
    app::App,
    digest::sha256,
    failure::Failure,
    flows::{
        Asker,
        limit::{Limit, network_of},
    },
    mint, store,
};

#[derive(Debug)]
pub enum Refusal {
    Said(registration::Refusal),
    Limited(Limited),
}

pub struct Registration {
    pub id: String,
    pub issued_at: Timestamp,
    pub said: Registered,
}

pub async fn register(app: &App, asker: &Asker, metadata: &Metadata) -> Result<Registration, Failure<Refusal>> {
    let now = app.clock.now();
    let said = registration::check_stranger(metadata).map_err(|refusal| Failure::Refused(Refusal::Said(refusal)))?;
    let db = app.database.connect().await?;
    let network = network_of(asker.address);
    let limit = Limit { policy: "registrations-network", whom: network.as_bytes() };
    if let Some(limited) = limit.take_at_rate(app, &db, app.config.limits.registrations_per_network, now).await? {
        return Err(Failure::Refused(Refusal::Limited(limited)));
    }
    let digest = sha256(json!({ "name": said.name, "redirect_uris": said.redirect_uris }).to_string());
    let id = mint::id::<ClientId>(now)?.to_string();
    let (known, issued_at) = store::clients::register(&db, &id, &said, &digest, now).await?;
    if known == id {
        let mut event = asker.event(EventName::ClientRegistered, now, json!({ "name": said.name }))?;
        event.subject = Some(id);
        store::audit_events::insert(&db, &event).await?;
    }
    Ok(Registration { id: known, issued_at, said })
}
