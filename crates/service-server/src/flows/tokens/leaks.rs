//! Reports of leaked tokens (`POST /v1/token-leaks`): a caller who has a token can report it, and it is revoked.
//!
//! The response is the same whatever is reported, so that a caller does not learn whether a token is valid.

use std::collections::HashSet;

use serde_json::{Value, json};
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::UserId,
    leaks::{Leaked, MOST_REPORTED},
    token::{
        AddressLink, BrowserSession, CliToken, Client, DeviceSecret, KeepAccount, PresentedToken, SignInReport, Token,
    },
};
use service_rules::{Timestamp, cli_tokens::FieldError, lifetimes, limits::Limited, lineage, signing::later};

use crate::{
    app::App,
    crypto::{digest::sha256, random},
    database,
    flows::{
        RequestMeta,
        account::{address_change::Stop, deletion},
        authenticate,
        oauth::revoke,
        rate_limit::NetworkLimit,
        revocation::{
            RevocationTransaction,
            lineage::{Cause, LineageRevocation},
        },
        sign_in::{browser_session, devices},
    },
    mail::{self, Email, MadeThings},
    store::{
        self, address_changes::LinkKey, audit_events::NewAuditEvent, browser_sessions::CookieKey,
        sign_in_reports::ReportKey,
    },
};

/// Why a report of leaked tokens is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum LeakReportError {
    #[error(transparent)]
    InvalidField(#[from] FieldError),
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

pub async fn report_leaks(app: &App, meta: &RequestMeta, leaked: &[Leaked]) -> Result<(), LeakReportError> {
    let now = app.clock.now();
    if leaked.is_empty() || leaked.len() > MOST_REPORTED {
        let message = format!("must have 1 to {MOST_REPORTED} tokens");
        return Err(FieldError { field: "tokens", message }.into());
    }
    let rates = app.config.limits.leak_reports_per_network;
    let per_network = NetworkLimit { policy: "leak-reports-network", address: meta.address, rates };
    let limited = per_network.take(app, &app.database.connect().await?, now).await?;
    if let Some(limited) = limited {
        return Err(limited.into());
    }
    let (mut seen, mut failed) = (HashSet::new(), None);
    for token in leaked.iter().map(Leaked::token).filter(|token| seen.insert(token.expose())) {
        let reporting = Reporting { app, meta, token, now };
        let revoked = reporting.revoke().await;
        // The others are revoked even if one cannot be.
        failed = revoked.err().or(failed);
    }
    app.mail_waiting.notify_one();
    failed.map_or(Ok(()), |error| Err(LeakReportError::Defect(error)))
}

struct Reporting<'a> {
    app: &'a App,
    meta: &'a RequestMeta,
    token: &'a PresentedToken,
    now: Timestamp,
}

impl Reporting<'_> {
    /// Revokes the token, whatever kind it is.
    async fn revoke(&self) -> anyhow::Result<()> {
        let text = self.token.expose();
        if let Some(token) = CliToken::parse(text) {
            self.revoke_cli_token(&token).await
        } else if let Some(cookie) = Token::<BrowserSession>::parse(text) {
            self.revoke_browser_session(&cookie).await
        } else if let Some(secret) = Token::<Client>::parse(text) {
            self.revoke_client_secret(&secret).await
        } else if let Some(secret) = DeviceSecret::parse(text) {
            self.revoke_device(&secret).await
        } else if let Some(secret) = Token::<SignInReport>::parse(text) {
            self.delete_sign_in_report(&secret).await
        } else if let Some(link) = Token::<AddressLink>::parse(text) {
            self.stop_address_change(&link).await
        } else if let Some(link) = Token::parse(text) {
            self.replace_account_link(&link).await
        } else {
            self.revoke_session().await
        }
    }

    async fn revoke_cli_token(&self, token: &CliToken) -> anyhow::Result<()> {
        // A token that this service did not issue costs one read.
        let Some(stored) = authenticate::find_genuine_cli_token(self.app, token, self.now).await? else {
            return Ok(());
        };
        let mut transaction = RevocationTransaction::begin(self.app, self.now).await?;
        if transaction.revoke_cli_token(stored.id, Reason::Leaked).await? {
            let user = store::users::find(transaction.db(), stored.user_id).await?;
            let to = user.ok_or_else(|| anyhow::anyhow!("a token speaks for a user who does not exist"))?.email;
            let mut event = self.event("cli_token")?;
            event.user_id = Some(stored.user_id);
            event.workspace_id = stored.found.workspace_id;
            event.subject = Some(stored.id.to_string());
            store::audit_events::insert(transaction.db(), &event).await?;
            let what = mail::things(&self.app.locales).cli_token(stored.name.as_str(), &token.hint());
            self.tell(&transaction, to, what, MadeThings::default()).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Revokes a device, and notifies the users who signed in there. It authorized nothing, so their sessions stay valid.
    async fn revoke_device(&self, secret: &DeviceSecret) -> anyhow::Result<()> {
        let transaction = RevocationTransaction::begin(self.app, self.now).await?;
        for user_id in devices::revoke(transaction.db(), secret).await? {
            let user = store::users::find(transaction.db(), user_id).await?;
            let to = user.ok_or_else(|| anyhow::anyhow!("a device belongs to a user who does not exist"))?.email;
            let mut event = self.event("device")?;
            event.user_id = Some(user_id);
            store::audit_events::insert(transaction.db(), &event).await?;
            let what = mail::things(&self.app.locales).device_secret(&secret.hint());
            self.tell(&transaction, to, what, MadeThings::default()).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Makes the link of a mail about a new sign-in invalid. It could only have revoked that sign-in, so no mail is sent.
    async fn delete_sign_in_report(&self, secret: &Token<SignInReport>) -> anyhow::Result<()> {
        let key = ReportKey::of(secret);
        let db = self.app.database.begin().await?;
        let Some(found) = store::sign_in_reports::find(&db, &key, self.now).await? else { return Ok(()) };
        if store::sign_in_reports::delete(&db, &key).await? {
            let event = self.event("sign_in_report")?.user(found.user_id);
            event.subject(&found.session_id).insert(&db).await?;
        }
        Ok(db.commit().await?)
    }

    /// Stops the change of the address that a link confirms: the finder must not confirm it. The user can request it again.
    async fn stop_address_change(&self, link: &Token<AddressLink>) -> anyhow::Result<()> {
        let key = LinkKey::of(link);
        let db = self.app.database.begin().await?;
        let Some((found, _)) = store::address_changes::find_by_link(&db, &key, self.now).await? else { return Ok(()) };
        store::users::lock(&db, found.user_id).await?;
        if let Some(address) = store::address_changes::delete_by_link(&db, &key).await? {
            let event = self.event("address_link")?.user(found.user_id).subject(found.id);
            Stop { user_id: found.user_id, address, now: self.now }.record(self.app, &db, event).await?;
            db.commit().await?;
        }
        Ok(())
    }

    /// Makes the link that keeps a closed account invalid, and mails another one.
    async fn replace_account_link(&self, link: &Token<KeepAccount>) -> anyhow::Result<()> {
        let db = self.app.database.begin().await?;
        if let Some(replaced) = deletion::replace_link(self.app, &db, link).await? {
            let details = json!({ "kind": "account_link", "deletion": replaced.id, "rootKey": replaced.key_id });
            self.event_with(details)?.user(replaced.user_id).insert(&db).await?;
            db.commit().await?;
            self.app.mail_waiting.notify_one();
        }
        Ok(())
    }

    /// The record of a leak. The owner of the credential reads it, so it does not name the network address of the reporter.
    fn event(&self, kind: &str) -> anyhow::Result<NewAuditEvent<'_>> {
        self.event_with(json!({ "kind": kind }))
    }

    fn event_with(&self, details: Value) -> anyhow::Result<NewAuditEvent<'_>> {
        let mut event = self.meta.event(EventName::TokenLeaked, self.now, details)?;
        event.address = None;
        Ok(event)
    }

    fn lineage(&self, user_id: UserId) -> LineageRevocation<'_> {
        LineageRevocation { cause: Cause::Request(self.meta), user_id, event: lineage::Event::Leaked }
    }

    /// Signs out the browser of a cookie, and revokes what it created recently.
    async fn revoke_browser_session(&self, cookie: &Token<BrowserSession>) -> anyhow::Result<()> {
        let key = CookieKey::of(cookie);
        let since = browser_session::idle_since(self.now);
        let db = self.app.database.connect().await?;
        let found = store::browser_sessions::find(&db, &key, since, self.now).await?;
        let Some(found) = found else { return Ok(()) };
        drop(db);
        let mut transaction = RevocationTransaction::begin(self.app, self.now).await?;
        if !store::browser_sessions::delete(transaction.db(), found.id).await? {
            return Ok(transaction.commit().await?);
        }
        if let Some(person) = found.person {
            let mut event = self.event("browser_session")?;
            event.user_id = Some(person.user_id);
            event.subject = Some(found.id.to_string());
            store::audit_events::insert(transaction.db(), &event).await?;
            let made = self.lineage(person.user_id).revoke(&mut transaction, vec![found.id.to_string()]).await?;
            let what = mail::things(&self.app.locales).browser_cookie();
            self.tell(&transaction, person.email, what, made.listed(&self.app.locales)).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Revokes a client's secret. The client cannot authenticate any more; an operator registers another one.
    async fn revoke_client_secret(&self, secret: &Token<Client>) -> anyhow::Result<()> {
        let transaction = RevocationTransaction::begin(self.app, self.now).await?;
        let digest = sha256(secret.expose());
        let revoked = store::clients::revoke_secret(transaction.db(), &digest, &random::bytes()?).await?;
        let Some(client_id) = revoked else { return Ok(()) };
        let mut event = self.event("client_secret")?;
        event.client_id = Some(&client_id);
        event.subject = Some(client_id.clone());
        store::audit_events::insert(transaction.db(), &event).await?;
        tracing::warn!(
            client = client_id,
            "A client's secret was reported as leaked and revoked; register another client"
        );
        Ok(transaction.commit().await?)
    }

    /// Revokes the session of a refresh token, or of an access token that is still valid.
    async fn revoke_session(&self) -> anyhow::Result<()> {
        let Some(given) = revoke::find_grant(self.app, self.token, self.now).await? else { return Ok(()) };
        let grant = given.grant;
        let mut transaction = RevocationTransaction::begin(self.app, self.now).await?;
        let ended = transaction.revoke_grant(grant.id, Reason::Leaked).await?;
        let made = self.lineage(grant.user_id).revoke_once(&mut transaction, grant.id).await?;
        // A session that was revoked before may have created something all the same.
        let news = ended || made.as_ref().is_some_and(|made| !made.is_empty());
        if news && !grant.facts.user_disabled {
            let mut event = self.event("session")?;
            event.user_id = Some(grant.user_id);
            event.workspace_id = grant.workspace_id;
            event.client_id = Some(&grant.client.id);
            event.subject = Some(grant.id.to_string());
            store::audit_events::insert(transaction.db(), &event).await?;
            self.tell(
                &transaction,
                grant.user_email.clone(),
                mail::things(&self.app.locales).session(&grant.client.id),
                made.unwrap_or_default().listed(&self.app.locales),
            )
            .await?;
        }
        Ok(transaction.commit().await?)
    }

    async fn tell(
        &self,
        transaction: &RevocationTransaction<'_>,
        to: String,
        what: String,
        made: MadeThings,
    ) -> anyhow::Result<()> {
        let mail = Email::TokenLeaked { to, what, ended_at: self.now, made };
        mail.enqueue(&self.app.root_keys, transaction.db(), self.now, later(self.now, lifetimes::WARNING)).await
    }
}
