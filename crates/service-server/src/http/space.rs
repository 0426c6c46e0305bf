//! A caller in the space its request runs in, as a handler's argument.

use axum::{extract::FromRequestParts, http::request::Parts};
use service_rules::space::Requested;

use crate::{
    app::App,
    flows::enter_space::{self, Entered},
    http::{
        caller::{Caller, Needs},
        error::{ApiError, Unreadable},
        query::Query,
    },
};

/// Holds the caller too: there is no way to have the space without having checked the token.
pub struct Space<S> {
    pub caller: Caller<S>,
    pub entered: Entered,
    pub query: Query,
}

impl<S: Needs + Send> FromRequestParts<App> for Space<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = Caller::<S>::from_request_parts(parts, app).await?;
        let query = Query::read(parts)?;
        let requested = Requested::parse(query.get("workspaceId")).ok_or_else(|| {
            Unreadable::Query(
                "workspaceId is neither a workspace's id nor personal; leave it out for the default.".into(),
            )
        })?;
        let credential = caller.credential();
        let action = S::SCOPE.action;
        let entered = enter_space::enter_space(app, credential.user_id, credential.reach, requested, action).await?;
        Ok(Self { caller, entered, query })
    }
}
