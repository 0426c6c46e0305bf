//! A browser session: its cookie, the user who is signed in, and the token that proves that a form is its own.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use service_api::{
    ids::{BrowserSessionId, Id as _, UserId},
    token::{BrowserSession, DeviceSecret, PresentedToken, Token},
};
use service_rules::{Timestamp, email::Address, lifetimes, signing::later};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

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
        rate_limit::RateLimitError,
        sign_in::devices::{self, BeginPolicies},
    },
    store::{
        self,
        browser_sessions::{BrowserSessionRenewal, BrowserSignIn, CookieKey, NewBrowserSession, SignedInUser},
    },
};

/// Seconds between two updates of `last_seen_at`.
const LAST_SEEN_INTERVAL_SECONDS: i64 = 3_600;

/// A browser that has a session cookie.
pub struct Browser {
    pub id: BrowserSessionId,
    pub person: Option<SignedInUser>,
    digest: Digest,
    /// The cookie to set, if it differs from the one that was sent.
    pub new_cookie: Option<Token<BrowserSession>>,
    /// The device secret to set, after a sign-in.
    pub new_device: Option<DeviceSecret>,
}

/// A sign-in by an email code or a passkey.
pub(crate) struct SignInWithoutConnection {
    pub(crate) user_id: UserId,
    /// `None`: by a code, of a user who has a passkey.
    pub(crate) auth_time: Option<Timestamp>,
}

/// Finds the browser with this cookie.
pub async fn find(app: &App, cookie: Option<&str>) -> anyhow::Result<Option<Browser>> {
    let Some(cookie) = cookie.and_then(Token::<BrowserSession>::parse) else { return Ok(None) };
    let now = app.clock.now();
    let key = CookieKey::of(&cookie);
    let db = app.database.connect().await?;
    let Some(stored) = store::browser_sessions::find(&db, &key, idle_since(now), now).await? else {
        return Ok(None);
    };
    if stored.last_seen_at <= later(now, -LAST_SEEN_INTERVAL_SECONDS) {
        store::browser_sessions::mark_seen(&db, stored.id, now).await?;
    }
    let person = match stored.person {
        Some(person) if !app.revocations.revoked_all_since(person.signed_in_at)? => Some(person),
        Some(_) | None => None,
    };
    Ok(Some(Browser { id: stored.id, person, digest: key.digest, new_cookie: None, new_device: None }))
}

/// Opens a session for a browser without one.
pub async fn open(app: &App, meta: &RequestMeta) -> Result<Browser, RateLimitError> {
    let now = app.clock.now();
    let db = app.database.connect().await?;
    let policies = BeginPolicies { device: "browsers-device", network: "browsers-network" };
    if let Some(limited) = devices::count_begin(app, meta, &db, policies, now).await? {
        return Err(limited.into());
    }
    let id: BrowserSessionId = random::id(now)?;
    let cookie = random::session(id.shard())?;
    let digest = sha256(cookie.expose());
    // No user is signed in yet, so the session can be short.
    let expires_at = later(now, lifetimes::SIGN_IN_FLOW);
    store::browser_sessions::insert(&db, &NewBrowserSession { id, digest: &digest, now, expires_at }).await?;
    Ok(Browser { id, person: None, digest, new_cookie: Some(cookie), new_device: None })
}

impl Browser {
    /// Replaces the cookie, because the user consents or signs out. The old cookie is invalid from then on, and the new one
    /// expires when the old one would have: only a sign-in extends a session.
    pub async fn renew(&mut self, app: &App, db: &Connection, user_id: Option<UserId>) -> anyhow::Result<()> {
        let kept = self.person.as_ref().filter(|person| Some(person.user_id) == user_id).map(|person| person.sign_in);
        let expires_at = kept.is_none().then(|| later(app.clock.now(), lifetimes::SIGN_IN_FLOW));
        self.replace_cookie(app, db, kept, expires_at).await
    }

    /// Replaces the cookie, and sets the user who is signed in. `expires_at`: `None` leaves the expiry as it is.
    async fn replace_cookie(
        &mut self,
        app: &App,
        db: &Connection,
        person: Option<BrowserSignIn>,
        expires_at: Option<Timestamp>,
    ) -> anyhow::Result<()> {
        let now = app.clock.now();
        // The session of a signed-in user is in the shard of the user.
        let id = match person.map(|sign_in| sign_in.user_id) {
            Some(user_id) if user_id.shard() != self.id.shard() => random::id_in(user_id.shard(), now)?,
            Some(_) | None => self.id,
        };
        let cookie = random::session(id.shard())?;
        let digest = sha256(cookie.expose());
        let renewed = BrowserSessionRenewal { id, old: &self.digest, new: &digest, person, now, expires_at };
        if !store::browser_sessions::renew(db, self.id, &renewed).await? {
            // Another request of this browser replaced the cookie first; that cookie counts.
            return Err(Error::Unavailable("the browser's cookie was changed meanwhile".into()).into());
        }
        (self.id, self.digest) = (id, digest);
        self.new_cookie = Some(cookie);
        Ok(())
    }

    /// Signs a user in who has just entered the right code or used a passkey, and replaces the cookie.
    pub(crate) async fn sign_in(
        &mut self,
        app: &App,
        meta: &RequestMeta,
        db: &Connection,
        signed_in: SignInWithoutConnection,
    ) -> anyhow::Result<()> {
        let now = app.clock.now();
        let expires_at = later(now, lifetimes::BROWSER_SESSION);
        let SignInWithoutConnection { user_id, auth_time } = signed_in;
        let origin = meta.sign_in_origin();
        let sign_in = BrowserSignIn { user_id, signed_in_at: now, auth_time, connection_id: None, origin };
        self.replace_cookie(app, db, Some(sign_in), Some(expires_at)).await
    }

    /// Signs a user in through a connection until `expires_at`, and replaces the cookie.
    pub async fn sign_in_through(
        &mut self,
        app: &App,
        db: &Connection,
        sign_in: BrowserSignIn,
        expires_at: Timestamp,
    ) -> anyhow::Result<()> {
        let longest = later(sign_in.signed_in_at, lifetimes::BROWSER_SESSION);
        self.replace_cookie(app, db, Some(sign_in), Some(expires_at.min(longest))).await
    }

    /// Sets the device secret after a sign-in: a new one, or the one that the browser has, with a new expiry.
    pub fn remember_device(&mut self, new: Option<DeviceSecret>, held: Option<&PresentedToken>) {
        self.new_device = new.or_else(|| DeviceSecret::parse(held?.expose()));
    }

    /// The CSRF token of this browser's forms. Pages of other sites cannot know it.
    #[must_use]
    pub fn form_token(&self, app: &App) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(&app.root_keys.name(Purpose::FormToken, &[&self.digest])[..16])
    }

    /// Whether a CSRF token is this browser's.
    #[must_use]
    pub fn owns_form(&self, app: &App, sent: &str) -> bool {
        self.form_token(app).as_bytes().ct_eq(sent.as_bytes()).into()
    }

    /// What this browser is found by, until its cookie is replaced.
    pub(crate) fn cookie_key(&self) -> CookieKey {
        CookieKey { digest: self.digest, shard: self.id.shard() }
    }

    /// Whether the cookie has not been replaced since this browser was found.
    pub(crate) async fn has_its_cookie(&self, db: &Connection, now: Timestamp) -> Result<bool, Error> {
        Ok(store::browser_sessions::find(db, &self.cookie_key(), idle_since(now), now).await?.is_some())
    }

    /// A challenge for a passkey, which no other browser is given. It changes with the cookie.
    pub(crate) fn passkey_challenge(&self, app: &App, purpose: &[&[u8]]) -> [u8; 32] {
        app.root_keys.name(Purpose::PasskeyChallenge, &[&[self.digest.as_slice()], purpose].concat())
    }

    /// Seals a message for a later page of this browser, as text for a query. No other browser can open it, and only the
    /// service can write one.
    pub fn seal_message(&self, app: &App, message: &[u8]) -> anyhow::Result<String> {
        Ok(BASE64_URL_SAFE_NO_PAD.encode(app.root_keys.seal(&self.message_place(), message)?))
    }

    /// Opens a message that was sealed for this browser.
    #[must_use]
    pub fn open_message(&self, app: &App, sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        app.root_keys.open(&self.message_place(), &sealed).ok()
    }

    /// The cookie's digest binds a message to the session, and to the user who is signed in: it changes with both.
    fn message_place(&self) -> String {
        format!("page message for {}", BASE64_URL_SAFE_NO_PAD.encode(self.digest))
    }

    /// Whether the signed-in user has this email address.
    #[must_use]
    pub fn is_of(&self, email: &str) -> bool {
        let address = Address::parse(email).ok();
        self.person.as_ref().is_some_and(|person| address.is_some_and(|address| address.as_str() == person.email))
    }

    /// Whether the user signed in at or after this time.
    #[must_use]
    pub fn signed_in_since(&self, since: Timestamp) -> bool {
        self.person.as_ref().is_some_and(|person| person.signed_in_at >= since)
    }

    /// Whether the user signed in at or after this time, by a code or a passkey.
    #[must_use]
    pub fn signed_in_here_since(&self, since: Timestamp) -> bool {
        self.signed_in_since(since) && self.person.as_ref().is_some_and(|person| person.connection_id.is_none())
    }

    /// Whether the user is known to have authenticated at or after this time, as far as step-up is concerned. A provider may
    /// sign a user in who authenticated there long before.
    #[must_use]
    pub fn authenticated_since(&self, since: Timestamp) -> bool {
        self.person.as_ref().is_some_and(|person| person.auth_time.is_some_and(|at| at >= since))
    }
}

/// Browser sessions that were last seen before this time are no longer valid.
#[must_use]
pub fn idle_since(now: Timestamp) -> Timestamp {
    later(now, -lifetimes::BROWSER_IDLE)
}
