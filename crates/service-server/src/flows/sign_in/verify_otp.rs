//! Verifies a one-time code, whatever it is used for.
//!
//! 1. Count the attempt, in one guarded statement that also says whether the code may still be tried, and count it against
//!    every limit on wrong codes. A code that a known device requested has that device's limit and no other. If one of
//!    the limits is reached, the transaction is rolled back and the code is not compared. Commit: whatever happens from
//!    then on, the attempt stays counted.
//! 2. Compare the code, and judge.
//!    Where single sign-on is required, only the right code of a break-glass owner signs in (`sso/required.rs`).
//!    The right code of a user who closed the account gets the link that keeps it (`account/deletion`).
//!    The right code of a user who requires a passkey opens no session (`account/passkey_requirement.rs`).
//! 3. Right: consume the code, create the account if this is its first sign-in, store the device, and continue with what
//!    the code is for, in one transaction; then remove the attempt from the limits. Wrong: it stays counted.
//!
//! The limit on all callers is stored in parts, of which each attempt draws one, so that callers rarely wait for one another.
//! A sign-in on an unknown device gives it room for a part of a wrong code: with many users, mistyped codes alone exceed
//! any fixed rate. When the limit on all callers is reached, codes still work, but each can be tried only once. Guessing then takes an
//! email for every guess, and no attacker can switch off sign-in for all users.
//!
//! Limits are locked after the code and never by the transaction that consumes it, so that two submissions of one code do
//! not deadlock.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{Id as _, OtpId, UserId},
    token::{DeviceSecret, PresentedToken},
};
use service_rules::{
    Timestamp,
    email::Address,
    limits::{Limited, MAX_OTP_FAILURE_PARTS, MIN_OTP_FAILURE_BURST, Rate},
    otp::{self, OtpError, OtpVerdict, Tried, Typed},
    sso::LINK_CLIENT,
};
use subtle::ConstantTimeEq as _;

use crate::{
    app::App,
    crypto::{random, root_keys::Purpose},
    database::{self, Connection},
    flows::{
        RequestMeta,
        account::deletion::{self, ClosedAccount},
        bounces, check_clock,
        rate_limit::{Limit, NetworkLimit},
        sign_in::{
            accounts,
            address_limits::{self, WindowLimit, budget_key},
            devices,
            new_sign_in::NewSignIn,
            request_otp::CodeFor,
            step_up,
        },
        sso::{
            break_glass,
            required::{self, CodeRule},
        },
    },
    mail::SignedInWith,
    store::{self, emails::EmailKey, otps::CountedTry, routed_domains::Route},
};

/// The name of the limit on wrong codes of all callers together.
const ALL_FAILURES_POLICY: &str = "otp-failures";

/// Why a code does not sign a user in.
#[derive(Debug, thiserror::Error)]
pub enum VerifyOtpError {
    #[error(transparent)]
    Code(#[from] OtpError),
    /// The code is right, but the user is not a member of the requested workspace. The code was not consumed.
    #[error("the user is not a member of the requested workspace")]
    NotAMember,
    /// Single sign-on is required in the domain of the address, whatever the code is.
    #[error("single sign-on is required")]
    SsoRequired,
    /// The code was right and is consumed, but the user closed the account.
    #[error("the user closed the account, which will be erased")]
    Closed(ClosedAccount),
    /// The code was right and is consumed, but its user requires a passkey.
    #[error("the user requires a passkey")]
    PasskeyRequired,
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// What happens once a user has entered the right code.
pub(crate) trait SignIn {
    type Output;

    /// Whether the user may sign in to the requested workspace. Asked before the code is consumed; without a user id, the
    /// account does not exist yet.
    async fn admits(&self, db: &Connection, user_id: Option<UserId>) -> Result<bool, database::Error>;

    /// Opens the session or signs the browser in, in the transaction that consumes the code.
    async fn open(&mut self, db: &Connection, user_id: UserId) -> anyhow::Result<Self::Output>;

    /// Remembers a user who requires a passkey, if they can use it where they entered the code.
    async fn wait_for_passkey(&self, _: &Connection, _: UserId) -> Result<(), database::Error> {
        Ok(())
    }

    /// The id of the session or the browser that was signed in, and how a mail names it. `None`: the code alone signs no user in.
    fn signed_in(&self) -> Option<(String, SignedInWith)>;
}

/// A code that a user typed, and the client it must have been sent for.
pub(crate) struct Attempt<'a> {
    pub(crate) app: &'a App,
    pub(crate) meta: &'a RequestMeta,
    /// The device secret that came with the code.
    pub(crate) device: Option<&'a PresentedToken>,
    pub(crate) client_id: &'a str,
    pub(crate) otp_id: OtpId,
    pub(crate) code: Typed,
    pub(crate) now: Timestamp,
}

/// The result of a right code: the sign-in, and the secret of the device if it is new.
pub(crate) struct Redeemed<T> {
    pub(crate) output: T,
    pub(crate) new_device: Option<DeviceSecret>,
}

/// What came of an attempt. A refusal is data until its transaction is committed.
enum Outcome<T> {
    SignedIn(Redeemed<T>),
    /// The code is right, but the user is not a member of the requested workspace.
    NotAMember,
    /// The code is right, but another request consumed it first, or the user was disabled meanwhile.
    Lost,
    Wrong(OtpError),
    /// Single sign-on is required, whether the code is right or wrong.
    SsoRequired,
    /// The code is right, but the user closed the account.
    Closed(ClosedAccount),
    /// The code is right, but the user requires a passkey.
    PasskeyRequired,
}

impl<T> Outcome<T> {
    /// Whether the typed code was the one that was sent, whatever came of it.
    const fn is_right_code(&self) -> bool {
        !matches!(self, Self::Wrong(_) | Self::SsoRequired)
    }

    /// The wrong codes that this attempt makes room for. A code signs in once, so it makes room once.
    fn credit(&self, app: &App) -> f64 {
        if matches!(self, Self::SignedIn(_)) { app.config.limits.otp_failures_percent.per_success() } else { 0.0 }
    }

    fn into_result(self) -> Result<Redeemed<T>, VerifyOtpError> {
        match self {
            Self::SignedIn(redeemed) => Ok(redeemed),
            Self::NotAMember => Err(VerifyOtpError::NotAMember),
            Self::Lost => Err(OtpError::NotAccepted.into()),
            Self::Wrong(refusal) => Err(refusal.into()),
            Self::SsoRequired => Err(VerifyOtpError::SsoRequired),
            Self::Closed(account) => Err(VerifyOtpError::Closed(account)),
            Self::PasskeyRequired => Err(VerifyOtpError::PasskeyRequired),
        }
    }
}

impl Attempt<'_> {
    pub(crate) async fn redeem<S: SignIn>(&self, sign_in: &mut S) -> Result<Redeemed<S::Output>, VerifyOtpError> {
        let (counted, limits) = self.count().await?;
        let outcome = self.try_code(&counted, sign_in).await?;
        if outcome.is_right_code()
            && let Err(error) = limits.give_back(self.app, self.now, outcome.credit(self.app)).await
        {
            // The attempt is over. One that stays counted costs the user one wrong code at most.
            tracing::warn!(error = format!("{error:#}"), "Could not remove an attempt from the limits on wrong codes");
        }
        outcome.into_result()
    }

    /// Counts the attempt, also against every limit on wrong codes, and commits. If a limit is reached, nothing is counted.
    async fn count(&self) -> Result<(CountedTry, FailureLimits<'_>), VerifyOtpError> {
        let (app, now) = (self.app, self.now);
        let db = app.database.begin().await?;
        check_clock(app, &db, now).await?;
        let Some(counted) = store::otps::count_try(&db, self.otp_id, self.client_id, now).await? else {
            return Err(OtpError::NotAccepted.into());
        };
        let mut limits = FailureLimits::of(app, self.meta, &counted)?;
        if let Some(limited) = limits.take(app, &db, counted.number, now).await? {
            return Err(OtpError::Limited(limited).into());
        }
        db.commit().await?;
        Ok((counted, limits))
    }

    /// Compares the code and carries out the verdict. Commits in every case.
    async fn try_code<S: SignIn>(&self, counted: &CountedTry, sign_in: &mut S) -> anyhow::Result<Outcome<S::Output>> {
        let address = &counted.address;
        let db = self.app.database.begin().await?;
        // A code is in the shard of its address, and so is its id.
        let email = EmailKey { address, shard: self.otp_id.shard() };
        let account = store::emails::find_user(&db, email).await?;
        let user_disabled = account.as_ref().is_some_and(|account| account.disabled);
        let user_id = account.map(|account| account.user_id);
        let rule = required::judge_codes(self.app, &db, address, self.client_id, user_id).await?;
        let is_break_glass = matches!(rule, CodeRule::BreakGlass(_));
        let owner = Owner { address, asked_by: counted.device.as_deref(), user_id, is_break_glass };
        let matches = self.matches(counted)?;
        if let (true, true, CodeRule::Accepted, Some(user_id)) = (matches, user_disabled, &rule, user_id)
            && let Some(closed) = deletion::find_closed(self.app, &db, user_id).await?
        {
            // The code shows the link once, and cannot sign in after the account was kept.
            if !store::otps::mark_consumed(&db, self.otp_id, self.now).await? {
                return Ok(Outcome::Lost);
            }
            db.commit().await?;
            return Ok(Outcome::Closed(closed));
        }
        let outcome = match otp::judge(Tried { matches, user_disabled }) {
            OtpVerdict::SignIn => match rule {
                CodeRule::Accepted => self.consume(&db, &owner, sign_in).await?,
                CodeRule::BreakGlass(route) => self.break_glass(&db, &owner, &route, sign_in).await?,
                CodeRule::Refused => Outcome::SsoRequired,
            },
            OtpVerdict::Refuse(refusal) => {
                let mut event = self.meta.event(EventName::OtpFailed, self.now, json!({ "otpId": self.otp_id }))?;
                event.client_id = Some(self.client_id);
                event.user_id = user_id;
                store::audit_events::insert(&db, &event).await?;
                if matches!(rule, CodeRule::Accepted) { Outcome::Wrong(refusal) } else { Outcome::SsoRequired }
            }
        };
        db.commit().await?;
        if matches!(outcome, Outcome::SignedIn(_)) {
            self.app.mail_waiting.notify_one();
        }
        Ok(outcome)
    }

    fn matches(&self, counted: &CountedTry) -> Result<bool, database::Error> {
        let bound_to = CodeFor { otp_id: self.otp_id, address: &counted.address, client_id: &counted.client_id };
        let parts = bound_to.parts(self.code.as_bytes());
        let parts = parts.each_ref().map(Vec::as_slice);
        let typed = self.app.root_keys.mac_under(counted.mac_key, Purpose::OtpCode, &parts);
        // The code may be right: this node lacks a root key that another node has.
        let typed = typed
            .ok_or_else(|| database::Error::Unavailable(format!("root key {} is not configured", counted.mac_key)))?;
        Ok(typed.ct_eq(&counted.mac).into())
    }

    /// Consumes a right code and signs its user in.
    async fn consume<S: SignIn>(
        &self,
        db: &Connection,
        owner: &Owner<'_>,
        sign_in: &mut S,
    ) -> anyhow::Result<Outcome<S::Output>> {
        let Owner { address, asked_by, user_id, is_break_glass } = *owner;
        if let Some(user_id) = user_id {
            if !store::users::lock_enabled(db, user_id).await? {
                return Ok(Outcome::Lost);
            }
            if step_up::requires_passkey(self.app, db, user_id).await? {
                return self.refuse_without_passkey(db, user_id, sign_in).await;
            }
        }
        if !sign_in.admits(db, user_id).await? {
            return Ok(Outcome::NotAMember);
        }
        // It may have become required while the code was compared.
        let may_be_refused = !is_break_glass && self.client_id != LINK_CLIENT;
        let route = if may_be_refused { required::lock_route(self.app, db, address).await? } else { None };
        if route.as_ref().is_some_and(|route| route.required) {
            return Ok(Outcome::SsoRequired);
        }
        // Of several requests with the right code, one goes on.
        if !store::otps::mark_consumed(db, self.otp_id, self.now).await? {
            return Ok(Outcome::Lost);
        }
        bounces::lift(self.app, db, address).await?;
        let user_id = if let Some(user_id) = user_id {
            if may_be_refused {
                required::bring_back(db, user_id, route.as_ref()).await?;
            }
            user_id
        } else {
            let email = EmailKey { address, shard: self.otp_id.shard() };
            accounts::find_or_create(self.meta, db, email, self.now).await?.user_id
        };
        let signed_in = devices::SignedIn { user_id, address, presented: self.device, asked_by, now: self.now };
        let device = devices::remember(self.app, db, &signed_in).await?;
        let output = sign_in.open(db, user_id).await?;
        if let (Some(digest), Some((session_id, with))) = (device.new_to_address, sign_in.signed_in()) {
            let new = NewSignIn { user_id, session_id, device: Some(digest), with };
            new.enqueue_mail(self.app, self.meta, db, self.now).await?;
        }
        Ok(Outcome::SignedIn(Redeemed { output, new_device: device.secret }))
    }

    /// Consumes the right code of a user who requires a passkey. No session is opened.
    async fn refuse_without_passkey<S: SignIn>(
        &self,
        db: &Connection,
        user_id: UserId,
        sign_in: &S,
    ) -> anyhow::Result<Outcome<S::Output>> {
        if !store::otps::mark_consumed(db, self.otp_id, self.now).await? {
            return Ok(Outcome::Lost);
        }
        sign_in.wait_for_passkey(db, user_id).await?;
        let details = json!({ "otpId": self.otp_id });
        let event = self.meta.event(EventName::PasskeyAwaited, self.now, details)?;
        event.user(user_id).client(self.client_id).insert(db).await?;
        Ok(Outcome::PasskeyRequired)
    }

    /// Signs a break-glass owner in, if the owner has sign-ins left, and tells every owner.
    async fn break_glass<S: SignIn>(
        &self,
        db: &Connection,
        owner: &Owner<'_>,
        route: &Route,
        sign_in: &mut S,
    ) -> anyhow::Result<Outcome<S::Output>> {
        let Some(user_id) = owner.user_id else { return Ok(Outcome::SsoRequired) };
        if !break_glass::count(self.app, db, user_id, self.now).await? {
            return Ok(Outcome::SsoRequired);
        }
        let outcome = self.consume(db, owner, sign_in).await?;
        if matches!(outcome, Outcome::SignedIn(_)) {
            break_glass::record(self.app, self.meta, db, route, user_id).await?;
        }
        Ok(outcome)
    }
}

/// The mailbox that a code was sent to.
struct Owner<'a> {
    address: &'a Address,
    /// The device that requested the code.
    asked_by: Option<&'a [u8]>,
    /// `None`: the address has no account yet.
    user_id: Option<UserId>,
    /// Single sign-on is required, and the owner of the mailbox may sign in without it.
    is_break_glass: bool,
}

/// The limits on wrong codes that an attempt counts against.
struct FailureLimits<'a> {
    /// Of the device, or of the address.
    windows: Vec<WindowLimit<'a>>,
    /// `None` for a known device, whose limit no other caller can use up.
    shared: Option<SharedLimits>,
}

/// The limits that unknown devices share.
struct SharedLimits {
    network: NetworkLimit,
    all_callers: AllCallersLimit,
}

/// One part of the limit on all callers, drawn at random.
struct AllCallersLimit {
    part: [u8; 4],
    rate: Rate,
    /// The rate of all parts together, which callers are told.
    whole: Rate,
    /// Whether the attempt was counted.
    counted: bool,
}

impl AllCallersLimit {
    fn draw(whole: Rate) -> anyhow::Result<Self> {
        let (parts, rate) = whole.divide(MAX_OTP_FAILURE_PARTS, MIN_OTP_FAILURE_BURST);
        let part = u32::from_be_bytes(random::bytes()?) % parts;
        Ok(Self { part: part.to_be_bytes(), rate, whole, counted: false })
    }

    fn limit(&self) -> Limit<'_> {
        Limit { policy: ALL_FAILURES_POLICY, whom: &self.part }
    }

    async fn take(&mut self, app: &App, db: &Connection, now: Timestamp) -> Result<Option<Limited>, database::Error> {
        let limited = self.limit().take_at_rate(app, db, self.rate, now).await?;
        self.counted = limited.is_none();
        Ok(limited.map(|limited| Limited { quota: self.whole.per_hour, ..limited }))
    }

    /// Gives back the attempt if it was counted, and the room that a sign-in adds.
    async fn give_back(&self, app: &App, db: &Connection, credit: f64) -> Result<(), database::Error> {
        let requests = f64::from(u8::from(self.counted)) + credit;
        self.limit().give_back_at_rate(app, db, self.rate, requests).await
    }
}

impl<'a> FailureLimits<'a> {
    fn of(app: &'a App, meta: &RequestMeta, counted: &CountedTry) -> anyhow::Result<Self> {
        let (limits, address) = (&app.config.limits, &counted.address);
        if let Some(device) = &counted.device {
            let per_device = budget_key(address, device);
            let windows = vec![address_limits::of("otp-failures-device", per_device, &limits.otp_failures_per_device)];
            return Ok(Self { windows, shared: None });
        }
        let windows = address_limits::failures(limits, address, &meta.network.to_string()).into();
        let network = address_limits::failures_from(limits, meta.address);
        let all_callers = AllCallersLimit::draw(limits.otp_failures)?;
        Ok(Self { windows, shared: Some(SharedLimits { network, all_callers }) })
    }

    /// Counts the attempt against each limit. `Some`: one is reached. The limit on all callers comes last, because callers of
    /// all networks wait for one another there.
    async fn take(
        &mut self,
        app: &App,
        db: &Connection,
        number: i16,
        now: Timestamp,
    ) -> Result<Option<Limited>, database::Error> {
        for window in &self.windows {
            if let Some(limited) = window.take(app, db, now).await? {
                return Ok(Some(limited));
            }
        }
        let Some(SharedLimits { network, all_callers }) = &mut self.shared else { return Ok(None) };
        if let Some(limited) = network.take(app, db, now).await? {
            return Ok(Some(limited));
        }
        let limited = all_callers.take(app, db, now).await?;
        // The first attempt at a code does not need room there.
        Ok(limited.filter(|_| number > 1))
    }

    /// Removes the attempt that was counted at `now` from every limit, because its code was right.
    async fn give_back(&self, app: &App, now: Timestamp, credit: f64) -> Result<(), database::Error> {
        let db = app.database.begin().await?;
        for window in &self.windows {
            window.limit().give_back(app, &db, now).await?;
        }
        if let Some(SharedLimits { network, all_callers }) = &self.shared {
            network.give_back(app, &db).await?;
            all_callers.give_back(app, &db, credit).await?;
        }
        db.commit().await
    }
}
