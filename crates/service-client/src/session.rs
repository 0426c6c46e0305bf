//! A sign-in that renews itself, also when many processes share it.
//!
//! 1. one task of this process at a time;
//! 2. one process at a time, by a lock that is scoped as the credential is;
//! 3. read again: whoever was first has renewed it, and then there is nothing to do;
//! 4. renew with the token that was just read, never with one from before the lock;
//! 5. keep the new pair before anybody else may look.
//!
//! A refresh token that the service refused is never sent again.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use service_api::{
    Timestamp,
    errors::{ErrorCode, Reason},
    oauth::TokenResponse,
    token::{AccessToken, RefreshToken},
};
use tokio::sync::Mutex;

use crate::{Busy, Client, Error, Lock};

/// How long before its end an access token counts as old, so that it does not end on the way.
const MARGIN: Duration = Duration::from_secs(60);
/// Seconds that an access token is believed to live, whatever is said.
const LONGEST: i64 = 86_400;
/// How long another process may take to renew.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a sign-in is kept.
pub trait TokenStore: Send + Sync {
    /// The files to lock while it is renewed, in this order: scoped as the credential is.
    fn locks(&self) -> Result<Vec<PathBuf>, StoreError>;
    /// Read for every command, so it must cost little.
    fn access(&self) -> Result<Option<Access>, StoreError>;
    fn refresh_token(&self) -> Result<Option<RefreshToken>, StoreError>;
    /// Keeps the refresh token first: the access token can be had again.
    fn save(&self, access: &Access, refresh_token: &RefreshToken) -> Result<(), StoreError>;
    fn forget(&self) -> Result<(), StoreError>;
}

#[derive(Clone, Debug)]
pub struct Access {
    pub token: AccessToken,
    pub expires_at: Timestamp,
}

impl Access {
    #[must_use]
    pub fn of(tokens: &TokenResponse, now: Timestamp) -> Self {
        let lifetime = Duration::from_secs(tokens.expires_in.clamp(0, LONGEST).unsigned_abs());
        Self { token: tokens.access_token.clone(), expires_at: now + lifetime }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("not signed in")]
    NotSignedIn,
    /// The service does not know the sign-in any more; it was forgotten here too.
    #[error("the session has ended")]
    Ended(Option<Reason>),
    #[error("another process has been renewing the sign-in for too long")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Call(#[from] Error),
}

/// Where something is kept cannot be used, and why. Never what is kept.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct StoreError {
    what: String,
}

impl StoreError {
    #[must_use]
    pub fn new(path: &Path, why: &str) -> Self {
        Self { what: format!("{} {why}", path.display()) }
    }

    #[must_use]
    pub fn io(path: &Path, error: &io::Error) -> Self {
        Self::new(path, &format!("cannot be used ({error})"))
    }

    #[must_use]
    pub fn other(what: String) -> Self {
        Self { what }
    }
}

pub struct Session<S> {
    client: Client,
    client_id: &'static str,
    store: S,
    now: fn() -> Timestamp,
    renewing: Mutex<()>,
}

impl<S: TokenStore> Session<S> {
    pub fn new(client: Client, client_id: &'static str, store: S, now: fn() -> Timestamp) -> Self {
        Self { client, client_id, store, now, renewing: Mutex::default() }
    }

    /// Calls with a token that works; with a new one if the service says that it does not. A call that was refused for
    /// its token has done nothing, so that it can be made again.
    pub async fn call<T>(&self, call: impl AsyncFn(&AccessToken) -> Result<T, Error>) -> Result<T, SessionError> {
        let access = self.store.access()?.ok_or(SessionError::NotSignedIn)?;
        let token = if self.is_fresh(&access) { access.token } else { self.renew(&access.token).await? };
        match call(&token).await {
            Err(error) if error.is_code(ErrorCode::InvalidToken) => Ok(call(&self.renew(&token).await?).await?),
            result => Ok(result?),
        }
    }

    /// A token in the place of `old`.
    async fn renew(&self, old: &AccessToken) -> Result<AccessToken, SessionError> {
        let _task = self.renewing.lock().await;
        let _locks = lock_all(self.store.locks()?).await?;
        let Some(kept) = self.store.access()? else { return Err(SessionError::NotSignedIn) };
        if kept.token.expose() != old.expose() && self.is_fresh(&kept) {
            return Ok(kept.token);
        }
        let refresh_token = self.store.refresh_token()?.ok_or(SessionError::NotSignedIn)?;
        let tokens = match self.client.refresh(self.client_id, &refresh_token).await {
            Err(Error::Refused(refusal)) if refusal.body.error == ErrorCode::InvalidGrant => {
                self.store.forget()?;
                return Err(SessionError::Ended(refusal.reason()));
            }
            result => result?,
        };
        let access = Access::of(&tokens, (self.now)());
        self.store.save(&access, &tokens.refresh_token)?;
        Ok(access.token)
    }

    fn is_fresh(&self, access: &Access) -> bool {
        (self.now)() + MARGIN < access.expires_at
    }
}

/// Takes locks in their order, as whoever changes what a store keeps must.
pub async fn lock_all(paths: Vec<PathBuf>) -> Result<Vec<Lock>, SessionError> {
    let mut held = Vec::new();
    for path in paths {
        held.push(Lock::take(&path, PATIENCE).await?.map_err(|Busy| SessionError::Busy)?);
    }
    Ok(held)
}
