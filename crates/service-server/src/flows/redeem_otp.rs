//! Trying a one-time code, whatever it is for.
//!
//! 1. Too many wrong codes from this network: nothing is tried.
//! 2. Count the try, in one guarded statement that also says whether the code may still be tried, and take a place in
//!    the address's budget of wrong codes. Commit: whatever happens from here on, the try stays counted.
//! 3. Compare, and judge.
//! 4. Right: spend the code, give the place back, make the account if this is its first sign-in, and go on to what the
//!    code is for, all in one transaction. Wrong: count it against the network's and everybody's budget.
//!
//! When everybody's budget is used up, codes still work, but each can be tried only once: guessing then takes a mail for
//! every guess, and nobody can switch sign-in off for all.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{OtpId, UserId},
};
use service_rules::{
    Timestamp,
    email::Address,
    otp::{self, Tried, Typed, Verdict},
};
use subtle::ConstantTimeEq as _;

use crate::{
    app::App,
    database::{Connection, Error},
    failure::Failure,
    flows::{
        Asker, invitations,
        limit::{Limit, network_of},
        request_otp::CodeFor,
    },
    mint,
    store::{self, otps::CountedTry},
    vault::Purpose,
};

/// Everybody's wrong codes together.
const EVERYBODY: Limit<'static> = Limit { policy: "otp-failures", whom: b"" };

/// What happens once somebody has proved by a code who they are.
pub(super) trait SignIn {
    type Output;
    type Refusal: From<otp::Refusal>;

    /// Refuses before the code is spent.
    async fn allows(&self, db: &Connection, user_id: Option<UserId>) -> Result<Result<(), Self::Refusal>, Error>;

    async fn open(&mut self, db: &Connection, user_id: UserId) -> anyhow::Result<Self::Output>;
}

/// A code that somebody typed, and whom it must have been sent for.
pub(super) struct Attempt<'a> {
    pub(super) app: &'a App,
    pub(super) asker: &'a Asker,
    pub(super) client_id: &'a str,
    pub(super) otp_id: OtpId,
    pub(super) code: Typed,
    pub(super) now: Timestamp,
}

impl Attempt<'_> {
    pub(super) async fn redeem<S: SignIn>(&self, sign_in: &mut S) -> Result<S::Output, Failure<S::Refusal>> {
        let refuse = |why: otp::Refusal| Failure::Refused(why.into());
        let (app, now) = (self.app, self.now);
        let network = network_of(self.asker.address);
        let per_network = Limit { policy: "otp-failures-network", whom: network.as_bytes() };
        let db = app.database.connect().await?;
        let rate = app.config.limits.otp_failures_per_network;
        if let Some(limited) = per_network.is_exhausted(app, &db, rate, now).await? {
            return Err(refuse(otp::Refusal::Limited(limited)));
        }
        let everybody = EVERYBODY.is_exhausted(app, &db, app.config.limits.otp_failures, now).await?;
        drop(db);

        let counted = self.count().await?.map_err(refuse)?;
        if let Some(limited) = everybody.filter(|_| counted.number > 1) {
            return Err(refuse(otp::Refusal::Limited(limited)));
        }
        self.try_code(&counted, &per_network, sign_in).await?.map_err(Failure::Refused)
    }

    /// Counts the try and takes a place among the address's wrong codes, for good.
    async fn count(&self) -> Result<Result<CountedTry, otp::Refusal>, Error> {
        let db = self.app.database.begin().await?;
        let Some(counted) = store::otps::count_try(&db, self.otp_id, self.client_id, self.now).await? else {
            return Ok(Err(otp::Refusal::NotAccepted));
        };
        let windows = &self.app.config.limits.otp_failures_per_address;
        let limited = budget(&counted).take_in_windows(self.app, &db, windows, self.now).await?;
        db.commit().await?;
        Ok(limited.map_or(Ok(counted), |limited| Err(otp::Refusal::Limited(limited))))
    }

    async fn try_code<S: SignIn>(
        &self,
        counted: &CountedTry,
        per_network: &Limit<'_>,
        sign_in: &mut S,
    ) -> anyhow::Result<Result<S::Output, S::Refusal>> {
        let address = Address::parse(&counted.address).map_err(|_| anyhow::anyhow!("otps.address holds no address"))?;
        let db = self.app.database.begin().await?;
        let account = store::emails::find_user(&db, &address).await?;
        let user_disabled = account.as_ref().is_some_and(|account| account.disabled);
        let user_id = account.map(|account| account.user_id);
        let outcome = match otp::judge(Tried { matches: self.matches(counted)?, user_disabled }) {
            Verdict::SignIn => {
                budget(counted).give_back(self.app, &db, self.now).await?;
                self.spend(&db, &address, user_id, sign_in).await?
            }
            Verdict::Refuse(why) => {
                let limits = &self.app.config.limits;
                per_network.take_at_rate(self.app, &db, limits.otp_failures_per_network, self.now).await?;
                EVERYBODY.take_at_rate(self.app, &db, limits.otp_failures, self.now).await?;
                let mut event = self.asker.event(EventName::OtpFailed, self.now, json!({ "otpId": self.otp_id }))?;
                event.client_id = Some(self.client_id);
                event.user_id = user_id;
                store::audit_events::insert(&db, &event).await?;
                Err(why.into())
            }
        };
        db.commit().await?;
        Ok(outcome)
    }

    fn matches(&self, counted: &CountedTry) -> Result<bool, Error> {
        let meant = CodeFor { otp_id: self.otp_id, address: &counted.address, client_id: &counted.client_id };
        let parts = meant.parts(self.code.as_bytes());
        let parts = parts.each_ref().map(Vec::as_slice);
        let typed = self.app.vault.mac_under(counted.mac_key, Purpose::OtpCode, &parts);
        // Not a wrong code: this node lacks a root key that another has.
        let typed =
            typed.ok_or_else(|| Error::Unavailable(format!("root key {} is not configured", counted.mac_key)))?;
        Ok(typed.ct_eq(&counted.mac).into())
    }

    async fn spend<S: SignIn>(
        &self,
        db: &Connection,
        address: &Address,
        user_id: Option<UserId>,
        sign_in: &mut S,
    ) -> anyhow::Result<Result<S::Output, S::Refusal>> {
        if let Err(refusal) = sign_in.allows(db, user_id).await? {
            return Ok(Err(refusal));
        }
        if let Some(user_id) = user_id
            && !store::users::lock_enabled(db, user_id).await?
        {
            return Ok(Err(otp::Refusal::NotAccepted.into()));
        }
        // Of several who typed the right code at once, one goes on.
        if !store::otps::mark_consumed(db, self.otp_id, self.now).await? {
            return Ok(Err(otp::Refusal::NotAccepted.into()));
        }
        let user_id = match user_id {
            Some(user_id) => user_id,
            None => self.make_account(db, address).await?,
        };
        invitations::accept(db, self.asker, address, user_id, self.now).await?;
        Ok(Ok(sign_in.open(db, user_id).await?))
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
