//! A caller in the space its request runs in, as a handler's argument.

use axum::{extract::FromRequestParts, http::request::Parts};
use service_rules::space::{Requested, Right};

use crate::{
    app::App,
    flows::{
        Asker,
        enter_space::{self, Entered},
    },
    http::{
        caller::{Caller, Needs},
        error::{ApiError, Unreadable},
        query::Query,
    },
};

/// Holds the caller too: there is no way to have the space without having checked the token.
pub struct Space<S> {
    pub caller: Caller<S>,
    pub asker: Asker,
    pub entered: Entered,
    pub query: Query,
}

/// A space that is the caller's own: personal space, or a workspace of which the caller is an owner.
pub struct OwnSpace<S>(pub Space<S>);

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
    let requested = Requested::parse(query.get("workspaceId")).ok_or_else(|| {
        Unreadable::Query("workspaceId is neither a workspace's id nor personal; leave it out for the default.".into())
    })?;
    let credential = caller.credential();
    let entered = enter_space::enter_space(app, credential.user_id, credential.reach, requested, right).await?;
    let asker = parts.extensions.get::<Asker>().ok_or_else(|| anyhow::anyhow!("the edge was not passed"))?.clone();
    Ok(Space { caller, asker, entered, query })
}
