//! The caller of a protected endpoint, as a handler's argument.
//!
//! A handler that takes `Caller<Read<Projects>>` cannot run without a live token that carries that scope, so what an
//! endpoint needs is written in its signature.

use std::{marker::PhantomData, sync::Arc};

use axum::{
    extract::FromRequestParts,
    http::{header, request::Parts},
};
use service_api::scope::{Action, Resource, Scope};
use service_rules::bearer::{self, Claims, Refusal};

use crate::{
    app::App,
    failure::Failure,
    flows,
    http::{error::ApiError, refusals},
    verified_tokens::Verified,
};

pub struct Caller<S> {
    token: Arc<Verified>,
    needed: PhantomData<S>,
}

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
pub enum Projects {}
pub enum Sessions {}

impl Of for Anything {
    const RESOURCE: Option<Resource> = None;
}
impl Of for Projects {
    const RESOURCE: Option<Resource> = Some(Resource::Projects);
}
impl Of for Sessions {
    const RESOURCE: Option<Resource> = Some(Resource::Sessions);
}
impl<R: Of> Needs for Read<R> {
    const SCOPE: Scope = Scope { action: Action::Read, resource: R::RESOURCE };
}
impl<R: Of> Needs for Write<R> {
    const SCOPE: Scope = Scope { action: Action::Write, resource: R::RESOURCE };
}

impl<S> Caller<S> {
    #[must_use]
    pub fn claims(&self) -> &Claims {
        &self.token.claims
    }
}

impl<S: Needs> FromRequestParts<App> for Caller<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let refuse = |refusal| refusals::bearer(refusal, &app.config.base_url);
        let headers = parts.headers.get_all(header::AUTHORIZATION).iter().map(header::HeaderValue::as_bytes);
        let token = bearer::token_in(headers).map_err(refuse)?.ok_or_else(|| refuse(Refusal::Missing))?;
        match flows::authenticate::authenticate(app, token, S::SCOPE).await {
            Ok(token) => Ok(Self { token, needed: PhantomData }),
            Err(Failure::Refused(refusal)) => Err(refuse(refusal)),
            Err(Failure::Broken(broken)) => Err(broken.into()),
        }
    }
}
