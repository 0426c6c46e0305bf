//! What creating, using and losing recovery codes share.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{Id as _, UserId},
};
use service_rules::{Timestamp, lifetimes, recovery_codes::RecoveryCode, signing::later};

use crate::{
    app::App,
    crypto::digest::{Digest, sha256},
    database::Connection,
    flows::{RequestMeta, node_event, operator::Operator},
    mail::Email,
    store::{self, audit_events::NewAuditEvent},
};

/// The digest by which the database knows a code. It depends on the user, so that no attacker with a copy of
/// the table can search for the codes of all users at once.
pub(crate) fn digest(user_id: UserId, code: &RecoveryCode) -> Digest {
    sha256([&user_id.uuid().as_bytes()[..], code.as_bytes()].concat())
}

/// What removes recovery codes: audit events and the mail name it.
#[derive(Clone, Copy)]
pub(crate) enum RemovedBy<'a> {
    Request(&'a RequestMeta),
    Operator(&'a Operator),
    /// A background task, for something that the user asked for before.
    Task,
}

impl RemovedBy<'_> {
    pub(crate) fn event(self, name: EventName, now: Timestamp) -> anyhow::Result<NewAuditEvent<'static>> {
        let details = json!({});
        match self {
            Self::Request(meta) => meta.event(name, now, details),
            Self::Operator(operator) => operator.event(name, now, details),
            Self::Task => node_event(name, now, details),
        }
    }

    pub(crate) fn address(self) -> String {
        if let Self::Request(meta) = self { meta.address.to_string() } else { "–".to_owned() }
    }
}

/// Removes the codes of a user, if there are any, and tells the user; `false`: there were none.
pub(crate) async fn remove(app: &App, by: RemovedBy<'_>, db: &Connection, user_id: UserId) -> anyhow::Result<bool> {
    let Some(codes) = store::recovery_codes::delete(db, user_id).await? else { return Ok(false) };
    let now = app.clock.now();
    by.event(EventName::RecoveryCodesRemoved, now)?.user(user_id).subject(codes).insert(db).await?;
    if let Some(user) = store::users::find(db, user_id).await? {
        let mail = Email::RecoveryCodesRemoved { to: user.email, at: now, from: by.address() };
        mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?;
        app.mail_waiting.notify_one();
    }
    Ok(true)
}

/// Removes the codes of a user who has no passkey left: they stand for one.
pub(crate) async fn remove_without_passkey(
    app: &App,
    by: RemovedBy<'_>,
    db: &Connection,
    user_id: UserId,
) -> anyhow::Result<()> {
    if store::passkeys::count_by_user(db, user_id).await? == 0 {
        remove(app, by, db, user_id).await?;
    }
    Ok(())
}
