//! Mail that waits to be sent: listing it, and sending it again at once.

use serde::Serialize;
use serde_json::json;
use service_api::{Timestamp, audit_events::EventName, ids::MailId, instant};
use service_rules::email::Address;

use super::{SupportError, SupportOperator};
use crate::{
    app::App,
    mail::Email,
    store::{self, outbox::WaitingMail},
};

/// Mails that are opened to find those to one address. The outbox holds what was written in the last minutes.
const MAX_OPENED: i64 = 10_000;

/// A mail that waits. Its text is never shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownMail {
    pub id: MailId,
    pub kind: &'static str,
    /// The recipient; without its local part if the list is not of one address.
    pub to: String,
    pub attempts: i16,
    #[serde(with = "instant::Written")]
    pub next_attempt_at: Timestamp,
    /// When the mail is too old to be useful, and is deleted.
    #[serde(with = "instant::Written")]
    pub drop_at: Timestamp,
}

/// Lists mail that waits, the oldest first: all of it, or what is for one address.
pub async fn list(
    app: &App,
    operator: &SupportOperator,
    to: Option<&Address>,
    limit: u16,
) -> Result<Vec<ShownMail>, SupportError> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    operator.event(EventName::MailListed, now, json!({ "oneAddress": to.is_some() }))?.insert(&db).await?;
    let rows = if to.is_some() { MAX_OPENED } else { limit.into() };
    let waiting = store::outbox::list(&db, now, rows).await?;
    let mut shown = Vec::new();
    for mail in &waiting {
        shown.extend(show(app, mail, to)?);
    }
    shown.truncate(limit.into());
    db.commit().await?;
    Ok(shown)
}

fn show(app: &App, mail: &WaitingMail, to: Option<&Address>) -> anyhow::Result<Option<ShownMail>> {
    let email = Email::open(&app.root_keys, mail.id, &mail.sealed)?;
    let recipient = match to {
        Some(address) if address.as_str() == email.to() => email.to().to_owned(),
        Some(_) => return Ok(None),
        None => format!("…@{}", email.to().rsplit('@').next().unwrap_or_default()),
    };
    let WaitingMail { id, attempts, next_attempt_at, drop_at, .. } = *mail;
    Ok(Some(ShownMail { id, kind: email.kind(), to: recipient, attempts, next_attempt_at, drop_at }))
}

/// Which mails are sent again.
pub enum Resent {
    One(MailId),
    All,
}

/// Lets nodes send mail at once that waits for its next attempt. A mail that a node is sending at this moment may arrive twice.
/// Returns how many.
pub async fn resend(app: &App, operator: &SupportOperator, which: &Resent) -> Result<u64, SupportError> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    let resent = match which {
        Resent::One(id) => u64::from(store::outbox::mark_due(&db, *id, now).await?),
        Resent::All => store::outbox::mark_all_due(&db, now).await?,
    };
    if resent == 0 {
        return Err(SupportError::NotFound);
    }
    let event = operator.event(EventName::MailResent, now, json!({ "mails": resent }))?;
    let event = match which {
        Resent::One(id) => event.subject(id),
        Resent::All => event,
    };
    event.insert(&db).await?;
    db.commit().await?;
    Ok(resent)
}
