//! The caller of a protected endpoint, as a handler's argument.
//!
//! A handler that takes `Caller<Read<Projects>>` cannot run without a live token that carries that scope, and one that
//! takes `UserSession<…>` does not run with a CLI token. So the signature of a handler says what its endpoint needs.

use std::{marker::PhantomData, sync::Arc};

use axum::{
    extract::FromRequestParts,
    http::{header, request::Parts},
};
use service_api::{
    contents, endpoints,
    ids::{GrantId, UserId},
    scope::{self, Action, Scope, Scopes},
};
use service_rules::{
    bearer::{self, BearerError},
    credential::{Credential, CredentialKind},
    limits::Limited,
    resources::Resource,
};

use crate::{
    app::App,
    flows::{
        Actor, RequestMeta, authenticate,
        oauth::refresh_grant::Bearer,
        sign_in::step_up::{self, RecentSignIn},
        tokens::mcp_tokens,
    },
    http::{
        errors::{ApiError, api},
        exchange::Exchange,
    },
    node_limits::user_limits::Usage,
};

/// A caller whose token is live and carries the scope `S`.
pub struct Caller<S> {
    credential: Arc<Credential>,
    meta: RequestMeta,
    needed: PhantomData<S>,
}

/// A caller with the access token of a session in one of our own clients.
pub struct UserSession<S> {
    pub session: GrantId,
    caller: Caller<S>,
}

/// A caller with the access token of a session in one of our own clients, who signed in within the last 15 minutes.
pub struct RecentUserSession<S> {
    pub sign_in: RecentSignIn,
    caller: Caller<S>,
}

/// A caller whose token is live, whatever its scopes. The handler has to check what the caller may do.
pub struct AnyCaller(pub Arc<Credential>);

/// The scope an endpoint needs.
pub trait Needs {
    const SCOPE: Scope;
    /// Whether a token without that scope is refused.
    const REQUIRED: bool = true;
}

/// Needs a token and no scope; what it does is reading.
pub struct NoScope;

impl Needs for NoScope {
    const SCOPE: Scope = Scope::any(Action::Read);
    const REQUIRED: bool = false;
}

/// Needs a read scope for `R`.
pub struct Read<R>(PhantomData<R>);
/// Needs a write scope for `R`.
pub struct Write<R>(PhantomData<R>);

/// What a scope can be narrowed to, as a type.
pub trait Of {
    const RESOURCE: Option<scope::Resource>;
}

pub enum Audit {}
pub enum Workspaces {}
pub enum Projects {}
pub enum Packs {}
pub enum Playbooks {}
pub enum Cases {}
pub enum Records {}
pub enum Sessions {}
pub enum Tokens {}

impl Of for Workspaces {
    const RESOURCE: Option<scope::Resource> = Some(scope::Resource::Workspaces);
}
impl Of for Audit {
    const RESOURCE: Option<scope::Resource> = Some(scope::Resource::Audit);
}
impl Of for Sessions {
    const RESOURCE: Option<scope::Resource> = Some(scope::Resource::Sessions);
}
impl Of for Tokens {
    const RESOURCE: Option<scope::Resource> = Some(scope::Resource::Tokens);
}
/// A kind of content.
pub trait OfKind: Send + Sync + 'static {
    const KIND: contents::Kind;
}

impl OfKind for Projects {
    const KIND: contents::Kind = contents::Kind::Project;
}
impl OfKind for Packs {
    const KIND: contents::Kind = contents::Kind::Pack;
}
impl OfKind for Playbooks {
    const KIND: contents::Kind = contents::Kind::Playbook;
}
impl OfKind for Cases {
    const KIND: contents::Kind = contents::Kind::Case;
}
impl OfKind for Records {
    const KIND: contents::Kind = contents::Kind::Record;
}
impl<K: OfKind> Of for K {
    const RESOURCE: Option<scope::Resource> = Some(K::KIND.resource());
}
impl<R: Of> Needs for Read<R> {
    const SCOPE: Scope = Scope { action: Action::Read, resource: R::RESOURCE };
}
impl<R: Of> Needs for Write<R> {
    const SCOPE: Scope = Scope { action: Action::Write, resource: R::RESOURCE };
}

impl<S> Caller<S> {
    #[must_use]
    pub fn credential(&self) -> &Arc<Credential> {
        &self.credential
    }

    /// The user of the token, as flows take it.
    #[must_use]
    pub fn actor(&self) -> Actor<'_> {
        Actor::by_token(&self.credential, &self.meta)
    }
}

impl<S> UserSession<S> {
    /// The user of the session, as flows take it.
    #[must_use]
    pub fn actor(&self) -> Actor<'_> {
        self.caller.actor()
    }
}

impl<S> RecentUserSession<S> {
    /// The user of the session, as flows take it.
    #[must_use]
    pub fn actor(&self) -> Actor<'_> {
        self.caller.actor()
    }
}

impl<S: Needs> FromRequestParts<App> for Caller<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let credential = known(parts, app).await?;
        if S::REQUIRED {
            credential.check_scope(S::SCOPE).map_err(|refusal| api::bearer(refusal, &app.config.base_url))?;
        }
        Ok(Self { credential, meta: meta(parts)?.clone(), needed: PhantomData })
    }
}

impl<S: Needs> FromRequestParts<App> for UserSession<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let credential = known(parts, app).await?;
        let session = credential.user_session()?;
        credential.check_scope(S::SCOPE).map_err(|refusal| api::bearer(refusal, &app.config.base_url))?;
        Ok(Self { session, caller: Caller { credential, meta: meta(parts)?.clone(), needed: PhantomData } })
    }
}

impl<S: Needs + Send> FromRequestParts<App> for RecentUserSession<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let UserSession { caller, .. } = UserSession::<S>::from_request_parts(parts, app).await?;
        match step_up::require_recent_sign_in(app, &caller.actor()).await {
            Ok(sign_in) => Ok(Self { sign_in, caller }),
            Err(failure) => Err(api::authenticate(failure, &app.config.base_url)),
        }
    }
}

impl FromRequestParts<App> for AnyCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        known(parts, app).await.map(Self)
    }
}

/// The bearer token of a request, which must have exactly one.
fn sent(parts: &Parts) -> Result<&str, BearerError> {
    let headers = parts.headers.get_all(header::AUTHORIZATION).iter().map(header::HeaderValue::as_bytes);
    bearer::token_in(headers).and_then(|token| token.ok_or(BearerError::Missing))
}

/// What the edge has found out about the request.
fn meta(parts: &Parts) -> Result<&RequestMeta, ApiError> {
    Ok(parts.extensions.get().ok_or_else(|| anyhow::anyhow!("the request did not pass the edge"))?)
}

async fn known(parts: &Parts, app: &App) -> Result<Arc<Credential>, ApiError> {
    let token = sent(parts).map_err(|refusal| api::bearer(refusal, &app.config.base_url))?;
    match authenticate::authenticate_bearer(app, token, meta(parts)?.address).await {
        Ok(credential) => {
            count(parts, app, credential.user_id, usage(parts))?;
            if let (CredentialKind::CliToken(_), Some(exchange)) = (credential.kind, Exchange::of(parts)) {
                exchange.note_expiry(credential.expires_at);
            }
            Ok(credential)
        }
        Err(failure) => Err(api::authenticate(failure, &app.config.base_url)),
    }
}

/// The kind of a request, by its endpoint.
fn usage(parts: &Parts) -> Usage {
    match Exchange::endpoint(parts) {
        Some(row) if row.path == endpoints::SEARCH_PACKS.path() => Usage::Search,
        Some(row) if row.method == endpoints::Method::Get => Usage::Read,
        _ => Usage::Write,
    }
}

/// Counts the request against its user's limits, once.
fn count(parts: &Parts, app: &App, user_id: UserId, usage: Usage) -> Result<(), Limited> {
    let Some(exchange) = Exchange::of(parts).filter(|exchange| exchange.allowances().is_none()) else {
        return Ok(());
    };
    exchange.note_allowances(app.user_limits.count(&app.config.limits, user_id, usage, app.clock.now())?);
    Ok(())
}

/// The user or session that the bearer token of a request to refresh an MCP token pair names.
pub struct McpBearer(pub Bearer);

impl FromRequestParts<App> for McpBearer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let token = sent(parts).map_err(|refusal| api::bearer(refusal, &app.config.base_url))?;
        match mcp_tokens::authenticate_refresh(app, token).await {
            Ok(bearer) => Ok(Self(bearer)),
            Err(failure) => Err(api::authenticate(failure, &app.config.base_url)),
        }
    }
}

/// A caller of `/mcp` whose access token is live. The scope depends on the message, so it is checked once that is read.
#[derive(Clone)]
pub struct McpCaller {
    credential: Arc<Credential>,
    meta: RequestMeta,
}

impl FromRequestParts<App> for McpCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let base_url = &app.config.base_url;
        let token = sent(parts).map_err(|refusal| api::bearer_at(Resource::Mcp, refusal, base_url, Scopes::NONE))?;
        match authenticate::authenticate_mcp(app, token).await {
            Ok(credential) => Ok(Self { credential, meta: meta(parts)?.clone() }),
            Err(failure) => Err(api::authenticate_at(Resource::Mcp, failure, base_url)),
        }
    }
}

impl McpCaller {
    #[must_use]
    pub fn credential(&self) -> &Arc<Credential> {
        &self.credential
    }

    /// The user of the token, as flows take it.
    #[must_use]
    pub fn actor(&self) -> Actor<'_> {
        Actor::by_token(&self.credential, &self.meta)
    }

    /// Checks that the token has a scope. The challenge asks for that scope and for those that the token has already.
    pub fn check_scope(&self, app: &App, needed: Scope) -> Result<(), ApiError> {
        let held = self.credential.scopes;
        self.credential
            .check_scope(needed)
            .map_err(|refusal| api::bearer_at(Resource::Mcp, refusal, &app.config.base_url, held))
    }

    /// Counts the request against its user's limits, once.
    pub fn count(&self, parts: &Parts, app: &App, usage: Usage) -> Result<(), Limited> {
        count(parts, app, self.credential.user_id, usage)
    }
}
