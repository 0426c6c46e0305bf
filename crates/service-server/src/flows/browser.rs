//! The browser that somebody uses: its cookie, who is signed in there, and what proves that a form is its own.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use service_api::{
    ids::{BrowserSessionId, UserId},
    token::{Session, Token},
};
use service_rules::{Timestamp, lifetimes, limits::Limited, signing::later};
use subtle::ConstantTimeEq as _;

use crate::{
    app::App,
    database::{Connection, Error},
    digest::{Digest, sha256},
    failure::Failure,
    flows::{
        Asker,
        limit::{Limit, network_of},
    },
    mint,
    store::{
        self,
        browser_sessions::{NewSession, Person, Renewed},
    },
    vault::Purpose,
};

/// Being seen is written down so seldom.
const SEEN_EVERY: i64 = 3_600;

pub struct Browser {
    pub id: BrowserSessionId,
    pub person: Option<Person>,
    digest: Digest,
    /// The cookie to set, when it is another than the one that was sent.
    pub new_cookie: Option<Token<Session>>,
}

/// The browser with this cookie.
pub async fn find(app: &App, cookie: Option<&str>) -> anyhow::Result<Option<Browser>> {
    let Some(cookie) = cookie.and_then(Token::<Session>::parse) else { return Ok(None) };
    let now = app.clock.now();
    let digest = sha256(cookie.expose());
    let db = app.database.connect().await?;
    let Some(stored) = store::browser_sessions::find(&db, &digest, idle_since(now), now).await? else {
        return Ok(None);
    };
    if stored.last_seen_at <= later(now, -SEEN_EVERY) {
        store::browser_sessions::mark_seen(&db, stored.id, now).await?;
    }
    let person = match stored.person {
        Some(person) if !app.revocations.ended_everybody_since(person.signed_in_at)? => Some(person),
        Some(_) | None => None,
    };
    Ok(Some(Browser { id: stored.id, person, digest, new_cookie: None }))
}

/// A browser that was not seen before.
pub async fn open(app: &App, asker: &Asker) -> Result<Browser, Failure<Limited>> {
    let now = app.clock.now();
    let db = app.database.connect().await?;
    let network = network_of(asker.address);
    let limit = Limit { policy: "browsers-network", whom: network.as_bytes() };
    if let Some(limited) = limit.take_at_rate(app, &db, app.config.limits.browsers_per_network, now).await? {
        return Err(Failure::Refused(limited));
    }
    let (id, cookie) = (mint::id(now)?, mint::session()?);
    let digest = sha256(cookie.expose());
    // Nobody is signed in yet: it need not last.
    let expires_at = later(now, lifetimes::SIGN_IN_FLOW);
    store::browser_sessions::insert(&db, &NewSession { id, digest: &digest, now, expires_at }).await?;
    Ok(Browser { id, person: None, digest, new_cookie: Some(cookie) })
}

impl Browser {
    /// Gives the browser another cookie, because who is signed in there changes; the old one is nobody's.
    pub async fn renew(&mut self, app: &App, db: &Connection, user_id: Option<UserId>) -> anyhow::Result<()> {
        let now = app.clock.now();
        let cookie = mint::session()?;
        let digest = sha256(cookie.expose());
        let kept =
            self.person.as_ref().filter(|person| Some(person.user_id) == user_id).map(|person| person.signed_in_at);
        let life = if user_id.is_some() { lifetimes::BROWSER_SESSION } else { lifetimes::SIGN_IN_FLOW };
        // Only signing in makes it last: what was stolen ends when it would have.
        let expires_at = kept.is_none().then(|| later(now, life));
        self.replace(db, digest, user_id.map(|id| (id, kept.unwrap_or(now))), (now, expires_at)).await?;
        self.new_cookie = Some(cookie);
        Ok(())
    }

    /// The same for somebody who has just proved who they are.
    pub async fn sign_in(&mut self, app: &App, db: &Connection, user_id: UserId) -> anyhow::Result<()> {
        self.person = None;
        self.renew(app, db, Some(user_id)).await
    }

    async fn replace(
        &mut self,
        db: &Connection,
        new: Digest,
        person: Option<(UserId, Timestamp)>,
        (now, expires_at): (Timestamp, Option<Timestamp>),
    ) -> Result<(), Error> {
        let renewed = Renewed { old: &self.digest, new: &new, person, now, expires_at };
        if !store::browser_sessions::renew(db, self.id, &renewed).await? {
            // Another request of this browser was faster; its cookie is the one that counts.
            return Err(Error::Unavailable("the browser's cookie was changed meanwhile".into()));
        }
        self.digest = new;
        Ok(())
    }

    /// What a form of this browser carries, and a page elsewhere cannot know.
    #[must_use]
    pub fn form_token(&self, app: &App) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(&app.vault.name(Purpose::FormToken, &[&self.digest])[..16])
    }

    #[must_use]
    pub fn owns_form(&self, app: &App, sent: &str) -> bool {
        self.form_token(app).as_bytes().ct_eq(sent.as_bytes()).into()
    }

    /// Whether the person proved lately who they are.
    #[must_use]
    pub fn signed_in_since(&self, since: Timestamp) -> bool {
        self.person.as_ref().is_some_and(|person| person.signed_in_at >= since)
    }
}

/// Browsers that were last seen before this are forgotten.
#[must_use]
pub fn idle_since(now: Timestamp) -> Timestamp {
    later(now, -lifetimes::BROWSER_IDLE)
}
