//! The pair of tokens for MCP (`/v1/mcp/tokens`): a session of its own, for the client `service-mcp` and another audience.
//!
//! Made by somebody who signed in with one of our own clients, with no more scopes or time than that session has. It is
//! refreshed like any other session, at its own door: by whoever holds its refresh token and speaks for its user.

use service_api::{
    mcp_tokens::{CreateMcpTokens, McpTokens},
    oauth::{SERVICE_CLI, SERVICE_MCP, SERVICE_WEB, TokenRequest},
    token::{McpRefresh, PresentedToken},
};
use service_rules::{bearer, lifetimes, scopes, signing::later, space::Requested};

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
    store,
};

#[derive(Debug)]
pub enum Refusal {
    /// The maker is not one of our own clients.
    NotOurs,
    Scope,
    Bearer(bearer::Refusal),
    WorkspaceId,
    Workspace,
}

pub async fn create(app: &App, maker: &Maker<'_>, request: &CreateMcpTokens) -> Result<McpTokens, Failure<Refusal>> {
    let now = app.clock.now();
    let refuse = |refusal| Failure::Refused(refusal);
    if ![SERVICE_WEB, SERVICE_CLI].contains(&maker.credential.client_id.as_str()) {
        return Err(refuse(Refusal::NotOurs));
    }
    let asked = scopes::grant(request.scope.as_deref()).map_err(|_| refuse(Refusal::Scope))?;
    if let Some(beyond) = maker.credential.scopes.first_beyond(asked) {
        return Err(refuse(Refusal::Bearer(bearer::Refusal::LacksScope(beyond))));
    }
    let workspace_id = match Requested::parse(request.workspace_id.as_deref()) {
        None => return Err(refuse(Refusal::WorkspaceId)),
        Some(Requested::Nothing) => maker.credential.reach.workspace(),
        Some(Requested::Personal) => None,
        Some(Requested::Workspace(id)) => Some(id),
    };
    let db = app.database.begin().await?;
    let user_id = maker.credential.user_id;
    let ends_at = maker.hold(&db).await?.ok_or(refuse(Refusal::Bearer(bearer::Refusal::Invalid)))?;
    if let Some(id) = workspace_id
        && store::memberships::find_role(&db, user_id, id).await?.is_none()
    {
        return Err(refuse(Refusal::Workspace));
    }
    let opening = issue::Opening {
        user_id,
        client_id: SERVICE_MCP,
        scopes: asked,
        workspace_id,
        audience: &app.mcp_audience,
        ends_at: later(now, lifetimes::REFRESH_ABSOLUTE_MCP).min(ends_at),
        event: "mcp_tokens.created",
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
    app.revocations.judge(&verified.claims, &verified.key_id)?;
    if !app.signing_keys.accept(&verified.key_id, now)? {
        return Err(Failure::Refused(bearer::Refusal::Invalid));
    }
    let own = verified.claims.aud == app.mcp_audience;
    let audience = if own { &app.mcp_audience } else { &app.audience };
    bearer::judge(&verified.claims, &app.config.base_url, audience, now).map_err(Failure::Refused)?;
    let first_party = [SERVICE_WEB, SERVICE_CLI].contains(&verified.claims.client_id.as_str());
    match (own, first_party) {
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
    let client = PresentedClient { id: Some(SERVICE_MCP.to_owned()), secret: None };
    let request = TokenRequest { refresh_token: Some(token), ..TokenRequest::default() };
    let tokens = refresh::refresh::<McpRefresh>(app, asker, &client, &request, Some(bearer)).await?;
    Ok(McpTokens { tokens, client_id: SERVICE_MCP.to_owned() })
}
