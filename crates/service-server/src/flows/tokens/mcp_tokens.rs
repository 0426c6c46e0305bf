//! MCP token pairs (`/v1/mcp/tokens`): a session of its own, for the client `service-mcp` and the audience of MCP.
//!
//! A user who is signed in with a first-party client creates it, with no more scopes or time than that session has. It is
//! refreshed like any other session, at its own endpoint: by a caller with its refresh token and a token of its user.

use std::sync::Arc;

use service_api::{
    audit_events::EventName,
    ids::Id as _,
    mcp_tokens::{CreateMcpTokens, McpTokens},
    oauth::{SERVICE_CLI, SERVICE_MCP, SERVICE_WEB, TokenRequest},
    scope::{self, TwoSpellings},
    token::{McpRefresh, PresentedToken},
};
use service_rules::{
    Timestamp,
    bearer::{self, BearerError},
    cli_tokens::FieldError,
    credential::check_covers,
    lifetimes,
    limits::Limited,
    scopes::{self, UnknownScopes},
    signing::later,
    space::{self, Right, SpaceError},
};

use crate::{
    app::App,
    crypto::random,
    database::{self, Connection},
    flows::{
        Actor, RequestMeta,
        authenticate::{self, AuthenticateError},
        clients::client_auth::PresentedClient,
        oauth::{
            issue,
            refresh_grant::{self, Bearer},
            token_error::TokenError,
        },
        sign_in::step_up::{self, RecentSignIn},
    },
    mail::Email,
    store,
};

/// The first-party clients that users sign in with, and that can create MCP tokens.
const CREATING_CLIENTS: [&str; 2] = [SERVICE_WEB, SERVICE_CLI];

/// Why no MCP tokens are created.
#[derive(Debug, thiserror::Error)]
pub enum McpTokenError {
    #[error("the client is not a first-party client")]
    NotFirstParty,
    #[error("scope and scopes differ")]
    ScopesDiffer,
    #[error(transparent)]
    UnknownScopes(#[from] UnknownScopes),
    /// The credential of the request does not allow it.
    #[error(transparent)]
    Bearer(#[from] BearerError),
    #[error(transparent)]
    InvalidField(#[from] FieldError),
    #[error("a credential cannot be created for the workspace: {0}")]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

pub async fn create(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    request: &CreateMcpTokens,
) -> Result<McpTokens, McpTokenError> {
    let now = app.clock.now();
    if !CREATING_CLIENTS.contains(&actor.client_id) {
        return Err(McpTokenError::NotFirstParty);
    }
    let asked = scope::one_spelling(request.scope.as_deref(), request.scopes.as_deref());
    let asked = asked.map_err(|TwoSpellings| McpTokenError::ScopesDiffer)?;
    let asked = scopes::grant(asked.as_deref())?;
    check_covers(actor.scopes, asked)?;
    let workspace_id = actor.workspace(request.workspace_id.as_deref())?;
    let db = app.database.begin().await?;
    let user_id = actor.user_id;
    let held = actor.hold(&db, now).await?.ok_or(BearerError::Invalid)?;
    if let Some(id) = workspace_id {
        space::judge(store::memberships::find_role(&db, user_id, id).await?, Right::Read)?;
        step_up::passkey_rule(app, &db, user_id, id).await?.check()?;
    }
    if let Some(limited) = actor.count(app, &db, now).await? {
        return Err(limited.into());
    }
    let opening = issue::Opening {
        id: random::id_in(user_id.shard(), now)?,
        user_id,
        client_id: SERVICE_MCP,
        scopes: asked,
        workspace_id,
        audience: &app.mcp_audience,
        ends_at: later(now, lifetimes::REFRESH_ABSOLUTE_MCP).min(held.ends_at),
        event: EventName::McpTokensCreated,
        method: "session",
        auth_time: Some(held.auth_time),
        made_by: Some(held.made_by),
        sso: held.connection_id.map(|connection_id| issue::SsoSession { connection_id, until: None }),
    };
    let tokens = issue::open::<McpRefresh>(app, &db, actor.meta, &opening, now).await?;
    tell(app, &db, actor, &opening, now).await?;
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(McpTokens { tokens, client_id: SERVICE_MCP.to_owned() })
}

async fn tell(
    app: &App,
    db: &Connection,
    actor: &Actor<'_>,
    opening: &issue::Opening<'_>,
    now: Timestamp,
) -> anyhow::Result<()> {
    let user = store::users::find(db, actor.user_id).await?;
    let user = user.ok_or_else(|| anyhow::anyhow!("a token speaks for a user who does not exist"))?;
    let mail = Email::McpTokensCreated {
        to: user.email,
        scopes: opening.scopes.to_string(),
        made_at: now,
        made_from: actor.meta.address.to_string(),
        expires_at: opening.ends_at,
        language: actor.meta.language,
    };
    mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await
}

/// What a bearer token authenticates at the refresh endpoint: its user, or the session that it is part of.
///
/// A client that has nothing but its pair may have been idle for longer than its access token lives. Here that token counts
/// although it has expired, and although its signing key has retired: it only names the grant, and the refresh token
/// authenticates the client. An access token of a first-party client has to be valid, as at every other endpoint.
pub async fn authenticate_refresh(app: &App, token: &str) -> Result<Bearer, AuthenticateError> {
    let now = app.clock.now();
    let verified = match authenticate::verify_with_retired_key(app, token)? {
        Some(verified) => Arc::new(verified),
        None => authenticate::verify_access_token(app, token).await?,
    };
    let claims = &verified.claims;
    if claims.aud == app.mcp_audience {
        // The grant's own row is read before anything is issued.
        app.revocations.judge(claims, &verified.key_id)?;
        if !app.signing_keys.accept_or_recognize(&verified.key_id, now)? {
            return Err(BearerError::Invalid.into());
        }
        bearer::judge_origin(claims, &app.config.base_url, &app.mcp_audience, now)?;
        return Ok(Bearer::Session(claims.grant));
    }
    authenticate::judge_access_token(app, &verified, &app.audience, now).await?;
    if CREATING_CLIENTS.contains(&claims.client_id.as_str()) {
        Ok(Bearer::User(claims.sub))
    } else {
        Err(BearerError::Invalid.into())
    }
}

pub async fn refresh(
    app: &App,
    meta: &RequestMeta,
    bearer: Bearer,
    token: PresentedToken,
) -> Result<McpTokens, TokenError> {
    let client = PresentedClient { id: Some(SERVICE_MCP.to_owned()), ..PresentedClient::default() };
    let request = TokenRequest { refresh_token: Some(token), ..TokenRequest::default() };
    let tokens = refresh_grant::refresh::<McpRefresh>(app, meta, &client, &request, Some(bearer)).await?;
    Ok(McpTokens { tokens, client_id: SERVICE_MCP.to_owned() })
}
