//! Devices: browsers and command-line clients on which a user signed in before.
//!
//! A device has a secret that it was given after a sign-in. The secret authenticates no user and authorizes nothing. A
//! device has rate limits of its own for code requests and for wrong codes, which no other caller can use up. Looking up a
//! device costs the same one statement whether no secret was sent, an unknown one, or one of another address.

use service_api::{
    ids::UserId,
    token::{DeviceSecret, PresentedToken},
};
use service_rules::{Timestamp, email::Address, lifetimes, limits::Limited, signing::later};

use crate::{
    app::App,
    crypto::{
        digest::{Digest, sha256},
        random,
        root_keys::Purpose,
    },
    database::{Connection, Error},
    flows::{
        RequestMeta,
        rate_limit::{Limit, NetworkLimit},
    },
    store::{self, devices::KnownDevice},
};

/// Devices that one user may have. A further one replaces the one that was used longest ago.
const MAX_DEVICES_PER_USER: i64 = 100;

/// The digest of a presented secret. A text that is no device secret has a digest too, which matches no device.
fn digest_of(presented: Option<&PresentedToken>) -> Digest {
    sha256(presented.map_or("", PresentedToken::expose))
}

/// The digest of the presented secret, if it belongs to a device on which this address signed in.
pub(crate) async fn find(
    app: &App,
    db: &Connection,
    presented: Option<&PresentedToken>,
    address: &Address,
    now: Timestamp,
) -> Result<Option<Digest>, Error> {
    let digest = digest_of(presented);
    let macs = app.root_keys.macs(Purpose::DeviceAddress, &[address.as_str().as_bytes()]);
    let macs: Vec<&[u8]> = macs.iter().map(<[u8; 32]>::as_slice).collect();
    Ok(store::devices::is_known_for(db, &digest, &macs, now).await?.then_some(digest))
}

/// A sign-in, whose device is stored.
pub(crate) struct SignedIn<'a> {
    pub(crate) user_id: UserId,
    pub(crate) address: &'a Address,
    /// The secret that came with the code.
    pub(crate) presented: Option<&'a PresentedToken>,
    /// The device that requested the code.
    pub(crate) asked_by: Option<&'a [u8]>,
    pub(crate) now: Timestamp,
}

/// The device of a sign-in, as it was stored.
pub(crate) struct RememberedDevice {
    /// Its secret, if it had none.
    pub(crate) secret: Option<DeviceSecret>,
    /// Its digest, if this address has not signed in there before. An attacker's device may have a secret of another account.
    pub(crate) new_to_address: Option<Digest>,
}

/// Stores the device of a sign-in. A device that has a secret keeps it, with a new expiry.
pub(crate) async fn remember(app: &App, db: &Connection, signed_in: &SignedIn<'_>) -> anyhow::Result<RememberedDevice> {
    let SignedIn { address, presented, now, .. } = *signed_in;
    let known = find(app, db, presented, address, now).await?;
    let address_mac = app.root_keys.mac(Purpose::DeviceAddress, &[signed_in.address.as_str().as_bytes()]).bytes;
    let user_id = signed_in.user_id;
    let expires_at = later(now, lifetimes::DEVICE);
    let digest = digest_of(presented);
    let of = |digest| KnownDevice { digest, address_mac: &address_mac, user_id, now, expires_at };
    let remembered = if presented.is_some() && store::devices::renew(db, &of(&digest)).await? {
        RememberedDevice { secret: None, new_to_address: known.is_none().then_some(digest) }
    } else if let Some(asked_by) = signed_in.asked_by
        && store::devices::renew(db, &of(asked_by)).await?
    {
        RememberedDevice { secret: None, new_to_address: None }
    } else {
        let secret = random::device_secret()?;
        let digest = sha256(secret.expose());
        store::devices::insert(db, &KnownDevice { digest: &digest, ..of(&[]) }).await?;
        RememberedDevice { secret: Some(secret), new_to_address: Some(digest) }
    };
    if remembered.new_to_address.is_some() {
        store::devices::delete_excess(db, user_id, MAX_DEVICES_PER_USER).await?;
    }
    Ok(remembered)
}

/// The rate limits that count when a browser begins a session or a flow.
#[derive(Clone, Copy)]
pub(crate) struct BeginPolicies {
    /// For a known device.
    pub(crate) device: &'static str,
    /// For every other browser.
    pub(crate) network: &'static str,
}

/// Counts a browser that begins a session or a flow: against its device if that is known, else against its network. `Some`:
/// the limit is reached.
pub(crate) async fn count_begin(
    app: &App,
    meta: &RequestMeta,
    db: &Connection,
    policies: BeginPolicies,
    now: Timestamp,
) -> Result<Option<Limited>, Error> {
    let (digest, rates) = (digest_of(meta.device.as_ref()), app.config.limits.browsers_per_network);
    if meta.device.is_some() && store::devices::exists(db, &digest, now).await? {
        return Limit { policy: policies.device, whom: &digest }.take_at_rate(app, db, rates.narrowest(), now).await;
    }
    NetworkLimit { policy: policies.network, address: meta.address, rates }.take(app, db, now).await
}

/// Revokes a device by its secret; returns the users who signed in there.
pub(crate) async fn revoke(db: &Connection, secret: &DeviceSecret) -> Result<Vec<UserId>, Error> {
    store::devices::delete(db, &sha256(secret.expose())).await
}

/// Revokes the devices of a user, except the one that sends the request.
pub(crate) async fn revoke_others(db: &Connection, user_id: UserId, meta: &RequestMeta) -> Result<(), Error> {
    let own = meta.device.as_ref().map(|presented| digest_of(Some(presented)));
    store::devices::delete_by_user(db, user_id, own.as_ref()).await
}

/// The users who signed in on the device with this secret.
pub(crate) async fn find_users(db: &Connection, secret: &DeviceSecret, now: Timestamp) -> Result<Vec<UserId>, Error> {
    store::devices::find_users(db, &sha256(secret.expose()), now).await
}
