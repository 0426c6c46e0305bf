//! Giving a token back (`POST /oauth/revoke`, RFC 7009).
//!
//! Either token of a pair ends the whole session: the access token could not be told apart from its sisters, and whoever
//! signs out means all of it. A token that is not ours, or opens nothing any more, is given back already.

use serde_json::json;
use service_api::{errors::Reason, ids::GrantId, oauth::AboutToken, token::PresentedToken};
use service_rules::clients;

use crate::{
    app::App,
    failure::Failure,
    flows::{Asker, authenticate, clients::PresentedClient, end_access::EndingTransaction},
    refresh_token::UnverifiedToken,
    store,
};

#[derive(Debug)]
pub enum Refusal {
    Client(clients::Refusal),
    Unusable(&'static str),
    /// The token was issued to another client.
    OtherClient,
}

pub async fn revoke(
    app: &App,
    asker: &Asker,
    client: &PresentedClient,
    about: &AboutToken,
) -> Result<(), Failure<Refusal>> {
    let now = app.clock.now();
    let refuse = |why| Failure::Refused(why);
    let token = about.token.as_ref().ok_or(refuse(Refusal::Unusable("token is missing")))?;
    let client_id = client.id.as_deref().ok_or(refuse(Refusal::Unusable("client_id is missing")))?;
    let db = app.database.connect().await?;
    let found = store::clients::find(&db, client_id).await?;
    clients::authenticate(found.as_ref(), client.digest().as_ref()).map_err(|why| refuse(Refusal::Client(why)))?;
    drop(db);

    let Some(id) = grant_of(app, token).await? else { return Ok(()) };
    let mut transaction = EndingTransaction::begin(app, now).await?;
    let Some(grant) = store::grants::find(transaction.db(), id).await? else { return Ok(()) };
    if grant.client.id != client_id {
        return Err(refuse(Refusal::OtherClient));
    }
    if transaction.end_grant(id, Reason::RevokedByUser).await? {
        let mut event = asker.event("session.ended", now, json!({ "by": "its token" }))?;
        event.user_id = Some(grant.user_id);
        event.client_id = Some(&grant.client.id);
        event.workspace_id = grant.workspace_id;
        event.subject = Some(id.to_string());
        store::audit_events::insert(transaction.db(), &event).await?;
        transaction.commit().await?;
    }
    Ok(())
}

/// The grant that a genuine token belongs to.
async fn grant_of(app: &App, token: &PresentedToken) -> anyhow::Result<Option<GrantId>> {
    let Some(refresh_token) = UnverifiedToken::read(token) else {
        return match authenticate::genuine(app, token.expose()).await {
            Ok(verified) if !verified.claims.has_expired(app.clock.now()) => Ok(Some(verified.claims.grant)),
            Ok(_) | Err(Failure::Refused(_)) => Ok(None),
            Err(Failure::Broken(broken)) => Err(broken),
        };
    };
    let db = app.database.connect().await?;
    let grant = store::grants::find(&db, refresh_token.grant_id).await?;
    let genuine = grant.filter(|grant| refresh_token.is_genuine(&app.vault, &grant.salt) == Some(true));
    Ok(genuine.map(|grant| grant.id))
}
