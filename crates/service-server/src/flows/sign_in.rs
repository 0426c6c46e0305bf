//! Signing in on a page: the address, then the code that is sent to it.

use serde_json::json;
use service_api::{audit_events::EventName, ids::UserId};
use service_rules::{
    Timestamp,
    otp::{self, Typed},
    signing::later,
};

use crate::{
    app::App,
    database::{Connection, Error},
    failure::Failure,
    flows::{
        Asker,
        browser::Browser,
        redeem_otp::{Attempt, SignIn},
        request_otp::{self, BROWSER},
    },
    store::{self, sign_in_flows::Flow},
};

/// Sends a code to an address, and remembers in the flow whom it was sent to.
pub async fn send_code(
    app: &App,
    asker: &Asker,
    flow: &Flow,
    email: &str,
) -> Result<(), Failure<request_otp::Refusal>> {
    let sent = request_otp::send(app, asker, email, BROWSER).await?;
    let db = app.database.connect().await?;
    let resend_at = later(app.clock.now(), sent.resend_after);
    Ok(store::sign_in_flows::mark_sent(&db, flow.id, email.trim(), sent.otp_id, resend_at).await?)
}

/// How long until another code can be asked for.
#[must_use]
pub fn seconds_to_wait(flow: &Flow, now: Timestamp) -> i64 {
    flow.resend_at.map_or(0, |at| (at.as_second() - now.as_second()).max(0))
}

/// Signs this browser in, if the code is right.
pub async fn enter_code(
    app: &App,
    asker: &Asker,
    browser: &mut Browser,
    flow: &Flow,
    code: &str,
) -> Result<(), Failure<otp::Refusal>> {
    app.revocations.check()?;
    let not_accepted = || Failure::Refused(otp::Refusal::NotAccepted);
    let otp_id = flow.otp_id.ok_or_else(not_accepted)?;
    let code = Typed::fold(code).ok_or_else(not_accepted)?;
    let now = app.clock.now();
    let attempt = Attempt { app, asker, client_id: BROWSER, otp_id, code, now };
    // The cookie is renewed in the transaction that spends the code.
    attempt.redeem(&mut ThisBrowser { app, asker, browser, now }).await
}

struct ThisBrowser<'a> {
    app: &'a App,
    asker: &'a Asker,
    browser: &'a mut Browser,
    now: Timestamp,
}

impl SignIn for ThisBrowser<'_> {
    type Output = ();
    type Refusal = otp::Refusal;

    async fn allows(&self, _: &Connection, _: Option<UserId>) -> Result<Result<(), otp::Refusal>, Error> {
        Ok(Ok(()))
    }

    async fn open(&mut self, db: &Connection, user_id: UserId) -> anyhow::Result<()> {
        let mut event = self.asker.event(EventName::SignInSucceeded, self.now, json!({ "method": "otp" }))?;
        event.user_id = Some(user_id);
        event.client_id = Some(BROWSER);
        store::audit_events::insert(db, &event).await?;
        self.browser.sign_in(self.app, db, user_id).await
    }
}
