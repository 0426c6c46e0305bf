//! Random bytes: the only place that generates them.
//!
//! Unlike the clock, the generator cannot be replaced in tests. No behaviour depends on the bits, and a seam here could
//! issue guessable secrets.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use service_api::{
    ids::{CliTokenId, Id, RequestId},
    shard::Shard,
    token::{
        AuthorizationCode, BrowserSession, CliToken, Client, Device, DeviceSecret, OtpCode, SignInReport, Token,
        TokenKind as _,
    },
};
use service_rules::{Timestamp, otp};
use uuid::{Builder, Uuid};
use zeroize::Zeroizing;

/// Returns `N` random bytes, or an error if the system has none.
#[expect(clippy::disallowed_methods, reason = "this is where randomness is drawn")]
pub fn bytes<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).context("the system gave no random bytes")?;
    Ok(bytes)
}

/// Returns a random duration up to this one, so that nodes do not act all at the same moment.
#[must_use]
pub fn jitter(longest: Duration) -> Duration {
    let drawn = bytes::<1>().map_or(0, |[byte]| u32::from(byte));
    longest * drawn / 255
}

/// Returns a new id. Later ids sort after earlier ones.
pub fn id<I: Id>(now: Timestamp) -> anyhow::Result<I> {
    Ok(uuid(now)?.into())
}

/// Returns a new id in the shard of its owner. Later ids sort after earlier ones.
pub fn id_in<I: Id>(shard: Shard, now: Timestamp) -> anyhow::Result<I> {
    Ok(uuid_in(shard, now)?.into())
}

/// Returns a new UUID. Later UUIDs sort after earlier ones.
pub fn uuid(now: Timestamp) -> anyhow::Result<Uuid> {
    Ok(uuid_of(now, &bytes()?))
}

/// Returns a new UUID in the shard of its owner. Later UUIDs sort after earlier ones.
pub fn uuid_in(shard: Shard, now: Timestamp) -> anyhow::Result<Uuid> {
    let mut tail = bytes::<10>()?;
    // The version takes the place of the first four bits.
    [tail[0], tail[1]] = shard.write_into([tail[0], tail[1]]);
    Ok(uuid_of(now, &tail))
}

/// Returns when a UUID was made, by the clock of the node that made it.
#[must_use]
pub fn time_of(id: Uuid) -> Option<Timestamp> {
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    Timestamp::new(seconds.try_into().ok()?, nanoseconds.try_into().ok()?).ok()
}

fn uuid_of(now: Timestamp, tail: &[u8; 10]) -> Uuid {
    let millis = u64::try_from(now.as_millisecond()).unwrap_or_default();
    Builder::from_unix_timestamp_millis(millis, tail).into_uuid()
}

/// Returns a unique request id as text. It is no secret, so only its process part is random.
#[must_use]
pub fn request_id(now: Timestamp) -> Arc<str> {
    static PROCESS: LazyLock<[u8; 10]> = LazyLock::new(|| bytes().unwrap_or_default());
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut tail = *PROCESS;
    tail[6..].copy_from_slice(&NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    RequestId::from(uuid_of(now, &tail)).to_string().into()
}

/// Returns a uniformly distributed code of [`otp::OTP_DIGITS`] digits.
pub fn otp_code() -> anyhow::Result<OtpCode> {
    const CODES: u32 = 100_000_000;
    const FAIR: u32 = u32::MAX - u32::MAX % CODES;
    loop {
        let drawn = u32::from_be_bytes(bytes()?);
        if drawn < FAIR {
            return Ok(OtpCode::new(format!("{:0width$}", drawn % CODES, width = otp::OTP_DIGITS)));
        }
    }
}

/// Returns a CLI token with this id.
pub fn cli_token(id: CliTokenId) -> anyhow::Result<CliToken> {
    let secret = Zeroizing::new(bytes::<32>()?);
    Ok(CliToken::from_body(&Zeroizing::new([&id.uuid().as_bytes()[..], &secret[..]].concat())))
}

/// Returns the secret of a confidential client.
pub fn client_secret() -> anyhow::Result<Token<Client>> {
    Ok(Token::from_body(&Zeroizing::new(bytes::<{ Client::BODY }>()?)[..]))
}

/// Returns an OAuth authorization code of a user in this shard.
pub fn authorization_code(shard: Shard) -> anyhow::Result<Token<AuthorizationCode>> {
    Ok(Token::in_shard(shard, bytes()?))
}

/// Returns the cookie value of a browser session in this shard.
pub fn session(shard: Shard) -> anyhow::Result<Token<BrowserSession>> {
    Ok(Token::in_shard(shard, bytes()?))
}

/// Returns the secret in the link of a mail about a sign-in of a user in this shard.
pub fn sign_in_report(shard: Shard) -> anyhow::Result<Token<SignInReport>> {
    Ok(Token::in_shard(shard, bytes()?))
}

/// Returns the secret of a device on which a user signed in.
pub fn device_secret() -> anyhow::Result<DeviceSecret> {
    Ok(Token::from_body(&Zeroizing::new(bytes::<{ Device::BODY }>()?)[..]))
}

/// Returns an ES256 signature, `r` and `s`. The library generates the nonce.
pub fn signature(key: &EcdsaKeyPair, message: &[u8]) -> anyhow::Result<[u8; 64]> {
    let signature = key.sign(&SystemRandom::new(), message).map_err(|_| anyhow!("nothing was signed"))?;
    signature.as_ref().try_into().context("a signature has another length")
}

/// Returns a new P-256 private key as PKCS#8.
pub fn signing_key() -> anyhow::Result<Zeroizing<Vec<u8>>> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| anyhow!("no key was generated"))?;
    let written = pair.to_pkcs8v1().map_err(|_| anyhow!("the key could not be written down"))?;
    Ok(Zeroizing::new(written.as_ref().to_vec()))
}
