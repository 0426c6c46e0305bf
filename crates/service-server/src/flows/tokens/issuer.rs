//! Issuing CLI tokens and MCP token pairs on behalf of a user who is signed in.

use service_api::ids::{ConnectionId, WorkspaceId};
use service_rules::{Timestamp, cli_tokens::FieldError, lifetimes, limits::Limited, signing::later, space::Requested};

use crate::{
    app::App,
    database::{Connection, Error},
    flows::{
        actor::{Actor, Basis},
        rate_limit::Limit,
    },
    store,
};

/// What a new credential inherits from the session that creates it: its end, and the time of its sign-in.
pub struct Held {
    pub ends_at: Timestamp,
    pub auth_time: Timestamp,
    /// The connection through which the user signed in.
    pub connection_id: Option<ConnectionId>,
    /// The id of the session, as `made_by` records it.
    pub made_by: String,
}

impl Actor<'_> {
    /// The space that something new is for: the one asked for, else that of the maker's own token.
    pub fn workspace(&self, asked: Option<&str>) -> Result<Option<WorkspaceId>, FieldError> {
        match Requested::parse(asked) {
            Some(Requested::Nothing) => Ok(self.space_access.workspace()),
            Some(Requested::Personal) => Ok(None),
            Some(Requested::Workspace(id)) => Ok(Some(id)),
            None => {
                let message = "must be a workspace ID or `personal`".into();
                Err(FieldError { field: "workspaceId", message })
            }
        }
    }

    /// Counts one more that this user makes; `Some`: that is too many in too short a time. Each leaves rows and a mail.
    pub async fn count(&self, app: &App, db: &Connection, now: Timestamp) -> Result<Option<Limited>, Error> {
        let user_id = self.user_id.to_string();
        let limit = Limit { policy: "tokens_per_user", whom: user_id.as_bytes() };
        limit.take_at_rate(app, db, app.config.limits.tokens_per_user, now).await
    }

    /// Holds user and session as they are until the transaction ends, for a change that needs no recent sign-in; `false`: one of
    /// them is over since the token was judged.
    pub async fn hold_session(&self, db: &Connection) -> Result<bool, Error> {
        Ok(store::users::lock(db, self.user_id).await?
            && match self.basis {
                Basis::Session(id) => store::grants::lock_live(db, id).await?.is_some(),
                Basis::Browser { id, .. } => {
                    store::browser_sessions::lock_signed_in(db, id, self.user_id).await?.is_some()
                }
                Basis::CliToken(_) | Basis::Operator => false,
            })
    }

    /// Holds user and session as they are until the transaction ends. `None`: one of them is over since the token was
    /// judged, which the token is told with its next request.
    pub async fn hold(&self, db: &Connection, now: Timestamp) -> Result<Option<Held>, Error> {
        if !store::users::lock(db, self.user_id).await? {
            return Ok(None);
        }
        let made_by = self.basis.to_string();
        match self.basis {
            Basis::Session(id) => {
                let grant = store::grants::lock_live(db, id).await?;
                Ok(grant.and_then(|grant| {
                    let (ends_at, auth_time, connection_id) = (grant.expires_at, grant.auth_time?, grant.connection_id);
                    Some(Held { ends_at, auth_time, connection_id, made_by })
                }))
            }
            Basis::Browser { id, .. } => {
                let locked = store::browser_sessions::lock_signed_in(db, id, self.user_id).await?;
                // A user who has just signed in could sign in anywhere, and stay for as long as any session lasts.
                let ends_at = later(now, lifetimes::CLI_TOKEN_LONGEST);
                Ok(locked.and_then(|locked| {
                    let (auth_time, connection_id) = (locked.sign_in.auth_time?, locked.sign_in.connection_id);
                    Some(Held { ends_at, auth_time, connection_id, made_by })
                }))
            }
            // A CLI token issues no credentials.
            Basis::CliToken(_) | Basis::Operator => Ok(None),
        }
    }
}
