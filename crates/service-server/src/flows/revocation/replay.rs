//! Replayed refresh tokens: the session is revoked, and its user gets a mail.

use serde_json::json;
use service_api::{audit_events::EventName, errors::Reason};
use service_rules::{
    Timestamp, lifetimes, lineage,
    rotation::{self, Generations},
    signing::later,
};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        revocation::{
            RevocationTransaction,
            lineage::{Cause, LineageRevocation, RevokedLineage},
        },
    },
    mail::Email,
    store::{audit_events::NewAuditEvent, grants::StoredGrant},
};

/// A refresh token that was presented although another holder has its successor.
pub struct Replay<'a> {
    pub grant: &'a StoredGrant,
    pub presented: i32,
    pub reason: Reason,
}

impl Replay<'_> {
    /// Revokes the grant with what it made, and mails its user. Returns `false` if it was revoked in the meantime.
    pub async fn revoke(&self, app: &App, meta: &RequestMeta, now: Timestamp) -> anyhow::Result<bool> {
        let mut transaction = RevocationTransaction::begin(app, now).await?;
        if !transaction.revoke_grant(self.grant.id, Reason::Replayed).await? {
            return Ok(false);
        }
        let made = self.lineage(meta).revoke_once(&mut transaction, self.grant.id).await?;
        self.finish(app, meta, transaction, &made.unwrap_or_default()).await?;
        Ok(true)
    }

    /// Revokes what a grant made that was revoked before it was known to be compromised, and mails its user. Only once: a
    /// client that keeps presenting old tokens causes no further mails.
    async fn revoke_lineage(&self, app: &App, meta: &RequestMeta, now: Timestamp) -> anyhow::Result<()> {
        if self.grant.lineage_revoked || self.grant.facts.user_disabled {
            return Ok(());
        }
        let mut transaction = RevocationTransaction::begin(app, now).await?;
        match self.lineage(meta).revoke_once(&mut transaction, self.grant.id).await? {
            Some(made) => self.finish(app, meta, transaction, &made).await,
            None => Ok(()),
        }
    }

    fn lineage<'l>(&self, meta: &'l RequestMeta) -> LineageRevocation<'l> {
        let event =
            if self.reason == Reason::Superseded { lineage::Event::Superseded } else { lineage::Event::Replayed };
        LineageRevocation { cause: Cause::Request(meta), user_id: self.grant.user_id, event }
    }

    async fn finish(
        &self,
        app: &App,
        meta: &RequestMeta,
        transaction: RevocationTransaction<'_>,
        made: &RevokedLineage,
    ) -> anyhow::Result<()> {
        let now = transaction.now();
        let mut event = event(meta, EventName::RefreshReplay, self.grant, self.presented, now)?;
        event.details["reason"] = self.reason.as_str().into();
        event.insert(transaction.db()).await?;
        let mail = Email::SessionReplayed {
            to: self.grant.user_email.clone(),
            client_id: self.grant.client.id.clone(),
            ended_at: now,
            presented_from: meta.address.to_string(),
            made: made.listed(&app.locales),
        };
        mail.enqueue(&app.root_keys, transaction.db(), now, later(now, lifetimes::WARNING)).await?;
        transaction.commit().await?;
        app.mail_waiting.notify_one();
        Ok(())
    }
}

/// An event about a refresh token of a grant.
pub fn event<'g>(
    meta: &RequestMeta,
    name: EventName,
    grant: &'g StoredGrant,
    presented: i32,
    now: Timestamp,
) -> anyhow::Result<NewAuditEvent<'g>> {
    let Generations { base, issued } = grant.facts.generations;
    let event = meta.event(name, now, json!({ "presented": presented, "base": base, "issued": issued }))?;
    let event = event.user(grant.user_id).client(&grant.client.id);
    Ok(event.in_workspace(grant.workspace_id).subject(grant.id))
}

/// Handles a genuine token of a revoked grant that is presented again: if it was replayed, what the grant made is revoked.
pub async fn note_revoked(
    app: &App,
    meta: &RequestMeta,
    grant: &StoredGrant,
    presented: i32,
    now: Timestamp,
) -> anyhow::Result<()> {
    let revoked = grant.facts.ended.is_some();
    match rotation::replay(presented, grant.facts.generations) {
        Some(reason) if revoked => Replay { grant, presented, reason }.revoke_lineage(app, meta, now).await,
        Some(_) | None => Ok(()),
    }
}
