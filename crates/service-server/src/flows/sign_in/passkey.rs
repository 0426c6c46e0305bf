//! Signs a user in by a passkey.
//!
//! 1. Find the passkey by its credential id, verify its signature, and judge. The challenge is bound to the cookie of this
//!    browser and to this flow, so it is not stored: a sign-in replaces the cookie, and the challenge is wrong from then on.
//! 2. Right: sign the user in, in one transaction with a guarded update of the counter, unless single sign-on is required in
//!    the domain of the user. Of several requests with one counter, one goes on.
//! 3. Wrong: count it against the network, so that operators see it, and senders of wrong ones are told to wait. A right passkey
//!    is never refused for that: no attacker can guess a signature.
//! 4. The counter did not rise: the key was copied. Refuse, record it and tell the user. The passkey no longer restricts what
//!    codes can do, so that the user can remove it.

use serde_json::{Value, json};
use service_api::{
    audit_events::EventName,
    ids::{Id as _, PasskeyId, UserId},
};
use service_rules::{
    Timestamp, lifetimes,
    limits::{Limited, Window},
    passkeys::{
        AssertionResponse, AssertionVerdict, PasskeyError, PublicKey, SentAssertion, StoredPasskey, judge_assertion,
    },
    signing::later,
    step_up::StepUp,
};

use crate::{
    app::App,
    crypto::passkey_signature,
    database,
    flows::{
        RequestMeta,
        account::deletion::{self, ClosedAccount},
        rate_limit::{Limit, NetworkLimit},
        sign_in::{
            browser_session::{Browser, SignInWithoutConnection},
            devices,
            new_sign_in::NewSignIn,
            passkey_recovery,
            relying_party::{Challenge, RelyingParty},
            request_otp::BROWSER,
            step_up,
        },
        sso::required,
    },
    mail::{Email, SignedInWith},
    store::{
        self,
        passkeys::{PasskeyUse, StoredPasskeyKey},
        sign_in_flows::SignInFlow,
    },
};

/// A copied passkey is recorded and mailed once a day.
const WARNINGS: [Window; 1] = [Window { count: 1, seconds: 86_400 }];

/// Why a passkey does not sign a user in.
#[derive(Debug, thiserror::Error)]
pub enum PasskeySignInError {
    #[error("the passkey was not accepted: {0}")]
    Passkey(#[from] PasskeyError),
    #[error("there is no such passkey")]
    Unknown,
    #[error("the counter of the passkey did not rise")]
    CounterWentBack,
    #[error("single sign-on is required")]
    SsoRequired,
    #[error("the user closed the account, which will be erased")]
    Closed(ClosedAccount),
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

impl PasskeySignInError {
    /// The outcome, as the metric names it.
    const fn outcome(&self) -> &'static str {
        match self {
            Self::Passkey(_) | Self::Unknown | Self::Limited(_) => "refused",
            Self::CounterWentBack => "copied",
            Self::SsoRequired => "sso_required",
            Self::Closed(_) => "closed",
            Self::Database(_) | Self::Defect(_) => "error",
        }
    }
}

/// What the sign-in page asks the browser for. `None`: the installation cannot have passkeys.
#[must_use]
pub fn request_options(app: &App, browser: &Browser, flow: &SignInFlow) -> Option<Value> {
    RelyingParty::of(app).map(|party| party.request_options(&challenge(app, browser, flow)))
}

/// What the sign-in page says about a passkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasskeyNotice {
    /// It only offers to use one.
    Nothing,
    /// The user signs in again, and should use one: a code is not enough for what needs a recent sign-in.
    Confirm,
    /// The user has entered the right code, and requires one. `removed_on`: when all passkeys will be removed, because the user has
    /// lost them.
    Required { removed_on: Option<Timestamp> },
}

/// Decides what the sign-in page says about a passkey to the user of this browser.
pub async fn notice(app: &App, browser: &Browser, flow: &SignInFlow) -> Result<PasskeyNotice, database::Error> {
    let db = app.database.connect().await?;
    if let Some(waiting) = flow.waiting {
        let removed_on = store::passkey_recoveries::find(&db, waiting.user_id).await?;
        return Ok(PasskeyNotice::Required { removed_on });
    }
    let Some(person) = &browser.person else { return Ok(PasskeyNotice::Nothing) };
    let step_up = step_up::of_user(app, &db, person.user_id, app.clock.now()).await?;
    Ok(if step_up == StepUp::NoCode { PasskeyNotice::Confirm } else { PasskeyNotice::Nothing })
}

fn challenge(app: &App, browser: &Browser, flow: &SignInFlow) -> Challenge {
    browser.passkey_challenge(app, &[b"sign in", flow.id.uuid().as_bytes()])
}

/// Signs this browser in, if the passkey is right.
pub async fn sign_in(
    app: &App,
    meta: &RequestMeta,
    browser: &mut Browser,
    flow: &SignInFlow,
    response: &str,
) -> Result<(), PasskeySignInError> {
    app.revocations.check()?;
    let result = PasskeySignIn { app, meta, now: app.clock.now() }.try_response(browser, flow, response).await;
    app.metrics.passkey_signed_in(result.as_ref().map_or_else(PasskeySignInError::outcome, |()| "signed_in"));
    result
}

struct PasskeySignIn<'a> {
    app: &'a App,
    meta: &'a RequestMeta,
    now: Timestamp,
}

/// A passkey that was found by its credential id.
struct FoundPasskey {
    user_id: UserId,
    id: PasskeyId,
    key: StoredPasskeyKey,
}

impl PasskeySignIn<'_> {
    async fn try_response(
        &self,
        browser: &mut Browser,
        flow: &SignInFlow,
        response: &str,
    ) -> Result<(), PasskeySignInError> {
        let judged = self.judge(browser, flow, response).await;
        let (found, verdict) = match judged {
            Err(PasskeySignInError::Passkey(_) | PasskeySignInError::Unknown) => return Err(self.refuse(judged).await),
            judged => judged?,
        };
        match verdict {
            AssertionVerdict::SignIn { counter, is_backed_up } => {
                let used = PasskeyUse { user_id: found.user_id, id: found.id, counter, is_backed_up, now: self.now };
                self.open(browser, &found, &used).await
            }
            AssertionVerdict::CounterWentBack => self.warn(browser, &found).await,
            AssertionVerdict::Refuse(error) => Err(self.refuse::<()>(Err(error.into())).await),
        }
    }

    /// Finds the passkey, verifies its signature and judges what it signed.
    async fn judge(
        &self,
        browser: &Browser,
        flow: &SignInFlow,
        response: &str,
    ) -> Result<(FoundPasskey, AssertionVerdict), PasskeySignInError> {
        let party = RelyingParty::of(self.app).ok_or(PasskeySignInError::Unknown)?;
        let sent = AssertionResponse::read(response.as_bytes())?;
        let db = self.app.database.connect().await?;
        let credential = store::passkey_credentials::find(&db, &sent.credential_id).await?;
        let (user_id, id) = credential.ok_or(PasskeySignInError::Unknown)?;
        let key = store::passkeys::find_key(&db, user_id, id).await?.ok_or(PasskeySignInError::Unknown)?;
        drop(db);
        let public_key = PublicKey::read(&key.public_key)?;
        let signature_verifies =
            passkey_signature::verifies(&public_key, &sent.authenticator_data, &sent.client_data, &sent.signature);
        let assertion = SentAssertion {
            client_data: &sent.client_data,
            authenticator_data: &sent.authenticator_data,
            user_handle: sent.user_handle.as_deref(),
            signature_verifies,
        };
        let stored =
            StoredPasskey { user_handle: &key.handle, counter: key.counter, can_be_backed_up: key.can_be_backed_up };
        let challenge = challenge(self.app, browser, flow);
        let verdict = judge_assertion(assertion, stored, party.expected(&challenge));
        Ok((FoundPasskey { user_id, id, key }, verdict))
    }

    /// Counts a refusal against the network. The limit is what the caller is told if it is reached.
    async fn refuse<T>(&self, refused: Result<T, PasskeySignInError>) -> PasskeySignInError {
        let rates = self.app.config.limits.otp_failures_per_network;
        let limit = NetworkLimit { policy: "passkey-failures-network", address: self.meta.address, rates };
        let counted = async {
            let db = self.app.database.begin().await?;
            let limited = limit.take(self.app, &db, self.now).await?;
            db.commit().await?;
            Ok::<_, database::Error>(limited)
        };
        match (counted.await, refused) {
            (Err(error), _) => error.into(),
            (Ok(Some(limited)), _) => limited.into(),
            (Ok(None), Err(refusal)) => refusal,
            (Ok(None), Ok(_)) => PasskeySignInError::Unknown,
        }
    }

    /// Signs the browser in.
    async fn open(
        &self,
        browser: &mut Browser,
        found: &FoundPasskey,
        used: &PasskeyUse,
    ) -> Result<(), PasskeySignInError> {
        let (app, user_id) = (self.app, found.user_id);
        let db = app.database.begin().await?;
        let is_enabled = store::users::lock_enabled(&db, user_id).await?;
        let address = store::users::find_address(&db, user_id).await?.ok_or(PasskeySignInError::Unknown)?;
        let route = required::lock_route(app, &db, &address).await?;
        if route.as_ref().is_some_and(|route| route.required) {
            return Err(PasskeySignInError::SsoRequired);
        }
        if !is_enabled {
            let closed = deletion::find_closed(app, &db, user_id).await?;
            return Err(closed.map_or(PasskeySignInError::Unknown, PasskeySignInError::Closed));
        }
        if !store::passkeys::mark_used(&db, used).await? {
            // Another request signed in with it meanwhile, or the user removed it.
            return Err(PasskeySignInError::Unknown);
        }
        passkey_recovery::stop_by_passkey(app, self.meta, &db, user_id, found.key.counts_from).await?;
        required::bring_back(&db, user_id, route.as_ref()).await?;
        let device = self.meta.device.as_ref();
        let signed_in =
            devices::SignedIn { user_id, address: &address, presented: device, asked_by: None, now: self.now };
        let remembered = devices::remember(app, &db, &signed_in).await?;
        let details = json!({ "method": "passkey", "passkeyId": found.id });
        let event = self.meta.event(EventName::SignInSucceeded, self.now, details)?;
        event.user(user_id).client(BROWSER).insert(&db).await?;
        let signed_in = SignInWithoutConnection { user_id, auth_time: Some(self.now) };
        browser.sign_in(app, self.meta, &db, signed_in).await?;
        if remembered.new_to_address.is_some() {
            let (session_id, with) = (browser.id.to_string(), SignedInWith::browser(self.meta.agent));
            let new = NewSignIn { user_id, session_id, device: remembered.new_to_address, with };
            new.enqueue_mail(app, self.meta, &db, self.now).await?;
        }
        db.commit().await?;
        app.mail_waiting.notify_one();
        browser.remember_device(remembered.secret, device);
        Ok(())
    }

    /// Records that a passkey was copied, and tells its user.
    async fn warn(&self, browser: &Browser, found: &FoundPasskey) -> Result<(), PasskeySignInError> {
        let db = self.app.database.begin().await?;
        if !browser.has_its_cookie(&db, self.now).await? {
            // The same response was sent twice, and the other request has signed in: nothing was copied.
            return Err(PasskeySignInError::Unknown);
        }
        if !store::users::lock_enabled(&db, found.user_id).await? {
            return Err(PasskeySignInError::Unknown);
        }
        let address = store::users::find_address(&db, found.user_id).await?.ok_or(PasskeySignInError::Unknown)?;
        store::passkeys::mark_copied(&db, found.user_id, found.id, self.now).await?;
        let passkey_id = found.id.uuid();
        let limit = Limit { policy: "passkey-copied", whom: passkey_id.as_bytes() };
        if limit.take_in_windows(self.app, &db, &WARNINGS, self.now).await?.is_some() {
            return Err(PasskeySignInError::CounterWentBack);
        }
        let event = self.meta.event(EventName::PasskeyCopied, self.now, json!({}))?;
        event.user(found.user_id).subject(found.id).insert(&db).await?;
        let mail = Email::PasskeyCopied {
            to: address.as_str().to_owned(),
            name: found.key.name.clone(),
            at: self.now,
            from: self.meta.address.to_string(),
        };
        mail.enqueue(&self.app.root_keys, &db, self.now, later(self.now, lifetimes::WARNING)).await?;
        db.commit().await?;
        self.app.mail_waiting.notify_one();
        Err(PasskeySignInError::CounterWentBack)
    }
}
