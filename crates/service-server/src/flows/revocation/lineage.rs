//! Revoking what a session made, in the transaction that revokes the session.
//!
//! `service_rules::lineage` decides what is revoked. This file finds it, revokes it, records it, and lists it for the mail to
//! the user. Sessions that are revoked here may have made something themselves, which is treated by the same rules.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{GrantId, UserId},
};
use service_rules::{
    Timestamp, lifetimes,
    lineage::{Event, Made, consequence},
    signing::later,
};
use uuid::Uuid;

use crate::{
    flows::{
        RequestMeta,
        account::address_change::Stop,
        operator::Operator,
        recovery_codes::{self, RemovedBy},
        revocation::RevocationTransaction,
    },
    locales::{Language, Locales},
    mail::{Email, MadeThings},
    store::{self, audit_events, lineage::LineageItem},
};

/// What a session made, divided by whether it was revoked.
#[derive(Debug, Default)]
pub struct RevokedLineage {
    pub revoked: Vec<LineageItem>,
    /// CLI tokens that were created too long before to be suspected. They stay valid.
    pub kept: Vec<LineageItem>,
}

impl RevokedLineage {
    /// Whether the mail to the user has nothing to list.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.revoked.is_empty() && self.kept.is_empty()
    }

    /// The list for the mail to the user, in English: the request that caused it may be an attacker's.
    #[must_use]
    pub fn listed(&self, locales: &Locales) -> MadeThings {
        let texts = locales.of(Language::English);
        let listed = |found: &[LineageItem]| found.iter().map(|found| found.spoken(texts)).collect();
        MadeThings { revoked: listed(&self.revoked), kept: listed(&self.kept) }
    }
}

/// What caused a revocation: audit events name it.
#[derive(Clone, Copy)]
pub enum Cause<'a> {
    Request(&'a RequestMeta),
    Operator(&'a Operator),
}

/// The revocation of what sessions of a user made, and what caused it.
pub struct LineageRevocation<'a> {
    pub cause: Cause<'a>,
    pub user_id: UserId,
    pub event: Event,
}

impl LineageRevocation<'_> {
    /// Revokes what a compromised grant made. Returns `None` if that was done before.
    pub async fn revoke_once(
        &self,
        transaction: &mut RevocationTransaction<'_>,
        grant: GrantId,
    ) -> anyhow::Result<Option<RevokedLineage>> {
        if !store::grants::claim_lineage(transaction.db(), grant, transaction.now()).await? {
            return Ok(None);
        }
        self.revoke(transaction, vec![grant.to_string()]).await.map(Some)
    }

    /// Revokes what these sessions made, and what that made.
    pub async fn revoke(
        &self,
        transaction: &mut RevocationTransaction<'_>,
        makers: Vec<String>,
    ) -> anyhow::Result<RevokedLineage> {
        let mut all = RevokedLineage::default();
        let mut makers = makers;
        while !makers.is_empty() {
            let (db, now) = (transaction.db(), transaction.now());
            let found = store::lineage::list_made(db, self.user_id, &makers, now).await?;
            let ended = store::lineage::list_ended(db, self.user_id, &makers, now).await?;
            let fate = |made: &LineageItem| {
                consequence(self.event, made.kind).revokes(made.made_at, made.used_at, transaction.now())
            };
            let (revoked, kept): (Vec<_>, Vec<_>) = found.into_iter().partition(fate);
            self.revoke_all(transaction, &revoked).await?;
            let made_more = revoked.iter().filter(|made| matches!(made.kind, Made::McpPair | Made::AppSession));
            // A session may have ended before: what it created is looked for all the same.
            makers = made_more.map(|made| made.id.clone()).chain(ended.iter().map(GrantId::to_string)).collect();
            all.revoked.extend(revoked);
            all.kept.extend(kept.into_iter().filter(|made| made.kind == Made::CliToken));
        }
        if consequence(self.event, Made::CliToken) == service_rules::lineage::Consequence::RevokedIfRecent {
            let ids: Vec<_> = all.kept.iter().map(|kept| kept.key).collect();
            store::cli_tokens::mark_suspected(transaction.db(), self.user_id, &ids, transaction.now()).await?;
        }
        Ok(all)
    }

    /// Revokes and records all of these, by one statement for each kind.
    async fn revoke_all(
        &self,
        transaction: &mut RevocationTransaction<'_>,
        made: &[LineageItem],
    ) -> anyhow::Result<()> {
        if made.is_empty() {
            return Ok(());
        }
        let reason = self.event.reason();
        let keys = |kinds: &[Made]| -> Vec<Uuid> {
            made.iter().filter(|made| kinds.contains(&made.kind)).map(|made| made.key).collect()
        };
        transaction.revoke_cli_tokens(self.user_id, &keys(&[Made::CliToken]), reason).await?;
        transaction.revoke_grants(self.user_id, &keys(&[Made::McpPair, Made::AppSession]), reason).await?;
        let invitations: Vec<_> = keys(&[Made::Invitation]).into_iter().map(Into::into).collect();
        store::invitations::delete_several(transaction.db(), self.user_id, &invitations).await?;
        store::passkeys::delete_several(transaction.db(), self.user_id, &keys(&[Made::Passkey])).await?;
        self.remove_recovery_codes(transaction, made).await?;
        self.tell_of_passkeys(transaction, made).await?;
        self.stop_address_change(transaction, made).await?;
        // The removal of recovery codes is recorded where they are removed.
        let recorded = made.iter().filter(|made| made.kind != Made::RecoveryCodes);
        let events = recorded.map(|made| self.revoked_event(made, transaction.now()));
        let events = events.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(store::audit_events::insert_several(transaction.db(), &events).await?)
    }

    /// Removes the recovery codes that a session created, and those of a user who has no passkey left.
    async fn remove_recovery_codes(
        &self,
        transaction: &RevocationTransaction<'_>,
        made: &[LineageItem],
    ) -> anyhow::Result<()> {
        let (app, db) = (transaction.app(), transaction.db());
        let by = match self.cause {
            Cause::Request(meta) => RemovedBy::Request(meta),
            Cause::Operator(operator) => RemovedBy::Operator(operator),
        };
        if made.iter().any(|made| made.kind == Made::RecoveryCodes) {
            recovery_codes::remove(app, by, db, self.user_id).await?;
        } else if made.iter().any(|made| made.kind == Made::Passkey) {
            recovery_codes::remove_without_passkey(app, by, db, self.user_id).await?;
        }
        Ok(())
    }

    /// Stops a change of the address that a session requested, and tells the user.
    async fn stop_address_change(
        &self,
        transaction: &RevocationTransaction<'_>,
        made: &[LineageItem],
    ) -> anyhow::Result<()> {
        if !made.iter().any(|made| made.kind == Made::AddressChange) {
            return Ok(());
        }
        let (app, db, now) = (transaction.app(), transaction.db(), transaction.now());
        match store::address_changes::delete(db, self.user_id).await? {
            Some(address) => Stop { user_id: self.user_id, address, now }.tell(app, db).await,
            None => Ok(()),
        }
    }

    /// Sends the user a mail about each passkey that was removed.
    async fn tell_of_passkeys(
        &self,
        transaction: &RevocationTransaction<'_>,
        made: &[LineageItem],
    ) -> anyhow::Result<()> {
        let (app, db, now) = (transaction.app(), transaction.db(), transaction.now());
        for passkey in made.iter().filter(|made| made.kind == Made::Passkey) {
            let Some(user) = store::users::find(db, self.user_id).await? else { break };
            let mail = Email::PasskeyRemoved {
                to: user.email,
                name: passkey.name.clone(),
                at: now,
                from: match self.cause {
                    Cause::Request(meta) => meta.address.to_string(),
                    Cause::Operator(_) => "–".to_owned(),
                },
                // The request may be an attacker's.
                language: Language::English,
            };
            mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?;
            app.mail_waiting.notify_one();
        }
        Ok(())
    }

    fn revoked_event(
        &self,
        made: &LineageItem,
        now: Timestamp,
    ) -> anyhow::Result<audit_events::NewAuditEvent<'static>> {
        let name = match made.kind {
            Made::CliToken => EventName::CliTokenRevoked,
            Made::McpPair | Made::AppSession => EventName::SessionEnded,
            Made::Invitation => EventName::InvitationRevoked,
            Made::Passkey => EventName::PasskeyRemoved,
            Made::RecoveryCodes => EventName::RecoveryCodesRemoved,
            Made::AddressChange => EventName::AddressChangeStopped,
        };
        let details = json!({ "madeBy": made.made_by, "reason": self.event.reason().as_str() });
        let event = match self.cause {
            Cause::Request(meta) => meta.event(name, now, details)?,
            Cause::Operator(operator) => operator.event(name, now, details)?,
        };
        let event = event.user(self.user_id);
        Ok(event.in_workspace(made.workspace_id).subject(&made.id))
    }
}
