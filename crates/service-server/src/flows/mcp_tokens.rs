//! The pair of tokens for MCP (`/v1/mcp/tokens`): a session of its own, for the client `service-mcp` and another audience.
//!
//! Made by somebody who signed in with one of our own clients, with no more scopes or time than that session has. It is
//! refreshed like any other session, at its own door: by whoever holds its refresh token and speaks for its user.

use service_api::{
    audit_events::EventName,
    mcp_tokens::{CreateMcpTokens, McpTokens},
    oauth::{SERVICE_CLI, SERVICE_MCP, SERVICE_WEB, TokenRequest},
    token::{McpRefresh, PresentedToken},
};
use service_rules::{bearer, cli_tokens::Invalid, lifetimes, limits::Limited, scopes, signing::later};

use crate::{
    app::App,
    failure::Failure,
    flows::{
        Asker, authenticate,
        clients::PresentedClient,
        issue,
        maker::Maker,
        refresh::{self, Bearer},
    },
    mint, store,
};

/// Our own clients that people sign in with.
const MAKERS: [&str; 2] = [SERVICE_WEB, SERVICE_CLI];

#[derive(Debug)]
pub enum Refusal {
    /// The maker is not one of our own clients.
    NotOurs,
    Scope,
    Bearer(bearer::Refusal),
    Invalid(Invalid),
    Workspace,
    Limited(Limited),
}

pub async fn create(app: &App, maker: &Maker<'_>, request: &CreateMcpTokens) -> Result<McpTokens, Failure<Refusal>> {
    let now = app.clock.now();
    let refuse = |refusal| Failure::Refused(refusal);
    if !MAKERS.contains(&maker.client_id) {
        return Err(refuse(Refusal::NotOurs));
    }
    let asked = scopes::grant(request.scope.as_deref()).map_err(|_| refuse(Refusal::Scope))?;
    maker.check_covers(asked).map_err(|refusal| refuse(Refusal::Bearer(refusal)))?;
    let workspace_id = maker.workspace(request.workspace_id.as_deref());
    let workspace_id = workspace_id.map_err(|invalid| refuse(Refusal::Invalid(invalid)))?;
    let db = app.database.begin().await?;
    let user_id = maker.user_id;
    let ends_at = maker.hold(&db, now).await?.ok_or(refuse(Refusal::Bearer(bearer::Refusal::Invalid)))?;
    if let Some(id) = workspace_id
        && store::memberships::find_role(&db, user_id, id).await?.is_none()
    {
        return Err(refuse(Refusal::Workspace));
    }
    if let Some(limited) = maker.count(app, &db, now).await? {
        return Err(refuse(Refusal::Limited(limited)));
    }
    let opening = issue::Opening {
        id: mint::id(now)?,
        user_id,
        client_id: SERVICE_MCP,
        scopes: asked,
        workspace_id,
        audience: &app.mcp_audience,
        ends_at: later(now, lifetimes::REFRESH_ABSOLUTE_MCP).min(ends_at),
        event: EventName::McpTokensCreated,
        method: "session",
    };
    let tokens = issue::open::<McpRefresh>(app, &db, maker.asker, &opening, now).await?;
    db.commit().await?;
    Ok(McpTokens { tokens, client_id: SERVICE_MCP.to_owned() })
}

/// Whom a bearer token speaks for at the refresh door: its user, or the pair that it is part of.
pub async fn bearer(app: &App, token: &str) -> Result<Bearer, Failure<bearer::Refusal>> {
    let now = app.clock.now();
    let verified = authenticate::genuine(app, token).await?;
    let own = verified.claims.aud == app.mcp_audience;
    authenticate::judge(app, &verified, if own { &app.mcp_audience } else { &app.audience }, now)?;
    match (own, MAKERS.contains(&verified.claims.client_id.as_str())) {
        (true, _) => Ok(Bearer::Session(verified.claims.grant)),
        (false, true) => Ok(Bearer::User(verified.claims.sub)),
        (false, false) => Err(Failure::Refused(bearer::Refusal::Invalid)),
    }
}

pub async fn refresh(
    app: &App,
    asker: &Asker,
    bearer: Bearer,
    token: PresentedToken,
) -> Result<McpTokens, Failure<refresh::Refusal>> {
    let client = PresentedClient { id: Some(SERVICE_MCP.to_owned()), ..PresentedClient::default() };
    let request = TokenRequest { refresh_token: Some(token), ..TokenRequest::default() };
    let tokens = refresh::refresh::<McpRefresh>(app, asker, &client, &request, Some(bearer)).await?;
    Ok(McpTokens { tokens, client_id: SERVICE_MCP.to_owned() })
}
