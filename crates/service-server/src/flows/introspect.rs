//! What a token is worth at this moment (`POST /oauth/introspect`, RFC 7662).
//!
//! Asked by services that cannot follow the revocations themselves. The answer is read from the database each time, so
//! it is true on every node at once; about a token that is worth nothing it says nothing, not even why.

use service_api::{
    oauth::{AboutToken, IntrospectedKind, IntrospectedToken, Introspection},
    token::CliToken,
};
use service_rules::{
    Timestamp, clients, lifetimes,
    rotation::{self, Presented, Verdict},
    signing::later,
};

use crate::{
    app::App,
    failure::Failure,
    flows::{Asker, authenticate, clients::PresentedClient, prove_client, refresh},
    refresh_token::UnverifiedToken,
    store::{self, grants::StoredGrant},
};

#[derive(Debug)]
pub enum Refusal {
    Client(clients::Refusal),
    Unusable(&'static str),
}

pub async fn introspect(
    app: &App,
    asker: &Asker,
    client: &PresentedClient,
    about: &AboutToken,
) -> Result<Introspection, Failure<Refusal>> {
    let now = app.clock.now();
    let db = app.database.connect().await?;
    let found = match &client.id {
        Some(id) => store::clients::find(&db, id).await?,
        None => None,
    };
    drop(db);
    let proof = prove_client::prove(app, asker, found.as_ref(), client)
        .await
        .map_err(|failure| failure.map(Refusal::Client))?;
    clients::judge_introspection(found.as_ref(), &proof)
        .map_err(|refusal| Failure::Refused(Refusal::Client(refusal)))?;
    let token = about.token.as_ref().ok_or(Failure::Refused(Refusal::Unusable("token is missing")))?;
    let token = match (UnverifiedToken::read_any(token), CliToken::parse(token.expose())) {
        (Some(token), _) => refresh_token(app, asker, &token, now).await?,
        (None, Some(token)) => cli_token(app, &token, now).await?,
        (None, None) => access_token(app, token.expose(), now).await?,
    };
    Ok(Introspection { active: token.is_some(), token })
}

async fn cli_token(app: &App, token: &CliToken, now: Timestamp) -> anyhow::Result<Option<IntrospectedToken>> {
    let credential = match authenticate::live_cli_token(app, token, now).await {
        Ok(credential) => credential,
        Err(Failure::Refused(_)) => return Ok(None),
        Err(Failure::Broken(broken)) => return Err(broken),
    };
    Ok(Some(IntrospectedToken {
        token_type: IntrospectedKind::Bearer,
        scope: credential.scopes.to_string(),
        client_id: credential.client_id.clone(),
        sub: credential.user_id,
        aud: app.audience.clone(),
        iss: app.config.base_url.clone(),
        iat: credential.created_at.as_second(),
        exp: credential.expires_at.as_second(),
        jti: None,
        workspace_id: credential.reach.workspace(),
    }))
}

async fn access_token(app: &App, text: &str, now: Timestamp) -> anyhow::Result<Option<IntrospectedToken>> {
    let judged = match authenticate::genuine(app, text).await {
        Ok(verified) => app.revocations.judge(&verified.claims, &verified.key_id).map(|()| verified),
        Err(refused) => Err(refused),
    };
    let verified = match judged {
        Ok(verified) => verified,
        Err(Failure::Refused(_)) => return Ok(None),
        Err(Failure::Broken(broken)) => return Err(broken),
    };
    let claims = &verified.claims;
    if claims.has_expired(now) || !app.signing_keys.accept(&verified.key_id, now)? {
        return Ok(None);
    }
    let Some(grant) = find_live(app, claims.grant).await? else { return Ok(None) };
    Ok(Some(IntrospectedToken {
        token_type: IntrospectedKind::Bearer,
        scope: claims.scope.clone(),
        client_id: grant.client.id,
        sub: claims.sub,
        aud: claims.aud.clone(),
        iss: claims.iss.clone(),
        iat: claims.iat,
        exp: claims.exp,
        jti: Some(claims.jti),
        workspace_id: claims.workspace,
    }))
}

async fn refresh_token(
    app: &App,
    asker: &Asker,
    token: &UnverifiedToken,
    now: Timestamp,
) -> anyhow::Result<Option<IntrospectedToken>> {
    let Some(grant) = find_live(app, token.grant_id).await? else { return Ok(None) };
    let presented = Presented {
        genuine: refresh::is_genuine(app, token, &grant, now)?,
        generation: token.generation,
        client_id: Some(&grant.client.id),
        address: asker.address,
    };
    if matches!(rotation::judge(&presented, &grant.facts, now), Verdict::Refuse(_) | Verdict::Revoke(_)) {
        return Ok(None);
    }
    let idle_at = later(grant.facts.rotated_at, lifetimes::REFRESH_IDLE);
    Ok(Some(IntrospectedToken {
        token_type: IntrospectedKind::RefreshToken,
        scope: grant.scopes.to_string(),
        client_id: grant.client.id,
        sub: grant.user_id,
        aud: grant.audience,
        iss: app.config.base_url.clone(),
        iat: grant.facts.rotated_at.as_second(),
        exp: grant.facts.expires_at.min(idle_at).as_second(),
        jti: None,
        workspace_id: grant.workspace_id,
    }))
}

/// A grant whose user, client and workspace all stand.
async fn find_live(app: &App, id: service_api::ids::GrantId) -> anyhow::Result<Option<StoredGrant>> {
    let db = app.database.connect().await?;
    let Some(mut grant) = store::grants::find(&db, id).await? else { return Ok(None) };
    grant.facts = refresh::facts(app, &grant)?;
    let stands = !grant.facts.user_disabled && !grant.facts.workspace_left && !grant.client.disabled;
    Ok((stands && grant.facts.ended.is_none()).then_some(grant))
}
