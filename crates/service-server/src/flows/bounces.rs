//! Mail that bounces: the operator's mail system reports it, and no mail is sent to the address for a while.
//!
//! 1. The return path must be one that this installation wrote for a mail of the last three days.
//! 2. The report must say that delivery to this very address failed, because the address is wrong. A mailbox that is full, a mail
//!    that is refused as spam, and a failure behind a forwarding address do not count.
//! 3. Suppress the address in one guarded statement, and record it in the activity of its user.
//!
//! Sign-in does not know of it, so it does not reveal which addresses exist: mail is queued as ever, and the mailer puts it off.
//! Codes expire meanwhile, and warnings arrive later. A code that a user enters proves that mail arrives, and ends the suppression.

use serde_json::json;
use service_api::audit_events::EventName;
use service_rules::{Timestamp, bounces, email::Address, lifetimes::SUPPRESSION, signing::later};

use crate::{
    app::App,
    database::{Connection, Error},
    flows::{node_event, sign_in::email_key::email_key},
    mail::{
        delivery_report::failed_recipients,
        return_path::{ReturnPath, name_of},
    },
    store::{self, suppressed_addresses::BouncedMail},
};

/// What came of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// No mail is sent to the address until then.
    Suppressed(Timestamp),
    Ignored(IgnoredBecause),
    /// The return path is not one of this installation.
    NotOurs,
}

/// Why a report changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoredBecause {
    TooOld,
    /// The report does not say that delivery to the address failed because the address is wrong.
    AddressNotWrong,
    /// The mail was sent before the address was suppressed, or before mail to it was known to arrive.
    Known,
}

impl IgnoredBecause {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooOld => "the mail was sent more than three days ago",
            Self::AddressNotWrong => "it does not report that the address of this mail is wrong",
            Self::Known => "the address was suppressed after this mail was sent, or mail has arrived there since",
        }
    }
}

impl Reported {
    /// For metrics.
    #[must_use]
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::Suppressed(_) => "suppressed",
            Self::Ignored(_) => "ignored",
            Self::NotOurs => "refused",
        }
    }
}

/// Takes a report that a mail system sent to `recipient`, which is the return path of a mail.
pub async fn report(app: &App, recipient: &str, message: &[u8]) -> anyhow::Result<Reported> {
    let reported = judge(app, recipient, message).await?;
    app.metrics.mail_bounced(reported.outcome());
    Ok(reported)
}

async fn judge(app: &App, recipient: &str, message: &[u8]) -> anyhow::Result<Reported> {
    let now = app.clock.now();
    let bounce_to = app.config.mail.bounce_to.as_ref();
    let Some(path) = bounce_to.and_then(|bounce_to| ReturnPath::read(&app.root_keys, bounce_to, recipient)) else {
        return Ok(Reported::NotOurs);
    };
    if later(path.sent_at, SUPPRESSION) <= now {
        return Ok(Reported::Ignored(IgnoredBecause::TooOld));
    }
    let is_this = |address: &Address| name_of(&app.root_keys, address.as_str()) == path.name;
    let failed = failed_recipients(message).into_iter();
    let mut wrong = failed.filter_map(|one| Some((bounces::wrong_address(&one.status)?, one.address)));
    let Some((status, address)) = wrong.find(|(_, address)| is_this(address)) else {
        return Ok(Reported::Ignored(IgnoredBecause::AddressNotWrong));
    };
    let db = app.background_database.begin().await?;
    let bounced = BouncedMail { name: &path.name, sent_at: path.sent_at };
    let Some(until) = store::suppressed_addresses::suppress(&db, &bounced, now).await? else {
        return Ok(Reported::Ignored(IgnoredBecause::Known));
    };
    if let Some(account) = store::emails::find_user(&db, email_key(app, &db, &address).await?).await? {
        let details = json!({ "status": status, "suppressedUntil": until.to_string() });
        node_event(EventName::MailBounced, now, details)?.user(account.user_id).insert(&db).await?;
    }
    db.commit().await?;
    Ok(Reported::Suppressed(until))
}

/// Returns until when no mail is sent to the address; `None`: mail is sent to it.
pub async fn suppressed_until(app: &App, db: &Connection, address: &str) -> Result<Option<Timestamp>, Error> {
    if app.config.mail.bounce_to.is_none() {
        return Ok(None);
    }
    store::suppressed_addresses::find(db, &name_of(&app.root_keys, address), app.clock.now()).await
}

/// Records that mail to an address arrives, or that an operator says so: mail is sent to it again, and bounces of mails from before
/// do not count.
pub async fn lift(app: &App, db: &Connection, address: &Address) -> Result<(), Error> {
    if app.config.mail.bounce_to.is_none() {
        return Ok(());
    }
    store::suppressed_addresses::lift(db, &name_of(&app.root_keys, address.as_str()), app.clock.now()).await
}
