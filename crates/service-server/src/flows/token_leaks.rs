//! Reports of leaked tokens (`POST /v1/token-leaks`): whoever holds a token may say that it leaked, and it is over.
//!
//! The answer is the same whatever was reported: nobody learns here whether a token works.

use std::collections::HashSet;

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    leaks::{Leaked, MOST_REPORTED},
    token::{CliToken, PresentedToken},
};
use service_rules::{Timestamp, cli_tokens::Invalid, lifetimes, limits::Limited, signing::later};

use crate::{
    app::App,
    failure::Failure,
    flows::{
        Asker, authenticate,
        end_access::EndingTransaction,
        limit::{Limit, network_of},
        revoke,
    },
    letters::{self, Letter},
    store,
};

#[derive(Debug)]
pub enum Refusal {
    Invalid(Invalid),
    Limited(Limited),
}

pub async fn report(app: &App, asker: &Asker, leaked: &[Leaked]) -> Result<(), Failure<Refusal>> {
    let now = app.clock.now();
    if leaked.is_empty() || leaked.len() > MOST_REPORTED {
        let message = format!("does not name 1 to {MOST_REPORTED} tokens");
        return Err(Failure::Refused(Refusal::Invalid(Invalid { field: "tokens", message })));
    }
    let network = network_of(asker.address);
    let per_network = Limit { policy: "leak-reports-network", whom: network.as_bytes() };
    let rate = app.config.limits.leak_reports_per_network;
    let limited = per_network.take_at_rate(app, &app.database.connect().await?, rate, now).await?;
    if let Some(limited) = limited {
        return Err(Failure::Refused(Refusal::Limited(limited)));
    }
    let (mut seen, mut failed) = (HashSet::new(), None);
    for token in leaked.iter().map(Leaked::token).filter(|token| seen.insert(token.expose())) {
        let reporting = Reporting { app, asker, token, now };
        let ended = match CliToken::parse(token.expose()) {
            Some(token) => reporting.end_cli_token(&token).await,
            None => reporting.end_session().await,
        };
        // One that cannot be ended now does not keep the others alive.
        failed = ended.err().or(failed);
    }
    app.mail_waiting.notify_one();
    failed.map_or(Ok(()), |broken| Err(Failure::Broken(broken)))
}

struct Reporting<'a> {
    app: &'a App,
    asker: &'a Asker,
    token: &'a PresentedToken,
    now: Timestamp,
}

impl Reporting<'_> {
    async fn end_cli_token(&self, token: &CliToken) -> anyhow::Result<()> {
        // What is not ours costs one read, and nothing else.
        let Some(stored) = authenticate::genuine_cli_token(self.app, token).await? else { return Ok(()) };
        let mut transaction = EndingTransaction::begin(self.app, self.now).await?;
        if transaction.end_cli_token(stored.id, Reason::Leaked).await? {
            let user = store::users::find(transaction.db(), stored.user_id).await?;
            let to = user.ok_or_else(|| anyhow::anyhow!("a token speaks for a user who does not exist"))?.email;
            let mut event = self.asker.event(EventName::TokenLeaked, self.now, json!({ "kind": "cli_token" }))?;
            event.user_id = Some(stored.user_id);
            event.workspace_id = stored.found.workspace_id;
            event.subject = Some(stored.id.to_string());
            store::audit_events::insert(transaction.db(), &event).await?;
            let what = format!("the token {} ({})", stored.name, token.hint());
            self.tell(&transaction, to, what).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// A refresh token, or an access token that still works: its session is over.
    async fn end_session(&self) -> anyhow::Result<()> {
        let Some(given) = revoke::find(self.app, self.token, self.now).await? else { return Ok(()) };
        let grant = given.grant;
        let mut transaction = EndingTransaction::begin(self.app, self.now).await?;
        if transaction.end_grant(grant.id, Reason::Leaked).await? {
            let mut event = self.asker.event(EventName::TokenLeaked, self.now, json!({ "kind": "session" }))?;
            event.user_id = Some(grant.user_id);
            event.workspace_id = grant.workspace_id;
            event.client_id = Some(&grant.client.id);
            event.subject = Some(grant.id.to_string());
            store::audit_events::insert(transaction.db(), &event).await?;
            self.tell(
                &transaction,
                grant.user_email.clone(),
                format!("a session ({})", letters::spoken(&grant.client.id)),
            )
            .await?;
        }
        Ok(transaction.commit().await?)
    }

    async fn tell(&self, transaction: &EndingTransaction<'_>, to: String, what: String) -> anyhow::Result<()> {
        let letter = Letter::TokenLeaked { to, what, ended_at: self.now };
        letter.post(&self.app.vault, transaction.db(), self.now, later(self.now, lifetimes::WARNING)).await
    }
}
