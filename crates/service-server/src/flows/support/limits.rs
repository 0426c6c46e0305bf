//! The rate limits on sign-in, of an email address or of a network: showing how much of each is used, and resetting them.

use std::net::IpAddr;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Serialize;
use serde_json::json;
use service_api::audit_events::EventName;
use service_rules::{email::Address, network};

use super::{SupportError, SupportOperator, find_by_address};
use crate::{
    app::App,
    crypto::root_keys::Purpose,
    database::Connection,
    flows::{
        bounces,
        operator::OPERATOR_LIMITED,
        rate_limit::{LimitState, NetworkLimit},
        sign_in::address_limits::{self, WindowLimit},
    },
};

/// Whose limits are meant: those of an email address, for callers in one network if that is given, or those of a network.
pub enum LimitedBy {
    Address { address: Address, from: Option<IpAddr> },
    Network(IpAddr),
}

impl LimitedBy {
    /// Parses an email address, and the network address that its user signs in from, or a network address alone.
    pub fn parse(whom: &str, from: Option<IpAddr>) -> Result<Self, SupportError> {
        match (whom.parse::<IpAddr>(), Address::parse(whom)) {
            (Ok(_), _) if from.is_some() => Err(SupportError::FromWithNetwork),
            (Ok(network), _) => Ok(Self::Network(network)),
            (_, Ok(address)) => Ok(Self::Address { address, from }),
            _ => Err(SupportError::NotLimited(whom.to_owned())),
        }
    }
}

/// That limits were reset, as `serviced admin limit reset` prints it.
#[derive(Serialize)]
pub struct ResetLimits {
    pub reset: bool,
}

/// How much of a limit is used.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownLimit {
    pub limit: &'static str,
    /// The network that the limit is for, if it is for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    #[serde(flatten)]
    pub state: LimitState,
}

/// Shows the limits on sign-in that count for the address or the network. Limits of known devices are not among them: the
/// service does not know which device the user has.
pub async fn show(app: &App, operator: &SupportOperator, whose: &LimitedBy) -> Result<Vec<ShownLimit>, SupportError> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    record(app, &db, operator, whose, EventName::SupportViewed).await?;
    let mut shown = Vec::new();
    if let LimitedBy::Address { address, .. } = whose
        && let Some(until) = bounces::suppressed_until(app, &db, address.as_str()).await?
    {
        let retry_after = u32::try_from(until.duration_since(now).as_secs()).ok();
        shown.push(ShownLimit { limit: "mail-bounced", network: None, state: LimitState { used: 1.0, retry_after } });
    }
    for window in windows(app, whose) {
        let state = window.limit().measure_windows(app, &db, window.windows, now).await?;
        shown.push(ShownLimit { limit: window.policy, network: None, state });
    }
    for limit in networks(app, whose) {
        for (network, state) in limit.measure(app, &db, now).await? {
            shown.push(ShownLimit { limit: limit.policy, network: Some(network.to_string()), state });
        }
    }
    db.commit().await?;
    Ok(shown)
}

/// Forgets what was counted. Wider networks, which others share, are forgotten too.
pub async fn reset(app: &App, operator: &SupportOperator, whose: &LimitedBy) -> Result<ResetLimits, SupportError> {
    let db = app.database.begin().await?;
    record(app, &db, operator, whose, EventName::LimitReset).await?;
    if let LimitedBy::Address { address, .. } = whose {
        bounces::lift(app, &db, address).await?;
    }
    for window in windows(app, whose) {
        window.limit().reset(app, &db).await?;
    }
    for limit in networks(app, whose) {
        limit.reset(app, &db).await?;
    }
    db.commit().await?;
    Ok(ResetLimits { reset: true })
}

/// Records the call. The event names the user of the address, if there is one, and for operators the network and the HMAC of the
/// address.
async fn record(
    app: &App,
    db: &Connection,
    operator: &SupportOperator,
    whose: &LimitedBy,
    name: EventName,
) -> Result<(), SupportError> {
    let mut limited = Vec::new();
    if let LimitedBy::Network(network) | LimitedBy::Address { from: Some(network), .. } = whose {
        limited.push(network::recorded(*network).to_string());
    }
    let mut account = None;
    if let LimitedBy::Address { address, .. } = whose {
        let mac = app.root_keys.name(Purpose::LimitKey, &[b"support", address.as_str().as_bytes()]);
        limited.push(BASE64_URL_SAFE_NO_PAD.encode(mac));
        account = find_by_address(app, db, address).await?;
    }
    let event = operator.event(name, app.clock.now(), json!({ "viewed": "limits", OPERATOR_LIMITED: limited }))?;
    let event = match account {
        Some(user_id) if name == EventName::LimitReset => event.user(user_id),
        Some(user_id) => event.subject(user_id),
        None => event,
    };
    Ok(event.insert(db).await?)
}

fn windows<'a>(app: &'a App, whose: &LimitedBy) -> Vec<WindowLimit<'a>> {
    let LimitedBy::Address { address, from } = whose else { return Vec::new() };
    let (limits, network) = (&app.config.limits, from.map(|from| network::counted(from).to_string()));
    let both = [
        address_limits::sends(limits, address, network.as_deref().unwrap_or_default()),
        address_limits::failures(limits, address, network.as_deref().unwrap_or_default()),
    ];
    // Without a network, only the limits on the address alone are known.
    both.into_iter().flat_map(|pair| pair.into_iter().skip(usize::from(network.is_none()))).collect()
}

fn networks(app: &App, whose: &LimitedBy) -> Vec<NetworkLimit> {
    let limits = &app.config.limits;
    let (LimitedBy::Network(address) | LimitedBy::Address { from: Some(address), .. }) = whose else {
        return Vec::new();
    };
    vec![
        address_limits::sends_from(limits, *address),
        address_limits::failures_from(limits, *address),
        address_limits::login_options_from(limits, *address),
    ]
}
