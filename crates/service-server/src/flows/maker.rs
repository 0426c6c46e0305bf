//! Whoever makes a credential for something else: somebody who signed in, by their session.

use service_api::ids::{GrantId, WorkspaceId};
use service_rules::{Timestamp, cli_tokens::Invalid, credential::Credential, limits::Limited, space::Requested};

use crate::{
    app::App,
    database::{Connection, Error},
    flows::{Asker, limit::Limit},
    store,
};

pub struct Maker<'a> {
    pub credential: &'a Credential,
    pub session: GrantId,
    pub asker: &'a Asker,
}

impl Maker<'_> {
    /// The space that something new is for: the one asked for, else that of the maker's own token.
    pub fn workspace(&self, asked: Option<&str>) -> Result<Option<WorkspaceId>, Invalid> {
        match Requested::parse(asked) {
            Some(Requested::Nothing) => Ok(self.credential.reach.workspace()),
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
        let user_id = self.credential.user_id.to_string();
        let limit = Limit { policy: "tokens_per_user", whom: user_id.as_bytes() };
        limit.take_at_rate(app, db, app.config.limits.tokens_per_user, now).await
    }

    /// Holds user and session as they are until the transaction ends; when the session ends. `None`: one of them is over
    /// since the token was judged, which the token is told with its next request.
    pub async fn hold(&self, db: &Connection) -> Result<Option<Timestamp>, Error> {
        let enabled = store::users::lock(db, self.credential.user_id).await?;
        if !enabled || !store::grants::lock_live(db, self.session).await? {
            return Ok(None);
        }
        Ok(store::grants::find(db, self.session).await?.map(|grant| grant.facts.expires_at))
    }
}
