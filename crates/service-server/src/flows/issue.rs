//! Issuing tokens: the last step of every way to sign in, and of every refresh.
//!
//! A sign-in is one row, the grant. The access token is signed and not stored; the refresh token is derived from the
//! grant's salt under a key that is not in the database, and not stored either.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{AccessTokenId, GrantId, UserId, WorkspaceId},
    oauth::{SERVICE_CLI, TokenResponse, TokenType},
    scope::Scopes,
    token::{Token, TokenKind},
};
use service_rules::{Timestamp, bearer::Claims, lifetimes, signing::later};

use crate::{
    app::App,
    database::{Connection, Error},
    failure::Failure,
    flows::Asker,
    mint, refresh_token,
    store::{
        self,
        grants::{FIRST_GENERATION, NewGrant},
    },
};

/// A grant that is to be opened: for whom, for what, until when, and how that came about.
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
}

/// When a sign-in with this client ends, however often it is refreshed.
#[must_use]
pub fn end_of_sign_in(app: &App, client_id: &str, audience: &str, now: Timestamp) -> Timestamp {
    let life = if client_id == SERVICE_CLI {
        lifetimes::REFRESH_ABSOLUTE_CLI
    } else if audience == app.mcp_audience {
        lifetimes::REFRESH_ABSOLUTE_MCP
    } else {
        lifetimes::REFRESH_ABSOLUTE
    };
    later(now, life)
}

/// Opens a grant and issues its first pair of tokens.
pub async fn open<K: TokenKind>(
    app: &App,
    db: &Connection,
    asker: &Asker,
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
        salt: mint::bytes()?,
        issued_key: app.vault.key_in_use(),
        created_at: now,
        created_from: asker.address.to_string(),
        expires_at: opening.ends_at,
    };
    store::grants::insert(db, &grant).await?;
    let mut event = asker.event(opening.event, now, json!({ "method": opening.method }))?;
    event.user_id = Some(opening.user_id);
    event.client_id = Some(opening.client_id);
    event.workspace_id = opening.workspace_id;
    event.subject = Some(grant.id.to_string());
    store::audit_events::insert(db, &event).await?;
    let lineage = Lineage { grant_id: grant.id, salt: &grant.salt };
    let access = Access {
        grant_id: grant.id,
        user_id: grant.user_id,
        client_id: grant.client_id,
        scopes: grant.scopes,
        workspace_id: grant.workspace_id,
        audience: grant.audience,
        ends_at: grant.expires_at,
    };
    pair(app, &access, lineage.token(app, grant.issued_key, FIRST_GENERATION)?, now)
}

/// What an access token says.
pub struct Access<'a> {
    pub grant_id: GrantId,
    pub user_id: UserId,
    pub client_id: &'a str,
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    pub audience: &'a str,
    /// When the grant ends, and with it its last token.
    pub ends_at: Timestamp,
}

pub fn pair<K: TokenKind>(
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
        jti: mint::id::<AccessTokenId>(now)?,
        client_id: access.client_id.to_owned(),
        scope: access.scopes.to_string(),
        grant: access.grant_id,
        workspace: access.workspace_id,
        nbf: None,
    };
    // Half a minute after everything was ended, or this user was disabled, a token would be dead before it is used.
    match app.revocations.judge(&claims, &app.signing_keys.signer(now)?) {
        Ok(()) => {}
        Err(Failure::Broken(broken)) => return Err(broken),
        Err(Failure::Refused(_)) => {
            return Err(Error::Unavailable("what would be issued has been ended a moment ago".into()).into());
        }
    }
    Ok(TokenResponse {
        access_token: app.signing_keys.sign(&claims, now)?,
        token_type: TokenType::Bearer,
        expires_in: life,
        refresh_token,
        scope: access.scopes.to_string(),
        workspace_id: access.workspace_id,
    })
}

/// What all refresh tokens of a grant are derived from.
pub struct Lineage<'a> {
    pub grant_id: GrantId,
    pub salt: &'a [u8],
}

impl Lineage<'_> {
    /// The token of this number, under this root key.
    pub fn token<K: TokenKind>(&self, app: &App, key_id: u8, generation: i32) -> Result<Token<K>, Error> {
        refresh_token::derive(&app.vault, key_id, self.grant_id, self.salt, generation)
            .ok_or_else(|| Error::Unavailable(format!("root key {key_id} is not configured")))
    }
}
