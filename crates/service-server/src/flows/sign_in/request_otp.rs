//! Requests a one-time code (`POST /v1/otp-tokens`).
//!
//! 1. Normalize the address. If the request names a client, it must be one that may use the OTP grant.
//! 2. Find out whether the caller is a known device. If not, count the request against the caller's networks, outside of a
//!    transaction: no other caller waits behind a network that sends too many requests.
//! 3. Count it against the context (the device, else the sign-in flow, else the network), and then against the device, or
//!    else against the address: from this network, and from all of them.
//! 4. Draw a code, and let its HMAC replace the last code of this context, which is invalid from then on. Codes of other
//!    contexts stay valid.
//! 5. Put the sealed email into the outbox, and count it against the limit on all codes. Steps 3 to 5 are one transaction.
//!
//! No step looks for an account, so the response and its time are the same for every address. A device is looked up in the
//! same way whether a secret was sent or not. Where single sign-on is required, the email says so and holds no code; there
//! every address is looked up in the same way, because break-glass owners get a code.

use futures_util::future::try_join_all;
use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{FlowId, Id as _, MailId, OtpId},
    sign_in::{OtpRequest, OtpRequested},
    token::PresentedToken,
};
use service_rules::{
    Timestamp,
    clients::{self, ClientAuthError, GrantType, Proof},
    email::{Address, InvalidAddress},
    lifetimes,
    limits::Limited,
    otp,
    signing::later,
    sso::LINK_CLIENT,
};

use crate::{
    app::App,
    crypto::{digest::Digest, random, root_keys::Purpose},
    database::{self, Connection},
    flows::{
        RequestMeta, check_clock,
        rate_limit::{Limit, Measured},
        sign_in::{
            address_limits::{self, budget_key},
            devices,
            email_key::email_key,
        },
        sso::required,
    },
    mail::Email,
    store::{self, otps::NewOtp, routed_domains::Route},
};

/// What a code is bound to. Its MAC covers all of it, so that a row that is moved to another address signs no user in.
pub(crate) struct CodeFor<'a> {
    pub(crate) otp_id: OtpId,
    pub(crate) address: &'a Address,
    pub(crate) client_id: &'a str,
}

impl CodeFor<'_> {
    pub(crate) fn parts(&self, code: &[u8]) -> [Vec<u8>; 4] {
        [self.otp_id.to_string().into_bytes(), self.address.as_str().into(), self.client_id.into(), code.to_vec()]
    }
}

/// Why no code is sent.
#[derive(Debug, thiserror::Error)]
pub enum RequestOtpError {
    #[error(transparent)]
    InvalidAddress(#[from] InvalidAddress),
    #[error(transparent)]
    Client(#[from] ClientAuthError),
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// The client id of codes that were requested on a page. No client can redeem them.
pub const BROWSER: &str = "browser";

/// The name of the limit on all codes together.
const ALL_SENDS_POLICY: &str = "otp-sends";
/// The limit on all codes is stored in up to this many equal parts, and each code is counted in a random one. With a
/// single part every request would wait for the commit of the one before it.
const MAX_LIMIT_PARTS: u32 = 16;
/// The smallest burst of a part.
const MIN_BURST_PER_PART: u32 = 64;
/// The part of the limit on all codes from which operators are warned.
const ALARMING_SHARE: f64 = 0.8;

/// Where a request for a code comes from, besides its network.
#[derive(Clone, Copy, Default)]
pub struct Sender<'a> {
    pub device: Option<&'a PresentedToken>,
    pub flow: Option<FlowId>,
}

pub async fn request_otp(app: &App, meta: &RequestMeta, request: &OtpRequest) -> Result<OtpRequested, RequestOtpError> {
    if let Some(id) = &request.client_id {
        let db = app.database.connect().await?;
        let client = store::clients::find(&db, id).await?;
        clients::judge(client.as_ref(), &Proof::Nothing, GrantType::Otp)?;
    }
    let address = Address::parse(&request.email)?;
    let sender = Sender { device: request.device.as_ref(), flow: None };
    send_otp(app, meta, &address, request.client_id.as_deref().unwrap_or_default(), sender).await
}

/// Sends a code that only this client can redeem. An empty id: any first-party client.
pub async fn send_otp(
    app: &App,
    meta: &RequestMeta,
    address: &Address,
    client_id: &str,
    sender: Sender<'_>,
) -> Result<OtpRequested, RequestOtpError> {
    let now = app.clock.now();

    let db = app.database.connect().await?;
    check_clock(app, &db, now).await?;
    let device = devices::find(app, &db, sender.device, address, now).await?;
    if device.is_none() {
        let per_network = address_limits::sends_from(&app.config.limits, meta.address);
        if let Some(limited) = per_network.take(app, &db, now).await? {
            return Err(limited.into());
        }
    }
    drop(db);

    let context = Context::of(app, meta, address, device, sender.flow);
    let db = app.database.begin().await?;
    if let Some(limited) = context.count_send(app, &db, now).await? {
        return Err(limited.into());
    }
    let otp_id = random::id_in(email_key(app, &db, address).await?.shard, now)?;
    let new = NewCode { otp_id, context: &context, client_id };
    let ((), limited) = tokio::try_join!(write_code(app, meta, &db, &new, now), async {
        Ok(count_in_all_sends(app, &db, otp_id, now).await?)
    })?;
    if let Some(limited) = limited
        && device.is_none()
    {
        return Err(limited.into());
    }
    db.commit().await?;
    app.mail_waiting.notify_one();

    Ok(OtpRequested {
        otp_id,
        expires_in: lifetimes::OTP,
        resend_after: app.config.limits.otp_sends_per_context.first().map_or(0, |window| i64::from(window.seconds)),
        code_length: otp::OTP_DIGITS,
    })
}

/// What a code belongs to: the address, and the device, flow or network that requested it.
struct Context<'a> {
    address: &'a Address,
    network: String,
    device: Option<Digest>,
    name: Digest,
}

impl<'a> Context<'a> {
    fn of(app: &App, meta: &RequestMeta, address: &'a Address, device: Option<Digest>, flow: Option<FlowId>) -> Self {
        let network = meta.network.to_string();
        let flow = flow.map(|flow| *flow.uuid().as_bytes());
        let (kind, value): (&[u8], &[u8]) = match (&device, &flow) {
            (Some(device), _) => (b"device", device),
            (None, Some(flow)) => (b"flow", flow),
            (None, None) => (b"network", network.as_bytes()),
        };
        let name = app.root_keys.name(Purpose::LimitKey, &[b"otp context", kind, value]);
        Self { address, network, device, name }
    }

    /// Counts a code in every limit for this address in this context. `Some`: a limit is reached.
    async fn count_send(&self, app: &App, db: &Connection, now: Timestamp) -> Result<Option<Limited>, database::Error> {
        let (limits, address) = (&app.config.limits, self.address);
        let per_context = budget_key(address, &self.name);
        let mut budgets = vec![address_limits::of("otp-context", per_context, &limits.otp_sends_per_context)];
        if let Some(device) = &self.device {
            let per_device = budget_key(address, device);
            budgets.push(address_limits::of("otp-device", per_device, &limits.otp_sends_per_device));
        } else {
            budgets.extend(address_limits::sends(limits, address, &self.network));
        }
        // All at once: if one limit is reached, the transaction is rolled back.
        let taken = budgets.iter().map(|budget| budget.take(app, db, now));
        Ok(try_join_all(taken).await?.into_iter().flatten().next())
    }
}

/// A code that is to be written.
struct NewCode<'a> {
    otp_id: OtpId,
    context: &'a Context<'a>,
    client_id: &'a str,
}

/// Writes the code, its email and the event.
async fn write_code(
    app: &App,
    meta: &RequestMeta,
    db: &Connection,
    new: &NewCode<'_>,
    now: Timestamp,
) -> anyhow::Result<()> {
    let NewCode { otp_id, context, client_id } = *new;
    let address = context.address;
    let code = random::otp_code()?;
    let expires_at = later(now, lifetimes::OTP);
    let bound_to = CodeFor { otp_id, address, client_id };
    let mac =
        app.root_keys.mac(Purpose::OtpCode, &bound_to.parts(code.expose().as_bytes()).each_ref().map(Vec::as_slice));
    let device = context.device.as_ref();
    let otp = NewOtp { address, client_id, context: &context.name, device, mac, created_at: now, expires_at };
    let mail_id: MailId = random::id(now)?;
    let to = address.as_str().to_owned();
    let (asked_at, asked_from, language) = (now, meta.address.to_string(), meta.language);
    let mail = match required::instead_of_code(app, db, address, client_id).await? {
        Some(Route { connection_id, name: company, .. }) => {
            Email::SsoRequired { to, company, connection_id, asked_at, asked_from, language }
        }
        None if client_id == LINK_CLIENT => Email::LinkCode { to, code, asked_at, asked_from, language },
        None => Email::SignInCode { to, code, client_id: client_id.to_owned(), asked_at, asked_from, language },
    };
    let sealed = mail.seal(&app.root_keys, mail_id)?;
    let event = meta.event(EventName::OtpRequested, now, json!({ "otpId": otp_id }))?;
    tokio::try_join!(
        store::otps::delete_others(db, otp_id, &otp),
        store::otps::replace(db, otp_id, &otp),
        store::outbox::insert(db, mail_id, &sealed, now, expires_at),
        store::audit_events::insert(db, &event),
    )?;
    Ok(())
}

/// Counts a code against the limit on all codes. `Some`: the limit is reached. Operators are warned before it is.
async fn count_in_all_sends(
    app: &App,
    db: &Connection,
    otp_id: OtpId,
    now: Timestamp,
) -> Result<Option<Limited>, database::Error> {
    let all = app.config.limits.otp_sends;
    let (parts, rate) = all.divide(MAX_LIMIT_PARTS, MIN_BURST_PER_PART);
    // The last byte of an id is random.
    let part = u32::from(otp_id.uuid().as_bytes()[15]) % parts;
    let limit = Limit { policy: ALL_SENDS_POLICY, whom: &part.to_be_bytes() };
    let (used, limited) = match limit.take_and_measure(app, db, rate, now).await? {
        Measured::Taken { used } => (used, None),
        Measured::Exhausted(limited) => (1.0, Some(Limited { quota: all.per_hour, ..limited })),
    };
    app.metrics.otp_sends_used.set(used);
    if limited.is_some() {
        app.metrics.otp_sends_refused.inc();
    }
    if used >= ALARMING_SHARE && app.alarms.warns_of_otp_sends(now) {
        tracing::warn!(
            used,
            "Codes are sent faster than limits.otp_sends allows; at the limit only known devices get one"
        );
    }
    Ok(limited)
}
