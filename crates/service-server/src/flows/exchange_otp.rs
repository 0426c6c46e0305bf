//! Exchanging a one-time code for tokens: the OTP grant of `POST /oauth/token`.
//!
//! 1. The client must be one of ours that may do this, and what it asks for must exist.
//! 2. Try the code (`redeem_otp.rs`).
//! 3. Right: issue tokens, in the transaction that spends the code.

use service_api::{
    audit_events::EventName,
    ids::{OtpId, UserId, WorkspaceId},
    oauth::{SERVICE_CLI, TokenRequest, TokenResponse},
    scope::Scopes,
};
use service_rules::{
    Timestamp,
    clients::{self, Client, GrantType},
    otp::{self, Typed},
    scopes,
};

use crate::{
    app::App,
    database::{Connection, Error},
    failure::Failure,
    flows::{
        Asker,
        clients::PresentedClient,
        issue,
        redeem_otp::{Attempt, SignIn},
    },
    mint, store,
};

#[derive(Debug)]
pub enum Refusal {
    Client(clients::Refusal),
    /// A parameter that this grant needs is missing or not of its form.
    Unusable(&'static str),
    Scope,
    Target,
    /// The code is right, but it asks for a workspace that this person is not in.
    Workspace,
    Code(otp::Refusal),
}

impl From<otp::Refusal> for Refusal {
    fn from(refusal: otp::Refusal) -> Self {
        Self::Code(refusal)
    }
}

pub async fn exchange_otp(
    app: &App,
    asker: &Asker,
    client: &PresentedClient,
    request: &TokenRequest,
) -> Result<TokenResponse, Failure<Refusal>> {
    let now = app.clock.now();
    app.revocations.check()?;
    let asked = Asked::read(app, request);
    let db = app.database.connect().await?;
    let found = store::clients::find(&db, client.id.as_deref().unwrap_or(SERVICE_CLI)).await?;
    drop(db);
    let client = clients::judge(found.as_ref(), &client.proof(), GrantType::Otp)
        .map_err(|refusal| Failure::Refused(Refusal::Client(refusal)))?;
    let asked = asked.map_err(Failure::Refused)?;
    let attempt = Attempt { app, asker, client_id: &client.id, otp_id: asked.otp_id, code: asked.code, now };
    let (scopes, workspace_id) = (asked.scopes, asked.workspace_id);
    attempt.redeem(&mut Tokens { app, asker, client, scopes, workspace_id, now }).await
}

/// What the request asks for, in usable form.
struct Asked {
    otp_id: OtpId,
    code: Typed,
    scopes: Scopes,
    workspace_id: Option<WorkspaceId>,
}

impl Asked {
    fn read(app: &App, request: &TokenRequest) -> Result<Self, Refusal> {
        let otp_id = request.otp_id.as_deref().ok_or(Refusal::Unusable("otp_id is missing"))?;
        let code = request.code.as_ref().ok_or(Refusal::Unusable("code is missing"))?;
        if request.resource.as_ref().is_some_and(|resource| *resource != app.audience) {
            return Err(Refusal::Target);
        }
        // An id or a code that is not of its form cannot be right: the same answer as a wrong one, and nothing to count.
        let not_accepted = || Refusal::Code(otp::Refusal::NotAccepted);
        let workspace_id = request.workspace_id.as_deref().map(str::parse).transpose();
        Ok(Self {
            otp_id: otp_id.parse().map_err(|_| not_accepted())?,
            code: Typed::fold(code.expose()).ok_or_else(not_accepted)?,
            scopes: scopes::grant(request.scope.as_deref()).map_err(|_| Refusal::Scope)?,
            workspace_id: workspace_id.map_err(|_| Refusal::Unusable("workspace_id is not a workspace id"))?,
        })
    }
}

/// The tokens that the code is for.
struct Tokens<'a> {
    app: &'a App,
    asker: &'a Asker,
    client: &'a Client,
    scopes: Scopes,
    workspace_id: Option<WorkspaceId>,
    now: Timestamp,
}

impl SignIn for Tokens<'_> {
    type Output = TokenResponse;
    type Refusal = Refusal;

    async fn allows(&self, db: &Connection, user_id: Option<UserId>) -> Result<Result<(), Refusal>, Error> {
        let Some(workspace_id) = self.workspace_id else { return Ok(Ok(())) };
        let role = match user_id {
            Some(user_id) => store::memberships::find_role(db, user_id, workspace_id).await?,
            None => None,
        };
        Ok(role.map(drop).ok_or(Refusal::Workspace))
    }

    async fn open(&mut self, db: &Connection, user_id: UserId) -> anyhow::Result<TokenResponse> {
        let opening = issue::Opening {
            id: mint::id(self.now)?,
            user_id,
            client_id: &self.client.id,
            scopes: self.scopes,
            workspace_id: self.workspace_id,
            audience: &self.app.audience,
            ends_at: issue::end_of_sign_in(self.app, &self.client.id, &self.app.audience, self.now),
            event: EventName::SignInSucceeded,
            method: "otp",
        };
        issue::open(self.app, db, self.asker, &opening, self.now).await
    }
}
