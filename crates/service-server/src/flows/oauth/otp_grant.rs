//! Exchanges a one-time code for tokens: the OTP grant of `POST /oauth/token`.
//!
//! 1. The client must be a first-party client that may use this grant, and the request must be valid.
//! 2. Verify the code (`sign_in/verify_otp.rs`).
//! 3. Right: issue tokens, in the transaction that consumes the code.

use service_api::{
    audit_events::EventName,
    ids::{GrantId, Id as _, OtpId, UserId, WorkspaceId},
    oauth::{SERVICE_CLI, TokenRequest, TokenResponse},
    scope::Scopes,
};
use service_rules::{
    Timestamp,
    clients::{self, Client, GrantType},
    otp::{OtpError, Typed},
    scopes,
};

use crate::{
    app::App,
    crypto::random,
    database::{self, Connection},
    flows::{
        RequestMeta,
        clients::client_auth::PresentedClient,
        oauth::{
            issue,
            token_error::{InvalidTokenRequest, TokenError},
        },
        sign_in::{
            step_up,
            verify_otp::{Attempt, SignIn},
        },
    },
    mail::SignedInWith,
    store,
    telemetry::traces,
};

pub async fn exchange_otp(
    app: &App,
    meta: &RequestMeta,
    client: &PresentedClient,
    request: &TokenRequest,
) -> Result<TokenResponse, TokenError> {
    traces::name_flow("otp_grant");
    let now = app.clock.now();
    app.revocations.check()?;
    // The client's errors come first.
    let asked = OtpGrantRequest::read(app, request);
    let db = app.database.connect().await?;
    let found = store::clients::find(&db, client.id.as_deref().unwrap_or(SERVICE_CLI)).await?;
    drop(db);
    let client = clients::judge(found.as_ref(), &client.proof(), GrantType::Otp)?;
    let asked = asked?;
    let device = request.device.as_ref();
    let attempt = Attempt { app, meta, device, client_id: &client.id, otp_id: asked.otp_id, code: asked.code, now };
    let (scopes, workspace_id) = (asked.scopes, asked.workspace_id);
    let mut issue = IssueTokens { app, meta, client, scopes, workspace_id, now, opened: None };
    let redeemed = attempt.redeem(&mut issue).await?;
    Ok(TokenResponse { device: redeemed.new_device, ..redeemed.output })
}

/// The parameters of the request, parsed.
struct OtpGrantRequest {
    otp_id: OtpId,
    code: Typed,
    scopes: Scopes,
    workspace_id: Option<WorkspaceId>,
}

impl OtpGrantRequest {
    fn read(app: &App, request: &TokenRequest) -> Result<Self, TokenError> {
        let otp_id = request.otp_id.as_deref().ok_or(InvalidTokenRequest::MissingParameter("otp_id"))?;
        let code = request.code.as_ref().ok_or(InvalidTokenRequest::MissingParameter("code"))?;
        if request.resource.as_ref().is_some_and(|resource| *resource != app.audience) {
            return Err(TokenError::InvalidTarget { expected: app.audience.clone() });
        }
        // A malformed id or code cannot be right: the response is that of a wrong one, and no attempt is counted.
        let workspace_id = request.workspace_id.as_deref().map(str::parse).transpose();
        Ok(Self {
            otp_id: otp_id.parse().map_err(|_| OtpError::NotAccepted)?,
            code: Typed::fold(code.expose()).ok_or(OtpError::NotAccepted)?,
            scopes: scopes::grant(request.scope.as_deref())?,
            workspace_id: workspace_id.map_err(|_| InvalidTokenRequest::MalformedWorkspaceId)?,
        })
    }
}

/// Issues the tokens that the code is for.
struct IssueTokens<'a> {
    app: &'a App,
    meta: &'a RequestMeta,
    client: &'a Client,
    scopes: Scopes,
    workspace_id: Option<WorkspaceId>,
    now: Timestamp,
    /// The session that was opened.
    opened: Option<GrantId>,
}

impl SignIn for IssueTokens<'_> {
    type Output = TokenResponse;

    async fn admits(&self, db: &Connection, user_id: Option<UserId>) -> Result<bool, database::Error> {
        let Some(workspace_id) = self.workspace_id else { return Ok(true) };
        let Some(user_id) = user_id else { return Ok(false) };
        Ok(store::memberships::find_role(db, user_id, workspace_id).await?.is_some())
    }

    async fn open(&mut self, db: &Connection, user_id: UserId) -> anyhow::Result<TokenResponse> {
        let id = random::id_in(user_id.shard(), self.now)?;
        self.opened = Some(id);
        let opening = issue::Opening {
            id,
            user_id,
            client_id: &self.client.id,
            scopes: self.scopes,
            workspace_id: self.workspace_id,
            audience: &self.app.audience,
            ends_at: issue::session_expiry(self.app, &self.client.id, &self.app.audience, self.now),
            event: EventName::SignInSucceeded,
            method: "otp",
            auth_time: step_up::auth_time_of_code(self.app, db, user_id, self.now).await?,
            made_by: None,
            sso: None,
        };
        issue::open(self.app, db, self.meta, &opening, self.now).await
    }

    fn signed_in(&self) -> Option<(String, SignedInWith)> {
        Some((self.opened?.to_string(), SignedInWith::client(&self.client.id)))
    }
}
