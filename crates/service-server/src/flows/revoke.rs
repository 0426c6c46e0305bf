//! Giving a token back (`POST /oauth/revoke`, RFC 7009).
//!
//! Either token of a pair ends the whole session: the access token could not be told apart from its sisters, and whoever
//! signs out means all of it. A token that is not ours, or opens nothing any more, is given back already.

use std::sync::Arc;

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    oauth::AboutToken,
    token::{CliToken, PresentedToken},
};
use service_rules::{
    Timestamp, bearer, clients,
    rotation::{self, Presented, Verdict},
};

use crate::{
    app::App,
    failure::Failure,
    flows::{
        Asker, authenticate, clients::PresentedClient, end_access::EndingTransaction, prove_client, refresh,
        replay::Replay,
    },
    refresh_token::UnverifiedToken,
    store::{self, grants::StoredGrant},
    verified_tokens::Verified,
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
    drop(db);
    let proof = prove_client::prove(app, asker, found.as_ref(), client)
        .await
        .map_err(|failure| failure.map(Refusal::Client))?;
    clients::authenticate(found.as_ref(), &proof).map_err(|why| refuse(Refusal::Client(why)))?;

    if let Some(token) = CliToken::parse(token.expose()) {
        return revoke_cli_token(app, asker, client_id, &token, now).await;
    }
    let Some(Given { grant, generation }) = find(app, token, now).await? else { return Ok(()) };
    if grant.client.id != client_id {
        return Err(refuse(Refusal::OtherClient));
    }
    if let Some(presented) = generation {
        let shown =
            Presented { genuine: true, generation: presented, client_id: Some(client_id), address: asker.address };
        // An old token tells here what it tells anywhere.
        if let Verdict::Revoke(reason) = rotation::judge(&shown, &refresh::facts(app, &grant)?, now) {
            Replay { grant: &grant, presented, reason }.end(app, asker, now).await?;
            return Ok(());
        }
    }
    let mut transaction = EndingTransaction::begin(app, now).await?;
    if transaction.end_grant(grant.id, Reason::RevokedByUser).await? {
        let mut event = asker.event(EventName::SessionEnded, now, json!({ "by": "its token" }))?;
        event.user_id = Some(grant.user_id);
        event.client_id = Some(&grant.client.id);
        event.workspace_id = grant.workspace_id;
        event.subject = Some(grant.id.to_string());
        store::audit_events::insert(transaction.db(), &event).await?;
    }
    Ok(transaction.commit().await?)
}

async fn revoke_cli_token(
    app: &App,
    asker: &Asker,
    client_id: &str,
    token: &CliToken,
    now: Timestamp,
) -> Result<(), Failure<Refusal>> {
    let Some(stored) = authenticate::genuine_cli_token(app, token).await? else { return Ok(()) };
    if stored.client_id != client_id {
        return Err(Failure::Refused(Refusal::OtherClient));
    }
    let mut transaction = EndingTransaction::begin(app, now).await?;
    if transaction.end_cli_token(stored.id, Reason::RevokedByUser).await? {
        let mut event = asker.event(EventName::CliTokenRevoked, now, json!({ "itself": true }))?;
        event.user_id = Some(stored.user_id);
        event.workspace_id = stored.found.workspace_id;
        event.subject = Some(stored.id.to_string());
        store::audit_events::insert(transaction.db(), &event).await?;
    }
    Ok(transaction.commit().await?)
}

/// A genuine token that was given back.
pub struct Given {
    pub grant: StoredGrant,
    /// The number of a refresh token.
    pub generation: Option<i32>,
}

/// The session of a genuine token: a refresh token, or an access token that has not expired.
pub async fn find(app: &App, token: &PresentedToken, now: Timestamp) -> anyhow::Result<Option<Given>> {
    if let Some(token) = UnverifiedToken::read_any(token) {
        let db = app.database.connect().await?;
        let Some(grant) = store::grants::find(&db, token.grant_id).await? else { return Ok(None) };
        let genuine = refresh::is_genuine(app, &token, &grant, now)?;
        return Ok(genuine.then_some(Given { grant, generation: Some(token.generation) }));
    }
    let Some(verified) = live(app, token.expose(), now).await? else { return Ok(None) };
    let db = app.database.connect().await?;
    let grant = store::grants::find(&db, verified.claims.grant).await?;
    let own = grant.filter(|grant| grant.user_id == verified.claims.sub);
    Ok(own.map(|grant| Given { grant, generation: None }))
}

/// An access token that was signed by a key that is still trusted, and has not expired.
async fn live(app: &App, token: &str, now: Timestamp) -> anyhow::Result<Option<Arc<Verified>>> {
    let verified = match authenticate::genuine(app, token).await {
        Ok(verified) => verified,
        Err(Failure::Refused(_)) => return Ok(None),
        Err(Failure::Broken(broken)) => return Err(broken),
    };
    let trusted = match app.revocations.judge(&verified.claims, &verified.key_id) {
        // Whose session has ended may ask again whether it has.
        Ok(()) | Err(Failure::Refused(bearer::Refusal::Ended(_))) => app.signing_keys.accept(&verified.key_id, now)?,
        Err(Failure::Refused(_)) => false,
        Err(Failure::Broken(broken)) => return Err(broken),
    };
    Ok((trusted && !verified.claims.has_expired(now)).then_some(verified))
}
