//! Mail that waits to be sent: listing it, and sending it again at once.

use serde::Serialize;
use serde_json::json;
use service_api::{Timestamp, audit_events::EventName, ids::MailId, instant};
use service_rules::email::Address;

use super::{SupportError, SupportOperator, find_by_address};
use crate::{
    app::App,
    mail::Email,
    store::{self, outbox::WaitingMail},
};

/// The most mails that are opened to find those to one address, beginning with the newest.
const MAX_OPENED: usize = 100_000;
/// How many are read and opened before others get their turn.
const OPENED_AT_ONCE: i64 = 200;

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

/// Lists mail that waits, the newest first: all of it, or what is for one address.
pub async fn list(
    app: &App,
    operator: &SupportOperator,
    to: Option<&Address>,
    limit: u16,
) -> Result<Vec<ShownMail>, SupportError> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    let event = operator.event(EventName::MailListed, now, json!({ "oneAddress": to.is_some() }))?;
    let recipient = match to {
        Some(address) => find_by_address(app, &db, address).await?,
        None => None,
    };
    match recipient {
        Some(user_id) => event.subject(user_id).insert(&db).await?,
        None => event.insert(&db).await?,
    }
    let (mut shown, mut opened, mut last) = (Vec::new(), 0, None);
    while shown.len() < usize::from(limit) && opened < MAX_OPENED {
        let waiting = store::outbox::list(&db, now, last, OPENED_AT_ONCE).await?;
        let Some(oldest) = waiting.last() else { break };
        (last, opened) = (Some(oldest.id), opened + waiting.len());
        shown.extend(waiting.iter().filter_map(|mail| show(app, mail, to)));
        // A node serves requests meanwhile.
        tokio::task::yield_now().await;
    }
    shown.truncate(limit.into());
    db.commit().await?;
    Ok(shown)
}

fn show(app: &App, mail: &WaitingMail, to: Option<&Address>) -> Option<ShownMail> {
    let (kind, recipient) = match (Email::open(&app.root_keys, mail.id, &mail.sealed), to) {
        (Ok(email), Some(address)) if address.as_str() == email.to() => (email.kind(), email.to().to_owned()),
        (_, Some(_)) => return None,
        (Ok(email), None) => (email.kind(), format!("…@{}", email.to().rsplit('@').next().unwrap_or_default())),
        // A root key is missing, or a newer version wrote it.
        (Err(_), None) => ("unreadable", "unknown".to_owned()),
    };
    let WaitingMail { id, attempts, next_attempt_at, drop_at, .. } = *mail;
    Some(ShownMail { id, kind, to: recipient, attempts, next_attempt_at, drop_at })
}

/// Which mails are sent again.
pub enum Resent {
    One(MailId),
    All,
}

impl Resent {
    /// Parses the ID of a mail; without one, all mail is meant.
    pub fn parse(id: Option<&str>) -> Result<Self, SupportError> {
        let Some(id) = id else { return Ok(Self::All) };
        id.parse().map(Self::One).map_err(|_| SupportError::NotAMail(id.to_owned()))
    }
}

/// How many mails are sent again, as `serviced admin mail resend` prints it.
#[derive(Serialize)]
pub struct ResentMails {
    pub mails: u64,
}

/// Lets nodes send mail at once that waits for its next attempt. A mail that a node is sending at this moment may arrive twice.
pub async fn resend(app: &App, operator: &SupportOperator, which: &Resent) -> Result<ResentMails, SupportError> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    let resent = match which {
        Resent::One(id) => u64::from(store::outbox::mark_due(&db, *id, now).await?),
        Resent::All => store::outbox::mark_all_due(&db, now).await?,
    };
    let event = operator.event(EventName::MailResent, now, json!({ "mails": resent }))?;
    let event = match which {
        Resent::One(id) => event.subject(id),
        Resent::All => event,
    };
    event.insert(&db).await?;
    db.commit().await?;
    if resent == 0 && matches!(which, Resent::One(_)) {
        return Err(SupportError::NotFound);
    }
    Ok(ResentMails { mails: resent })
}
