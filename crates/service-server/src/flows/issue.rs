//! Issuing tokens: the last step of every way to sign in.
//!
//! A sign-in is one row, the grant. The access token is signed and not stored; the refresh token is derived from the
//! grant's salt under a key that is not in the database, and not stored either.

use serde_json::json;
use service_api::{
    ids::{AccessTokenId, GrantId, Id as _, UserId, WorkspaceId},
    oauth::{SERVICE_CLI, TokenResponse, TokenType},
    scope::Scopes,
    token::RefreshToken,
};
use service_rules::{Timestamp, bearer::Claims, lifetimes, signing::later};

use crate::{
    app::App,
    database::Connection,
    flows::Asker,
    mint,
    store::{
        self,
        grants::{FIRST_GENERATION, NewGrant},
    },
    vault::{Purpose, Vault},
};

/// Who signed in, with what, and for what.
pub struct SignIn<'a> {
    pub user_id: UserId,
    pub client_id: &'a str,
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub method: &'static str,
}

/// Opens a grant and issues its first pair of tokens.
pub async fn sign_in(
    app: &App,
    db: &Connection,
    asker: &Asker,
    sign_in: &SignIn<'_>,
    now: Timestamp,
) -> anyhow::Result<TokenResponse> {
    let absolute =
        if sign_in.client_id == SERVICE_CLI { lifetimes::REFRESH_ABSOLUTE_CLI } else { lifetimes::REFRESH_ABSOLUTE };
    let grant = NewGrant {
        id: mint::id(now)?,
        user_id: sign_in.user_id,
        client_id: sign_in.client_id,
        scopes: sign_in.scopes,
        workspace_id: sign_in.workspace_id,
        audience: &app.audience,
        salt: mint::bytes()?,
        created_at: now,
        created_from: asker.address.to_string(),
        expires_at: later(now, absolute),
    };
    store::grants::insert(db, &grant).await?;
    let mut event = asker.event("sign_in.succeeded", now, json!({ "method": sign_in.method }))?;
    event.user_id = Some(sign_in.user_id);
    event.client_id = Some(sign_in.client_id);
    event.workspace_id = sign_in.workspace_id;
    event.subject = Some(grant.id.to_string());
    store::audit_events::insert(db, &event).await?;
    pair(app, &grant, FIRST_GENERATION, now)
}

fn pair(app: &App, grant: &NewGrant<'_>, generation: i32, now: Timestamp) -> anyhow::Result<TokenResponse> {
    let claims = Claims {
        iss: app.config.base_url.clone(),
        sub: grant.user_id,
        aud: grant.audience.to_owned(),
        exp: now.as_second() + lifetimes::ACCESS_TOKEN,
        iat: now.as_second(),
        jti: mint::id::<AccessTokenId>(now)?,
        client_id: grant.client_id.to_owned(),
        scope: grant.scopes.to_string(),
        grant: grant.id,
        workspace: grant.workspace_id,
        nbf: None,
    };
    Ok(TokenResponse {
        access_token: app.signing_keys.sign(&claims, now)?,
        token_type: TokenType::Bearer,
        expires_in: lifetimes::ACCESS_TOKEN,
        refresh_token: refresh_token(&app.vault, grant.id, &grant.salt, generation),
        scope: grant.scopes.to_string(),
        workspace_id: grant.workspace_id,
    })
}

/// Grant id, key version, generation and their MAC: any token ever issued can be recomputed, at no storage.
fn refresh_token(vault: &Vault, grant: GrantId, salt: &[u8], generation: i32) -> RefreshToken {
    let id = *grant.uuid().as_bytes();
    let generation = generation.to_be_bytes();
    let mac = vault.mac(Purpose::RefreshToken, &[salt, &id, &generation]);
    RefreshToken::from_body(&[&id[..], &[mac.key_id], &generation, &mac.bytes].concat())
}
