//! Issues tokens: the last step of every sign-in and of every refresh.
//!
//! A sign-in is one row, the grant. The access token is signed and not stored. The refresh token is derived from the
//! grant's salt under a key that is not in the database, and not stored either.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{AccessTokenId, ConnectionId, GrantId, UserId, WorkspaceId},
    oauth::{SERVICE_CLI, TokenResponse, TokenType},
    scope::Scopes,
    token::{Token, TokenKind},
};
use service_rules::{Timestamp, bearer::Claims, lifetimes, signing::later};

use crate::{
    app::App,
    crypto::random,
    database::{Connection, Error},
    flows::RequestMeta,
    store::{
        self,
        grants::{FIRST_GENERATION, NewGrant},
    },
    tokens::{refresh_token, revocations::RevocationCheckError},
};

/// A grant that is to be opened.
pub struct Opening<'a> {
    pub id: GrantId,
    pub user_id: UserId,
    pub client_id: &'a str,
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub audience: &'a str,
    pub ends_at: Timestamp,
    pub event: EventName,
    pub method: &'static str,
    /// When the user authenticated, if that is known.
    pub auth_time: Option<Timestamp>,
    /// The session that creates it. `None`: the user signs in.
    pub made_by: Option<String>,
    /// `None`: the user did not sign in through a connection.
    pub sso: Option<SsoSession>,
}

/// The single sign-on that a grant begins with.
#[derive(Clone, Copy, Debug)]
pub struct SsoSession {
    pub connection_id: ConnectionId,
    /// When an interactive session has to sign in again. `None`: the grant is no interactive session.
    pub until: Option<Timestamp>,
}

/// The longest lifetime of a session of this client in seconds, however often it is refreshed.
#[must_use]
pub fn session_life(app: &App, client_id: &str, audience: &str) -> i64 {
    if client_id == SERVICE_CLI {
        lifetimes::REFRESH_ABSOLUTE_CLI
    } else if audience == app.mcp_audience {
        lifetimes::REFRESH_ABSOLUTE_MCP
    } else {
        lifetimes::REFRESH_ABSOLUTE
    }
}

/// When a session of this client expires, unless the user chose an earlier end.
#[must_use]
pub fn session_expiry(app: &App, client_id: &str, audience: &str, now: Timestamp) -> Timestamp {
    later(now, session_life(app, client_id, audience))
}

/// Opens a grant and issues its first pair of tokens.
pub async fn open<K: TokenKind>(
    app: &App,
    db: &Connection,
    meta: &RequestMeta,
    opening: &Opening<'_>,
    now: Timestamp,
) -> anyhow::Result<TokenResponse<K>> {
    let grant = NewGrant {
        id: opening.id,
        user_id: opening.user_id,
        client_id: opening.client_id,
        scopes: opening.scopes,
        workspace_id: opening.workspace_id,
        audience: opening.audience,
        salt: random::bytes()?,
        issued_key: app.root_keys.key_in_use(),
        created_at: now,
        created_from: meta.address.to_string(),
        expires_at: opening.ends_at,
        auth_time: opening.auth_time,
        made_by: opening.made_by.clone(),
        connection_id: opening.sso.map(|sso| sso.connection_id),
        sso_until: opening.sso.and_then(|sso| sso.until),
    };
    store::grants::insert(db, &grant).await?;
    let mut details = json!({ "method": opening.method });
    if let Some(actor) = &opening.made_by {
        details["madeBy"] = actor.as_str().into();
    }
    let mut event = meta.event(opening.event, now, details)?;
    event.user_id = Some(opening.user_id);
    event.client_id = Some(opening.client_id);
    event.workspace_id = opening.workspace_id;
    event.subject = Some(grant.id.to_string());
    store::audit_events::insert(db, &event).await?;
    let seed = RefreshSeed { grant_id: grant.id, salt: &grant.salt };
    let access = Access {
        grant_id: grant.id,
        user_id: grant.user_id,
        client_id: grant.client_id,
        scopes: grant.scopes,
        workspace_id: grant.workspace_id,
        audience: grant.audience,
        ends_at: grant.sso_until.map_or(grant.expires_at, |until| until.min(grant.expires_at)),
    };
    sign_pair(app, &access, seed.derive(app, grant.issued_key, FIRST_GENERATION)?, now)
}

/// The claims of an access token that differ from grant to grant.
pub struct Access<'a> {
    pub grant_id: GrantId,
    pub user_id: UserId,
    pub client_id: &'a str,
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub audience: &'a str,
    /// When the grant expires or has to wait for another sign-in, and with it its last token.
    pub ends_at: Timestamp,
}

/// Signs an access token, and returns it with a refresh token.
pub fn sign_pair<K: TokenKind>(
    app: &App,
    access: &Access<'_>,
    refresh_token: Token<K>,
    now: Timestamp,
) -> anyhow::Result<TokenResponse<K>> {
    let usual = if access.audience == app.mcp_audience { lifetimes::ACCESS_TOKEN_MCP } else { lifetimes::ACCESS_TOKEN };
    let life = usual.min(access.ends_at.as_second() - now.as_second());
    let claims = Claims {
        iss: app.config.base_url.clone(),
        sub: access.user_id,
        aud: access.audience.to_owned(),
        exp: now.as_second() + life,
        iat: now.as_second(),
        jti: random::id::<AccessTokenId>(now)?,
        client_id: access.client_id.to_owned(),
        scope: access.scopes.to_string(),
        grant: access.grant_id,
        workspace: access.workspace_id,
        nbf: None,
    };
    // Within half a minute after all users or this user were revoked, the token would be revoked before its first use.
    match app.revocations.judge(&claims, &app.signing_keys.signer(now)?) {
        Ok(_) => {}
        Err(RevocationCheckError::Database(error)) => return Err(error.into()),
        Err(RevocationCheckError::Revoked(_)) => {
            return Err(Error::Unavailable("the new token would be revoked already".into()).into());
        }
    }
    Ok(TokenResponse {
        access_token: app.signing_keys.sign(&claims, now)?,
        token_type: TokenType::Bearer,
        expires_in: life,
        refresh_token,
        scope: access.scopes.to_string(),
        workspace_id: access.workspace_id,
        device: None,
    })
}

/// What all refresh tokens of a grant are derived from.
pub struct RefreshSeed<'a> {
    pub grant_id: GrantId,
    pub salt: &'a [u8],
}

impl RefreshSeed<'_> {
    /// Derives the token of this generation under this root key.
    pub fn derive<K: TokenKind>(&self, app: &App, key_id: u8, generation: i32) -> Result<Token<K>, Error> {
        refresh_token::derive(&app.root_keys, key_id, self.grant_id, self.salt, generation)
            .ok_or_else(|| Error::Unavailable(format!("root key {key_id} is not configured")))
    }
}
