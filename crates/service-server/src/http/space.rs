//! A caller in the space its request runs in, as a handler's argument.

use axum::{extract::FromRequestParts, http::request::Parts};
use service_rules::space::{Requested, Right};

use crate::{
    app::App,
    flows::{
        Actor,
        workspaces::enter_space::{self, Entered},
    },
    http::{
        caller::{Caller, Needs},
        errors::{ApiError, MalformedRequest},
        query::Query,
    },
};

/// The space of a request, which its caller has entered. It holds the caller too: without a checked token there is none.
pub struct Space<S> {
    pub caller: Caller<S>,
    pub entered: Entered,
    pub query: Query,
}

/// A space that is the caller's own: personal space, or a workspace of which the caller is an owner.
pub struct OwnSpace<S>(pub Space<S>);

impl<S> Space<S> {
    /// The user of the token, as flows take it.
    #[must_use]
    pub fn actor(&self) -> Actor<'_> {
        self.caller.actor()
    }
}

impl<S: Needs + Send> FromRequestParts<App> for Space<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        enter(parts, app, S::SCOPE.action.into()).await
    }
}

impl<S: Needs + Send> FromRequestParts<App> for OwnSpace<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        enter(parts, app, Right::Own).await.map(Self)
    }
}

async fn enter<S: Needs + Send>(parts: &mut Parts, app: &App, right: Right) -> Result<Space<S>, ApiError> {
    let caller = Caller::<S>::from_request_parts(parts, app).await?;
    let query = Query::read(parts)?;
    let requested = requested(&query)?;
    let entered = enter_space::enter_space(app, &caller.actor(), requested, right).await?;
    Ok(Space { caller, entered, query })
}

/// The space that a query names.
pub fn requested(query: &Query) -> Result<Requested, MalformedRequest> {
    Requested::parse(query.get("workspaceId")).ok_or_else(|| {
        MalformedRequest::Query(
            "workspaceId must be a workspace ID or `personal`. Leave it out for the default.".into(),
        )
    })
}
