//! A session that refreshes its tokens, also when several processes share them.
//!
//! 1. One task of this process refreshes at a time.
//! 2. One process refreshes at a time, by a file lock for this credential.
//! 3. Read the store again: if another task or process has refreshed, use its token.
//! 4. Refresh with the refresh token that was just read, never with one from before the lock.
//! 5. Save the new tokens before releasing the lock.
//!
//! A refresh token that the service rejected is never sent again.

use std::{
    io,
    marker::PhantomData,
    path::{Path, PathBuf},
    time::Duration,
};

use service_api::{
    Timestamp,
    errors::{ErrorCode, Reason},
    ids::ConnectionId,
    mcp_tokens::RefreshMcpTokens,
    oauth::TokenResponse,
    token::{AccessToken, McpRefresh, PresentedToken, Refresh, Token, TokenKind},
};
use tokio::sync::Mutex;

use crate::{Client, Error, Lock, LockError, Refusal};

/// An access token is refreshed this long before it expires, so that it does not expire on the way.
const EXPIRY_MARGIN: Duration = Duration::from_secs(60);
/// The maximum lifetime of an access token that is accepted from the service, in seconds.
const MAX_LIFETIME_SECONDS: i64 = 86_400;
/// How long to wait for another process that refreshes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Where the tokens of a session are kept. `K` is the kind of its refresh token.
///
/// # Errors
/// Every method returns [`StoreError`] if the store cannot be used.
pub trait TokenStore<K: TokenKind = Refresh>: Send + Sync {
    /// The files to lock while the tokens are refreshed, in this order. Stores of the same credential name the same files.
    fn locks(&self) -> Result<Vec<PathBuf>, StoreError>;
    /// The access token, or `None` if the user is not signed in. It is read for every call, so it must be fast.
    fn access(&self) -> Result<Option<Access>, StoreError>;
    /// The refresh token, or `None` if the user is not signed in.
    fn refresh_token(&self) -> Result<Option<Token<K>>, StoreError>;
    /// Saves new tokens, the refresh token first: without it the session is lost.
    fn save(&self, access: &Access, refresh_token: &Token<K>) -> Result<(), StoreError>;
    /// Deletes the tokens.
    fn forget(&self) -> Result<(), StoreError>;
}

/// An access token, and when it expires.
#[derive(Clone, Debug)]
pub struct Access {
    /// The token, for the `Authorization` header.
    pub token: AccessToken,
    /// When it expires, by the clock of this machine.
    pub expires_at: Timestamp,
}

impl Access {
    /// The access token of a response that was received at `now`.
    #[must_use]
    pub fn of<K: TokenKind>(tokens: &TokenResponse<K>, now: Timestamp) -> Self {
        let lifetime = Duration::from_secs(tokens.expires_in.clamp(0, MAX_LIFETIME_SECONDS).unsigned_abs());
        Self { token: tokens.access_token.clone(), expires_at: now + lifetime }
    }
}

/// A kind of refresh token, and the endpoint that exchanges it.
pub trait RefreshKind: TokenKind + Sized {
    /// Exchanges a refresh token for new tokens. `access` is the access token that was issued with it, which may have expired.
    fn refresh(
        client: &Client,
        client_id: &str,
        access: &AccessToken,
        token: &Token<Self>,
    ) -> impl Future<Output = Result<TokenResponse<Self>, Error>>;

    /// Whether an error of [`refresh`](Self::refresh) means that the session has ended.
    fn is_ended(error: &Error) -> bool;
}

impl RefreshKind for Refresh {
    async fn refresh(
        client: &Client,
        client_id: &str,
        _: &AccessToken,
        token: &Token<Self>,
    ) -> Result<TokenResponse<Self>, Error> {
        client.refresh(client_id, token).await
    }

    fn is_ended(error: &Error) -> bool {
        error.is_code(ErrorCode::InvalidGrant)
    }
}

impl RefreshKind for McpRefresh {
    async fn refresh(
        client: &Client,
        _: &str,
        access: &AccessToken,
        token: &Token<Self>,
    ) -> Result<TokenResponse<Self>, Error> {
        let refresh = RefreshMcpTokens { refresh_token: PresentedToken::new(token.expose().to_owned()) };
        Ok(client.refresh_mcp_tokens(access, &refresh).await?.tokens)
    }

    /// The endpoint also checks the access token, which names the session. If it is rejected although an expired one is
    /// accepted, the session was revoked.
    fn is_ended(error: &Error) -> bool {
        error.is_code(ErrorCode::InvalidGrant) || error.is_code(ErrorCode::InvalidToken)
    }
}

/// Why a call of a session failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The store has no tokens.
    #[error("not signed in")]
    NotSignedIn,
    /// The session was revoked or has expired. The store has deleted its tokens.
    #[error("the session has ended")]
    Ended(Option<Reason>),
    /// The user has to sign in through their company, by this connection if it is known. Then the session works again, so the
    /// store has kept its tokens.
    #[error("the user has to sign in through their company")]
    SsoAgain(Option<ConnectionId>),
    /// Another process held the lock for 30 seconds.
    #[error("another process has been refreshing the session for 30 seconds")]
    Busy,
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The call itself, or refreshing, failed.
    #[error(transparent)]
    Call(#[from] Error),
}

impl From<LockError> for SessionError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Busy => Self::Busy,
            LockError::Store(error) => Self::Store(error),
        }
    }
}

/// A store cannot be used. The message says why, and never contains a token.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct StoreError {
    what: String,
}

impl StoreError {
    /// The file at `path` cannot be used, because of `why`.
    #[must_use]
    pub fn new(path: &Path, why: &str) -> Self {
        Self { what: format!("{} {why}", path.display()) }
    }

    /// The file at `path` cannot be used, because of an I/O error.
    #[must_use]
    pub fn io(path: &Path, error: &io::Error) -> Self {
        Self::new(path, &format!("can't be used ({error})."))
    }

    /// A store that is not a file cannot be used.
    #[must_use]
    pub fn other(what: String) -> Self {
        Self { what }
    }
}

/// A session of a user, whose tokens are kept in `S` and refreshed when they expire. `K` is the kind of its refresh token.
pub struct Session<S, K = Refresh> {
    client: Client,
    client_id: &'static str,
    store: S,
    now: fn() -> Timestamp,
    renewing: Mutex<()>,
    kind: PhantomData<fn() -> K>,
}

impl<K: RefreshKind, S: TokenStore<K>> Session<S, K> {
    /// A session of the OAuth client `client_id`. `now` is the clock.
    pub fn new(client: Client, client_id: &'static str, store: S, now: fn() -> Timestamp) -> Self {
        Self { client, client_id, store, now, renewing: Mutex::default(), kind: PhantomData }
    }

    /// Makes a call with a valid access token. If the service rejects the token, it is refreshed and the call is made again,
    /// which is safe: a call that is rejected for its token has no effect.
    ///
    /// # Errors
    /// [`SessionError::NotSignedIn`] without tokens, [`SessionError::Ended`] if the session was revoked or has expired,
    /// [`SessionError::SsoAgain`] if it waits for a sign-in through the user's company, [`SessionError::Busy`] if another process
    /// holds the lock, and the errors of the store and of the call.
    pub async fn call<T>(&self, call: impl AsyncFn(&AccessToken) -> Result<T, Error>) -> Result<T, SessionError> {
        let access = self.store.access()?.ok_or(SessionError::NotSignedIn)?;
        let token = if self.is_fresh(&access) { access.token } else { self.renew(&access.token).await? };
        match call(&token).await {
            Err(error) if error.is_code(ErrorCode::InvalidToken) => Ok(call(&self.renew(&token).await?).await?),
            result => Ok(result?),
        }
    }

    /// Refreshes the access token `old`, unless another task or process has done so.
    async fn renew(&self, old: &AccessToken) -> Result<AccessToken, SessionError> {
        let _task = self.renewing.lock().await;
        let _locks = lock_all(self.store.locks()?).await?;
        let Some(kept) = self.store.access()? else { return Err(SessionError::NotSignedIn) };
        if kept.token.expose() != old.expose() && self.is_fresh(&kept) {
            return Ok(kept.token);
        }
        let refresh_token = self.store.refresh_token()?.ok_or(SessionError::NotSignedIn)?;
        let tokens = match K::refresh(&self.client, self.client_id, &kept.token, &refresh_token).await {
            Err(error) if K::is_ended(&error) => {
                let reason = error.refusal().and_then(Refusal::reason);
                if reason == Some(Reason::SsoAgain) {
                    return Err(SessionError::SsoAgain(error.refusal().and_then(Refusal::connection_id)));
                }
                self.store.forget()?;
                return Err(SessionError::Ended(reason));
            }
            result => result?,
        };
        let access = Access::of(&tokens, (self.now)());
        self.store.save(&access, &tokens.refresh_token)?;
        Ok(access.token)
    }

    fn is_fresh(&self, access: &Access) -> bool {
        (self.now)() + EXPIRY_MARGIN < access.expires_at
    }
}

/// Takes the locks of a store in order. A caller that changes what the store keeps must hold them.
///
/// # Errors
/// [`SessionError::Busy`] if another process holds one of them, [`SessionError::Store`] if a file cannot be used.
pub async fn lock_all(paths: Vec<PathBuf>) -> Result<Vec<Lock>, SessionError> {
    let mut held = Vec::new();
    for path in paths {
        held.push(Lock::take(&path, LOCK_TIMEOUT).await?);
    }
    Ok(held)
}
