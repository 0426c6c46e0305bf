//! Whoever makes a credential for something else: somebody who signed in, by their session.

use service_api::{
    ids::{BrowserSessionId, GrantId, UserId, WorkspaceId},
    scope::Scopes,
};
use service_rules::{
    Timestamp, bearer,
    cli_tokens::Invalid,
    credential::Credential,
    lifetimes,
    limits::Limited,
    signing::later,
    space::{Reach, Requested},
};

use crate::{
    app::App,
    database::{Connection, Error},
    flows::{Asker, limit::Limit},
    store,
};

pub struct Maker<'a> {
    pub user_id: UserId,
    pub client_id: &'a str,
    pub scopes: Scopes,
    pub reach: Reach,
    pub standing: Standing,
    pub asker: &'a Asker,
}

/// What the maker is signed in by, which must not end while something is made.
#[derive(Clone, Copy, Debug)]
pub enum Standing {
    Session(GrantId),
    /// A browser in which the person has just proved who they are.
    Browser(BrowserSessionId),
}

impl<'a> Maker<'a> {
    /// Somebody who signed in, by an access token of theirs.
    #[must_use]
    pub fn by_token(credential: &'a Credential, session: GrantId, asker: &'a Asker) -> Self {
        let Credential { user_id, client_id, scopes, reach, .. } = credential;
        let standing = Standing::Session(session);
        Self { user_id: *user_id, client_id, scopes: *scopes, reach: *reach, standing, asker }
    }

    /// Whether something with these scopes would not be more than the maker has.
    pub fn check_covers(&self, scopes: Scopes) -> Result<(), bearer::Refusal> {
        self.scopes.first_beyond(scopes).map_or(Ok(()), |beyond| Err(bearer::Refusal::LacksScope(beyond)))
    }

    /// The space that something new is for: the one asked for, else that of the maker's own token.
    pub fn workspace(&self, asked: Option<&str>) -> Result<Option<WorkspaceId>, Invalid> {
        match Requested::parse(asked) {
            Some(Requested::Nothing) => Ok(self.reach.workspace()),
            Some(Requested::Personal) => Ok(None),
            Some(Requested::Workspace(id)) => Ok(Some(id)),
            None => {
                let message = "is neither a workspace's id nor personal".into();
                Err(Invalid { field: "workspaceId", message })
            }
        }
    }

    /// Counts one more that this user makes; `Some`: that is too many in too short a time. Each leaves rows and a mail.
    pub async fn count(&self, app: &App, db: &Connection, now: Timestamp) -> Result<Option<Limited>, Error> {
        let user_id = self.user_id.to_string();
        let limit = Limit { policy: "tokens_per_user", whom: user_id.as_bytes() };
        limit.take_at_rate(app, db, app.config.limits.tokens_per_user, now).await
    }

    /// Holds user and session as they are until the transaction ends; when the session ends. `None`: one of them is over
    /// since the token was judged, which the token is told with its next request.
    pub async fn hold(&self, db: &Connection, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        if !store::users::lock(db, self.user_id).await? {
            return Ok(None);
        }
        match self.standing {
            Standing::Session(id) if store::grants::lock_live(db, id).await? => {
                Ok(store::grants::find(db, id).await?.map(|grant| grant.facts.expires_at))
            }
            // Whoever has just signed in could sign in anywhere, and stay for as long as any session lasts.
            Standing::Browser(id) if store::browser_sessions::lock_signed_in(db, id, self.user_id).await?.is_some() => {
                Ok(Some(later(now, lifetimes::CLI_TOKEN_LONGEST)))
            }
            Standing::Session(_) | Standing::Browser(_) => Ok(None),
        }
    }
}
