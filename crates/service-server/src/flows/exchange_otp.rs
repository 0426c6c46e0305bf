//! Exchanging a one-time code for tokens: the OTP grant of `POST /oauth/token`.
//!
//! 1. The client must be one of ours that may do this, and what it asks for must exist.
//! 2. Count the try, in one guarded statement that also says whether the code may still be tried.
//! 3. Take a place in the address's budget of wrong codes, before anything is compared.
//! 4. Compare, and judge.
//! 5. Right: spend the code, give the place back, make the account if this is its first sign-in, and issue tokens.
//!    Wrong: count it against everybody's budget.
//! 6. Commit in every case: a counted try stays counted although the caller gets an error.

use serde_json::json;
use service_api::{
    ids::{OtpId, UserId, WorkspaceId},
    oauth::{SERVICE_CLI, TokenRequest, TokenResponse},
    scope::Scopes,
};
use service_rules::{
    Timestamp,
    clients::{self, Client, GrantType},
    email::Address,
    limits::Limited,
    otp::{self, Tried, Typed, Verdict},
    scopes,
};
use subtle::ConstantTimeEq as _;

use crate::{
    app::App,
    database::{Connection, Error},
    failure::Failure,
    flows::{Asker, issue, limit::Limit},
    mint,
    store::{self, otps::CountedTry},
    vault::Purpose,
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

/// Everybody's wrong codes together.
const EVERYBODY: Limit<'static> = Limit { policy: "otp-failures", whom: b"" };

pub async fn exchange_otp(app: &App, asker: &Asker, request: &TokenRequest) -> Result<TokenResponse, Failure<Refusal>> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    let client = store::clients::find(&db, request.client_id.as_deref().unwrap_or(SERVICE_CLI)).await?;
    let client = clients::judge(client.as_ref(), request.client_secret.is_some(), GrantType::Otp)
        .map_err(|refusal| Failure::Refused(Refusal::Client(refusal)))?;
    let asked = Asked::read(app, request).map_err(Failure::Refused)?;
    let exchange = Exchange { app, db: &db, asker, client, asked, now };

    let Some(counted) = store::otps::count_try(&db, exchange.asked.otp_id, &client.id, now).await? else {
        return Err(Failure::Refused(Refusal::Code(otp::Refusal::NotAccepted)));
    };
    let outcome = match exchange.take_budget(&counted).await? {
        Some(limited) => Err(Refusal::Code(otp::Refusal::Limited(limited))),
        None => exchange.try_code(&counted).await?,
    };
    db.commit().await?;
    outcome.map_err(Failure::Refused)
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

/// One exchange, within its transaction.
struct Exchange<'a> {
    app: &'a App,
    db: &'a Connection,
    asker: &'a Asker,
    client: &'a Client,
    asked: Asked,
    now: Timestamp,
}

impl Exchange<'_> {
    /// Takes a place among the address's wrong codes; `Some`: there is none, or everybody's are used up.
    async fn take_budget(&self, counted: &CountedTry) -> Result<Option<Limited>, Error> {
        let limits = &self.app.config.limits;
        let taken =
            budget(counted).take_in_windows(self.app, self.db, &limits.otp_failures_per_address, self.now).await?;
        match taken {
            Some(limited) => Ok(Some(limited)),
            None => EVERYBODY.is_exhausted(self.app, self.db, limits.otp_failures, self.now).await,
        }
    }

    async fn try_code(&self, counted: &CountedTry) -> anyhow::Result<Result<TokenResponse, Refusal>> {
        let address = Address::parse(&counted.address).map_err(|_| anyhow::anyhow!("otps.address holds no address"))?;
        let account = store::emails::find_user(self.db, &address).await?;
        let user_disabled = account.as_ref().is_some_and(|account| account.disabled);
        match otp::judge(Tried { matches: self.matches(counted), user_disabled }) {
            Verdict::SignIn => {
                budget(counted).give_back(self.app, self.db, self.now).await?;
                self.sign_in(&address, account.map(|account| account.user_id)).await
            }
            Verdict::Refuse(why) => {
                let limits = &self.app.config.limits;
                EVERYBODY.take_at_rate(self.app, self.db, limits.otp_failures, self.now).await?;
                let mut event = self.asker.event("otp.failed", self.now, json!({ "otpId": self.asked.otp_id }))?;
                event.client_id = Some(&self.client.id);
                event.user_id = account.map(|account| account.user_id);
                store::audit_events::insert(self.db, &event).await?;
                Ok(Err(Refusal::Code(why)))
            }
        }
    }

    fn matches(&self, counted: &CountedTry) -> bool {
        let parts = [self.asked.otp_id.to_string().into_bytes(), self.asked.code.as_bytes().to_vec()];
        let typed = self.app.vault.mac_under(counted.mac_key, Purpose::OtpCode, &[&parts[0], &parts[1]]);
        typed.is_some_and(|typed| typed.ct_eq(&counted.mac).into())
    }

    async fn sign_in(
        &self,
        address: &Address,
        user_id: Option<UserId>,
    ) -> anyhow::Result<Result<TokenResponse, Refusal>> {
        if let Some(workspace_id) = self.asked.workspace_id {
            let role = match user_id {
                Some(user_id) => store::memberships::find_role(self.db, user_id, workspace_id).await?,
                None => None,
            };
            if role.is_none() {
                return Ok(Err(Refusal::Workspace));
            }
        }
        // The row is held since the try was counted; this is the second fence.
        if !store::otps::mark_consumed(self.db, self.asked.otp_id, self.now).await? {
            return Ok(Err(Refusal::Code(otp::Refusal::NotAccepted)));
        }
        let user_id = match user_id {
            Some(user_id) => user_id,
            None => self.make_account(address).await?,
        };
        let sign_in = issue::SignIn {
            user_id,
            client_id: &self.client.id,
            scopes: self.asked.scopes,
            workspace_id: self.asked.workspace_id,
            method: "otp",
        };
        Ok(Ok(issue::sign_in(self.app, self.db, self.asker, &sign_in, self.now).await?))
    }

    async fn make_account(&self, address: &Address) -> anyhow::Result<UserId> {
        let new: UserId = mint::id(self.now)?;
        let owner = store::emails::claim(self.db, address, new, self.now).await?;
        if owner == new {
            store::users::insert(self.db, new, address, self.now).await?;
            let mut event = self.asker.event("user.created", self.now, json!({}))?;
            event.user_id = Some(new);
            store::audit_events::insert(self.db, &event).await?;
        }
        Ok(owner)
    }
}

fn budget(counted: &CountedTry) -> Limit<'_> {
    Limit { policy: "otp-failures-address", whom: counted.address.as_bytes() }
}
