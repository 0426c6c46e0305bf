//! Asking for a one-time code (`POST /v1/otp-tokens`).
//!
//! 1. Bring the address into its one spelling; if the request names a client, it must be one that may redeem codes.
//! 2. Count the request against the asker's network, by itself: nobody waits behind a network that asks too often.
//! 3. Count it against the address. Draw a code and put its HMAC in the place of the address's last code, which is dead
//!    from here on.
//! 4. Put the mail into the outbox, sealed. Steps 3 and 4 are one transaction, or nothing of them happened.
//!
//! Nothing here looks for an account, so the answer and the time it takes are the same for every address.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{MailId, OtpId},
    sign_in::{OtpRequest, OtpRequested},
};
use service_rules::{
    clients::{self, GrantType, Proof},
    email::{Address, NotAnAddress},
    lifetimes,
    limits::Limited,
    otp,
    signing::later,
};

use crate::{
    app::App,
    failure::Failure,
    flows::{
        Asker,
        limit::{Limit, network_of},
    },
    letters::Letter,
    mint,
    store::{self, otps::NewOtp},
    vault::Purpose,
};

/// What a code is good for. Its MAC covers all of it, so that a row moved to another address opens nothing.
pub(super) struct CodeFor<'a> {
    pub(super) otp_id: OtpId,
    pub(super) address: &'a str,
    pub(super) client_id: &'a str,
}

impl CodeFor<'_> {
    pub(super) fn parts(&self, code: &[u8]) -> [Vec<u8>; 4] {
        [self.otp_id.to_string().into_bytes(), self.address.into(), self.client_id.into(), code.to_vec()]
    }
}

#[derive(Debug)]
pub enum Refusal {
    NotAnAddress,
    Client(clients::Refusal),
    Limited(Limited),
}

/// What codes are for that were asked for on a page: no client redeems them.
pub const BROWSER: &str = "browser";

pub async fn request_otp(app: &App, asker: &Asker, request: &OtpRequest) -> Result<OtpRequested, Failure<Refusal>> {
    if let Some(id) = &request.client_id {
        let db = app.database.connect().await?;
        let client = store::clients::find(&db, id).await?;
        clients::judge(client.as_ref(), &Proof::Nothing, GrantType::Otp)
            .map_err(|refusal| Failure::Refused(Refusal::Client(refusal)))?;
    }
    send(app, asker, &request.email, request.client_id.as_deref().unwrap_or_default()).await
}

/// Sends a code that only this client can redeem; empty: any of ours.
pub async fn send(app: &App, asker: &Asker, email: &str, client_id: &str) -> Result<OtpRequested, Failure<Refusal>> {
    let now = app.clock.now();
    let limits = &app.config.limits;
    let address = Address::parse(email).map_err(|NotAnAddress| Failure::Refused(Refusal::NotAnAddress))?;

    let network = network_of(asker.address);
    let per_network = Limit { policy: "otp-network", whom: network.as_bytes() };
    let limited = {
        let db = app.database.connect().await?;
        per_network.take_at_rate(app, &db, limits.otp_sends_per_network, now).await?
    };
    if let Some(limited) = limited {
        return Err(Failure::Refused(Refusal::Limited(limited)));
    }

    let db = app.database.begin().await?;
    let per_address = Limit { policy: "otp-address", whom: address.as_str().as_bytes() };
    if let Some(limited) = per_address.take_in_windows(app, &db, &limits.otp_sends_per_address, now).await? {
        return Err(Failure::Refused(Refusal::Limited(limited)));
    }

    let id: OtpId = mint::id(now)?;
    let code = mint::otp_code()?;
    let expires_at = later(now, lifetimes::OTP);
    let meant = CodeFor { otp_id: id, address: address.as_str(), client_id };
    let mac = app.vault.mac(Purpose::OtpCode, &meant.parts(code.expose().as_bytes()).each_ref().map(Vec::as_slice));
    let otp = NewOtp { address: &address, client_id, mac, created_at: now, expires_at };
    let mail_id: MailId = mint::id(now)?;
    let letter = Letter::SignInCode {
        to: address.as_str().to_owned(),
        code,
        client_id: client_id.to_owned(),
        asked_at: now,
        asked_from: asker.address.to_string(),
    };
    let sealed = letter.seal(&app.vault, mail_id)?;
    let event = asker.event(EventName::OtpRequested, now, json!({ "otpId": id }))?;
    tokio::try_join!(
        store::otps::delete_others(&db, &address, client_id),
        store::otps::replace(&db, id, &otp),
        store::outbox::insert(&db, mail_id, &sealed, now, expires_at),
        store::audit_events::insert(&db, &event),
    )?;
    db.commit().await?;
    app.mail_waiting.notify_one();

    Ok(OtpRequested {
        otp_id: id,
        expires_in: lifetimes::OTP,
        resend_after: limits.otp_sends_per_address.first().map_or(0, |window| i64::from(window.seconds)),
        code_length: otp::DIGITS,
    })
}
