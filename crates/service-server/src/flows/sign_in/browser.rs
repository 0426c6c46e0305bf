//! Signs a user in on a page: the email address, then the code that is sent to it.

use serde_json::json;
use service_api::{audit_events::EventName, ids::UserId};
use service_rules::{
    Timestamp,
    email::Address,
    otp::{OtpError, Typed},
    signing::later,
};

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        RequestMeta,
        sign_in::{
            browser_session::{Browser, SignInWithoutConnection},
            request_otp::{self, BROWSER, RequestOtpError, Sender},
            step_up,
            verify_otp::{Attempt, SignIn, VerifyOtpError},
        },
    },
    mail::SignedInWith,
    store::{
        self,
        sign_in_flows::{SignInFlow, WaitingUser},
    },
};

/// Sends a code to an address, and stores the address in the flow.
pub async fn send_code(
    app: &App,
    meta: &RequestMeta,
    flow: &SignInFlow,
    address: &Address,
) -> Result<(), RequestOtpError> {
    let sender = Sender { device: meta.device.as_ref(), flow: Some(flow.id) };
    let sent = request_otp::send_otp(app, meta, address, BROWSER, sender).await?;
    let db = app.database.connect().await?;
    let resend_at = later(app.clock.now(), sent.resend_after);
    Ok(store::sign_in_flows::mark_sent(&db, flow.id, address, sent.otp_id, resend_at).await?)
}

/// Lets the user enter in this flow a code that was sent to the same address in an earlier flow of the same browser: the
/// user closed the page, and cannot request another code yet. `false`: there is no such code that still works.
///
/// Other browsers have none of these flows, so they learn nothing of the address.
pub async fn resume_code(
    app: &App,
    browser: &Browser,
    flow: &mut SignInFlow,
    address: &Address,
) -> Result<bool, database::Error> {
    let now = app.clock.now();
    let db = app.database.connect().await?;
    for sent in store::sign_in_flows::list_sent(&db, browser.id, address, now).await? {
        if store::otps::is_live(&db, sent.otp_id, BROWSER, now).await? {
            store::sign_in_flows::mark_sent(&db, flow.id, address, sent.otp_id, sent.resend_at).await?;
            flow.email = Some(address.clone());
            (flow.otp_id, flow.resend_at) = (Some(sent.otp_id), Some(sent.resend_at));
            return Ok(true);
        }
    }
    Ok(false)
}

/// Seconds until another code can be requested.
#[must_use]
pub fn seconds_to_wait(flow: &SignInFlow, now: Timestamp) -> i64 {
    flow.resend_at.map_or(0, |at| (at.as_second() - now.as_second()).max(0))
}

/// Signs this browser in, if the code is right.
pub async fn enter_code(
    app: &App,
    meta: &RequestMeta,
    browser: &mut Browser,
    flow: &SignInFlow,
    code: &str,
) -> Result<(), VerifyOtpError> {
    app.revocations.check()?;
    let otp_id = flow.otp_id.ok_or(OtpError::NotAccepted)?;
    let code = Typed::fold(code).ok_or(OtpError::NotAccepted)?;
    let now = app.clock.now();
    let device = meta.device.as_ref();
    let attempt = Attempt { app, meta, device, client_id: BROWSER, otp_id, code, now };
    // The cookie is replaced in the transaction that consumes the code.
    let redeemed = attempt.redeem(&mut ThisBrowser { app, meta, browser, flow, now }).await?;
    browser.remember_device(redeemed.new_device, device);
    Ok(())
}

struct ThisBrowser<'a> {
    app: &'a App,
    meta: &'a RequestMeta,
    browser: &'a mut Browser,
    flow: &'a SignInFlow,
    now: Timestamp,
}

impl SignIn for ThisBrowser<'_> {
    type Output = ();

    async fn admits(&self, _: &Connection, _: Option<UserId>) -> Result<bool, database::Error> {
        Ok(true)
    }

    async fn open(&mut self, db: &Connection, user_id: UserId) -> anyhow::Result<()> {
        let mut event = self.meta.event(EventName::SignInSucceeded, self.now, json!({ "method": "otp" }))?;
        event.user_id = Some(user_id);
        event.client_id = Some(BROWSER);
        store::audit_events::insert(db, &event).await?;
        let auth_time = step_up::auth_time_of_code(self.app, db, user_id, self.now).await?;
        self.browser.sign_in(self.app, self.meta, db, SignInWithoutConnection { user_id, auth_time }).await
    }

    async fn wait_for_passkey(&self, db: &Connection, user_id: UserId) -> Result<(), database::Error> {
        let waiting = WaitingUser { user_id, entered_at: self.now };
        store::sign_in_flows::set_waiting(db, self.flow.id, waiting).await
    }

    fn signed_in(&self) -> Option<(String, SignedInWith)> {
        Some((self.browser.id.to_string(), SignedInWith::browser(self.meta.agent)))
    }
}
