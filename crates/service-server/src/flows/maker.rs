//! Whoever makes a credential for something else: somebody who signed in, by their session.

use service_api::ids::GrantId;
use service_rules::{Timestamp, credential::Credential};

use crate::{
    database::{Connection, Error},
    flows::Asker,
    store,
};

pub struct Maker<'a> {
    pub credential: &'a Credential,
    pub session: GrantId,
    pub asker: &'a Asker,
}

impl Maker<'_> {
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
