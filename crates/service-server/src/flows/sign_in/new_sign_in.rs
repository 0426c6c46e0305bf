//! Mails about sign-ins that are new to an account: on a device, or with an app, that has not signed in before.
//!
//! The link in the mail has a secret of this one sign-in, which is stored as a digest. `account/reported_sign_in.rs` says what it
//! can do.

use service_api::ids::{Id as _, UserId};
use service_rules::{Timestamp, lifetimes, limits::Window, new_sign_in, signing::later};

use crate::{
    app::App,
    crypto::{digest::Digest, random},
    database::Connection,
    flows::{RequestMeta, rate_limit::Limit},
    mail::{Email, SignedInWith},
    store::{
        self,
        sign_in_reports::{ReportKey, ReportableSignIn},
    },
};

/// Mails of this kind that a user gets in a day. Sign-ins beyond it are on the account page only.
const MAILS: [Window; 1] = [Window { count: 20, seconds: 86_400 }];

/// A sign-in that is new to the account.
pub(crate) struct NewSignIn {
    pub(crate) user_id: UserId,
    /// The id of the session or the browser that was signed in.
    pub(crate) session_id: String,
    /// The digest of the device that was stored with it.
    pub(crate) device: Option<Digest>,
    pub(crate) with: SignedInWith,
}

impl NewSignIn {
    /// Adds the mail to the outbox, in the transaction of the sign-in. The caller wakes the mailer once it is committed.
    pub(crate) async fn enqueue_mail(
        self,
        app: &App,
        meta: &RequestMeta,
        db: &Connection,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        let Some(user) = store::users::find(db, self.user_id).await? else { return Ok(()) };
        if !new_sign_in::is_mailed(user.created_at, now) {
            return Ok(());
        }
        let whom = self.user_id.uuid();
        let limit = Limit { policy: "new-sign-in-mails", whom: whom.as_bytes() };
        if limit.take_in_windows(app, db, &MAILS, now).await?.is_some() {
            return Ok(());
        }
        let secret = random::sign_in_report(self.user_id.shard())?;
        let sign_in = ReportableSignIn {
            user_id: self.user_id,
            session_id: self.session_id,
            device: self.device.map(|digest| digest.to_vec()),
            created_at: now,
        };
        let expires_at = later(now, lifetimes::SIGN_IN_REPORT);
        store::sign_in_reports::insert(db, &ReportKey::of(&secret), &sign_in, expires_at).await?;
        let from = meta.address.to_string();
        let mail = Email::NewSignIn { to: user.email, with: self.with, at: now, from, report: secret };
        mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await
    }
}
