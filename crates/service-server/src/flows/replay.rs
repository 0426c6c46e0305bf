//! A refresh token that came back although somebody else has its successor: its session is ended, and its user told.

use serde_json::json;
use service_api::{audit_events::EventName, errors::Reason};
use service_rules::{Timestamp, lifetimes, rotation::Generations, signing::later};

use crate::{
    app::App,
    flows::{Asker, end_access::EndingTransaction},
    letters::Letter,
    store::{self, audit_events::Event, grants::StoredGrant},
};

/// A token that came back although somebody else has its successor.
pub struct Replay<'a> {
    pub grant: &'a StoredGrant,
    pub presented: i32,
    pub reason: Reason,
}

impl Replay<'_> {
    /// Ends the grant, and tells its user; `false`: it has been ended meanwhile.
    pub async fn end(&self, app: &App, asker: &Asker, now: Timestamp) -> anyhow::Result<bool> {
        let mut transaction = EndingTransaction::begin(app, now).await?;
        if !transaction.end_grant(self.grant.id, Reason::Replayed).await? {
            return Ok(false);
        }
        let mut event = event(asker, EventName::RefreshReplay, self.grant, self.presented, now)?;
        event.details["reason"] = self.reason.as_str().into();
        store::audit_events::insert(transaction.db(), &event).await?;
        let letter = Letter::SessionReplayed {
            to: self.grant.user_email.clone(),
            client_id: self.grant.client.id.clone(),
            ended_at: now,
            presented_from: asker.address.to_string(),
        };
        letter.post(&app.vault, transaction.db(), now, later(now, lifetimes::WARNING)).await?;
        transaction.commit().await?;
        app.mail_waiting.notify_one();
        Ok(true)
    }
}

/// Something that happened with a refresh token.
pub fn event<'g>(
    asker: &Asker,
    name: EventName,
    grant: &'g StoredGrant,
    presented: i32,
    now: Timestamp,
) -> anyhow::Result<Event<'g>> {
    let Generations { base, issued } = grant.facts.generations;
    let mut event: Event<'g> =
        asker.event(name, now, json!({ "presented": presented, "base": base, "issued": issued }))?;
    event.user_id = Some(grant.user_id);
    event.client_id = Some(&grant.client.id);
    event.workspace_id = grant.workspace_id;
    event.subject = Some(grant.id.to_string());
    Ok(event)
}
