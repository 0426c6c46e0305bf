//! The caller of a protected endpoint, as a handler's argument.
//!
//! A handler that takes `Caller<Read<Projects>>` cannot run without a live token that carries that scope, and one that
//! takes `SignedIn<…>` not with a token for automation, so what an endpoint needs is written in its signature.

use std::{
    marker::PhantomData,
    sync::{Arc, OnceLock},
};

use axum::{
    extract::FromRequestParts,
    http::{header, request::Parts},
};
use service_api::{
    Timestamp, contents,
    ids::GrantId,
    scope::{Action, Resource, Scope},
};
use service_rules::{
    bearer::{self, Refusal},
    credential::{Credential, Kind},
};

use crate::{
    app::App,
    failure::Failure,
    flows::{Asker, authenticate, mcp_tokens, refresh::Bearer},
    http::{error::ApiError, refusals},
};

pub struct Caller<S> {
    credential: Arc<Credential>,
    needed: PhantomData<S>,
}

/// A caller who signed in, and the session.
pub struct SignedIn<S> {
    pub session: GrantId,
    caller: Caller<S>,
}

/// A caller of whom nothing more is known: the handler has to judge what it may do.
pub struct AnyCaller(pub Arc<Credential>);

/// The scope an endpoint needs.
pub trait Needs {
    const SCOPE: Scope;
}

/// Needs a read scope for `R`.
pub struct Read<R>(PhantomData<R>);
/// Needs a write scope for `R`.
pub struct Write<R>(PhantomData<R>);

/// What a scope can be narrowed to, as a type.
pub trait Of {
    const RESOURCE: Option<Resource>;
}

/// Any scope of the right kind will do.
pub enum Anything {}
pub enum Audit {}
pub enum Workspaces {}
pub enum Projects {}
pub enum Packs {}
pub enum Playbooks {}
pub enum Cases {}
pub enum Records {}
pub enum Sessions {}
pub enum Tokens {}

impl Of for Anything {
    const RESOURCE: Option<Resource> = None;
}
impl Of for Workspaces {
    const RESOURCE: Option<Resource> = Some(Resource::Workspaces);
}
impl Of for Audit {
    const RESOURCE: Option<Resource> = Some(Resource::Audit);
}
impl Of for Sessions {
    const RESOURCE: Option<Resource> = Some(Resource::Sessions);
}
impl Of for Tokens {
    const RESOURCE: Option<Resource> = Some(Resource::Tokens);
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
    const RESOURCE: Option<Resource> = Some(K::KIND.resource());
}
impl<R: Of> Needs for Read<R> {
    const SCOPE: Scope = Scope { action: Action::Read, resource: R::RESOURCE };
}
impl<R: Of> Needs for Write<R> {
    const SCOPE: Scope = Scope { action: Action::Write, resource: R::RESOURCE };
}

impl<S> Caller<S> {
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.credential
    }
}

impl<S> SignedIn<S> {
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.caller.credential
    }
}

impl<S: Needs> FromRequestParts<App> for Caller<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let credential = known(parts, app).await?;
        credential.check_scope(S::SCOPE).map_err(|refusal| refusals::bearer(refusal, &app.config.base_url))?;
        Ok(Self { credential, needed: PhantomData })
    }
}

impl<S: Needs> FromRequestParts<App> for SignedIn<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let credential = known(parts, app).await?;
        let session = credential.session()?;
        credential.check_scope(S::SCOPE).map_err(|refusal| refusals::bearer(refusal, &app.config.base_url))?;
        Ok(Self { session, caller: Caller { credential, needed: PhantomData } })
    }
}

impl FromRequestParts<App> for AnyCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        known(parts, app).await.map(Self)
    }
}

/// The one bearer token of a request.
fn sent<'a>(parts: &'a Parts, app: &App) -> Result<&'a str, ApiError> {
    let headers = parts.headers.get_all(header::AUTHORIZATION).iter().map(header::HeaderValue::as_bytes);
    let token = bearer::token_in(headers).and_then(|token| token.ok_or(Refusal::Missing));
    token.map_err(|refusal| refusals::bearer(refusal, &app.config.base_url))
}

async fn known(parts: &Parts, app: &App) -> Result<Arc<Credential>, ApiError> {
    let token = sent(parts, app)?;
    let asker = parts.extensions.get::<Asker>().ok_or_else(|| anyhow::anyhow!("the edge was not passed"))?;
    match authenticate::authenticate(app, token, asker.address).await {
        Ok(credential) => {
            if let (Kind::CliToken(_), Some(TokenExpires(cell))) = (credential.kind, parts.extensions.get()) {
                cell.get_or_init(|| credential.expires_at);
            }
            Ok(credential)
        }
        Err(Failure::Refused(refusal)) => Err(refusals::bearer(refusal, &app.config.base_url)),
        Err(Failure::Broken(broken)) => Err(broken.into()),
    }
}

/// Whoever may refresh an MCP pair, as far as the bearer token says.
pub struct McpBearer(pub Bearer);

impl FromRequestParts<App> for McpBearer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match mcp_tokens::bearer(app, sent(parts, app)?).await {
            Ok(bearer) => Ok(Self(bearer)),
            Err(Failure::Refused(refusal)) => Err(refusals::bearer(refusal, &app.config.base_url)),
            Err(Failure::Broken(broken)) => Err(broken.into()),
        }
    }
}

/// Where the edge learns when a token for automation ends, to say so in the response.
#[derive(Clone, Default)]
pub struct TokenExpires(pub Arc<OnceLock<Timestamp>>);
