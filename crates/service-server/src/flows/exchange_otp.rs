//! Exchanging a one-time code for tokens: the OTP grant of `POST /oauth/token`.
//!
//! 1. The client must be one of ours that may do this, and what it asks for must exist.
//! 2. Too many wrong codes from this network: nothing is tried.
//! 3. Count the try, in one guarded statement that also says whether the code may still be tried, and take a place in
//!    the address's budget of wrong codes. Commit: whatever happens from here on, the try stays counted.
//! 4. Compare, and judge.
//! 5. Right: spend the code, give the place back, make the account if this is its first sign-in, and issue tokens.
//!    Wrong: count it against the network's and everybody's budget.
//!
//! When everybody's budget is used up, codes still work, but each can be tried only once: guessing then takes a mail for
//! every guess, and nobody can switch sign-in off for all.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{OtpId, UserId, WorkspaceId},
    oauth::{SERVICE_CLI, TokenRequest, TokenResponse},
    scope::Scopes,
};
use service_rules::{
    Timestamp,
    clients::{self, Client, GrantType},
    email::Address,
    otp::{self, Tried, Typed, Verdict},
    scopes,
};
use subtle::ConstantTimeEq as _;

use crate::{
    app::App,
    database::{Connection, Error},
    failure::Failure,
    flows::{
        Asker,
        clients::PresentedClient,
        issue,
        limit::{Limit, network_of},
        request_otp::CodeFor,
    },
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
    let client = clients::judge(found.as_ref(), client.digest().as_ref(), GrantType::Otp)
        .map_err(|refusal| Failure::Refused(Refusal::Client(refusal)))?;
    let exchange = Exchange { app, asker, client, asked: asked.map_err(Failure::Refused)?, now };
    let refuse = |why| Failure::Refused(Refusal::Code(why));

    let network = network_of(asker.address);
    let per_network = Limit { policy: "otp-failures-network", whom: network.as_bytes() };
    let rate = app.config.limits.otp_failures_per_network;
    if let Some(limited) = per_network.is_exhausted(app, &db, rate, now).await? {
        return Err(refuse(otp::Refusal::Limited(limited)));
    }
    let everybody = EVERYBODY.is_exhausted(app, &db, app.config.limits.otp_failures, now).await?;
    drop(db);

    let counted = exchange.count().await?.map_err(refuse)?;
    if let Some(limited) = everybody.filter(|_| counted.number > 1) {
        return Err(refuse(otp::Refusal::Limited(limited)));
    }
    exchange.try_code(&counted, &per_network).await?.map_err(Failure::Refused)
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

/// One exchange, by a client that may.
struct Exchange<'a> {
    app: &'a App,
    asker: &'a Asker,
    client: &'a Client,
    asked: Asked,
    now: Timestamp,
}

impl Exchange<'_> {
    /// Counts the try and takes a place among the address's wrong codes, for good.
    async fn count(&self) -> Result<Result<CountedTry, otp::Refusal>, Error> {
        let db = self.app.database.begin().await?;
        let Some(counted) = store::otps::count_try(&db, self.asked.otp_id, &self.client.id, self.now).await? else {
            return Ok(Err(otp::Refusal::NotAccepted));
        };
        let windows = &self.app.config.limits.otp_failures_per_address;
        let limited = budget(&counted).take_in_windows(self.app, &db, windows, self.now).await?;
        db.commit().await?;
        Ok(limited.map_or(Ok(counted), |limited| Err(otp::Refusal::Limited(limited))))
    }

    async fn try_code(
        &self,
        counted: &CountedTry,
        per_network: &Limit<'_>,
    ) -> anyhow::Result<Result<TokenResponse, Refusal>> {
        let address = Address::parse(&counted.address).map_err(|_| anyhow::anyhow!("otps.address holds no address"))?;
        let db = self.app.database.begin().await?;
        let account = store::emails::find_user(&db, &address).await?;
        let user_disabled = account.as_ref().is_some_and(|account| account.disabled);
        let user_id = account.map(|account| account.user_id);
        let outcome = match otp::judge(Tried { matches: self.matches(counted)?, user_disabled }) {
            Verdict::SignIn => {
                budget(counted).give_back(self.app, &db, self.now).await?;
                self.sign_in(&db, &address, user_id).await?
            }
            Verdict::Refuse(why) => {
                let limits = &self.app.config.limits;
                per_network.take_at_rate(self.app, &db, limits.otp_failures_per_network, self.now).await?;
                EVERYBODY.take_at_rate(self.app, &db, limits.otp_failures, self.now).await?;
                let mut event =
                    self.asker.event(EventName::OtpFailed, self.now, json!({ "otpId": self.asked.otp_id }))?;
                event.client_id = Some(&self.client.id);
                event.user_id = user_id;
                store::audit_events::insert(&db, &event).await?;
                Err(Refusal::Code(why))
            }
        };
        db.commit().await?;
        Ok(outcome)
    }

    fn matches(&self, counted: &CountedTry) -> Result<bool, Error> {
        let meant = CodeFor { otp_id: self.asked.otp_id, address: &counted.address, client_id: &counted.client_id };
        let parts = meant.parts(self.asked.code.as_bytes());
        let parts = parts.each_ref().map(Vec::as_slice);
        let typed = self.app.vault.mac_under(counted.mac_key, Purpose::OtpCode, &parts);
        // Not a wrong code: this node lacks a root key that another has.
        let typed =
            typed.ok_or_else(|| Error::Unavailable(format!("root key {} is not configured", counted.mac_key)))?;
        Ok(typed.ct_eq(&counted.mac).into())
    }

    async fn sign_in(
        &self,
        db: &Connection,
        address: &Address,
        user_id: Option<UserId>,
    ) -> anyhow::Result<Result<TokenResponse, Refusal>> {
        if let Some(workspace_id) = self.asked.workspace_id {
            let role = match user_id {
                Some(user_id) => store::memberships::find_role(db, user_id, workspace_id).await?,
                None => None,
            };
            if role.is_none() {
                return Ok(Err(Refusal::Workspace));
            }
        }
        if let Some(user_id) = user_id
            && !store::users::lock_enabled(db, user_id).await?
        {
            return Ok(Err(Refusal::Code(otp::Refusal::NotAccepted)));
        }
        // Of several who typed the right code at once, one goes on.
        if !store::otps::mark_consumed(db, self.asked.otp_id, self.now).await? {
            return Ok(Err(Refusal::Code(otp::Refusal::NotAccepted)));
        }
        let user_id = match user_id {
            Some(user_id) => user_id,
            None => self.make_account(db, address).await?,
        };
        let opening = issue::Opening {
            user_id,
            client_id: &self.client.id,
            scopes: self.asked.scopes,
            workspace_id: self.asked.workspace_id,
            audience: &self.app.audience,
            ends_at: issue::end_of_sign_in(&self.client.id, self.now),
            event: EventName::SignInSucceeded,
            method: "otp",
        };
        Ok(Ok(issue::open(self.app, db, self.asker, &opening, self.now).await?))
    }

    async fn make_account(&self, db: &Connection, address: &Address) -> anyhow::Result<UserId> {
        let new: UserId = mint::id(self.now)?;
        let owner = store::emails::claim(db, address, new, self.now).await?;
        if owner == new {
            store::users::insert(db, new, address, self.now).await?;
            let mut event = self.asker.event(EventName::UserCreated, self.now, json!({}))?;
            event.user_id = Some(new);
            store::audit_events::insert(db, &event).await?;
        }
        Ok(owner)
    }
}

fn budget(counted: &CountedTry) -> Limit<'_> {
    Limit { policy: "otp-failures-address", whom: counted.address.as_bytes() }
}
