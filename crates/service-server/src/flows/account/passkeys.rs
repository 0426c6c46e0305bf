//! A user's passkeys on the account page: listing, adding, renaming and removing them.
//!
//! Adding and removing need a recent sign-in: a passkey signs in for years, and the last one that is removed leaves only the
//! mailbox. The challenge for a new passkey is bound to this browser and to the number of changes so far, so it is not stored
//! and creates one passkey.

use serde_json::{Value, json};
use service_api::{
    audit_events::EventName,
    ids::{Id as _, PasskeyId},
};
use service_rules::{
    Timestamp,
    display_name::DisplayNameError,
    lifetimes,
    limits::Limited,
    passkeys::{MAX_PASSKEYS, NewPasskey, PasskeyError, RegistrationResponse, judge_registration},
    signing::later,
    step_up::{self as rules, StepUp},
};

use crate::{
    app::App,
    crypto::random,
    database::Connection,
    flows::{
        Actor, RequestMeta,
        account::{AccountError, actor, signed_in},
        passkeys,
        sign_in::{
            browser_session::Browser,
            relying_party::{Challenge, PasskeyRequest, RelyingParty},
            step_up,
        },
    },
    mail::Email,
    store::{
        self,
        passkeys::{ListedPasskey, PasskeyToStore, PasskeyUser},
    },
};

pub use crate::store::recovery_codes::RecoveryCodesLeft;

/// Why a passkey was not added.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum PasskeyRefusal {
    #[error("passkeys need a host name")]
    Unavailable,
    #[error(transparent)]
    NotAccepted(#[from] PasskeyError),
    #[error("the passkey belongs to an account already")]
    InUse,
    #[error("the user has {MAX_PASSKEYS} passkeys")]
    TooMany,
    #[error("no passkey of the user counts")]
    NoneCounts,
    #[error(transparent)]
    Name(#[from] DisplayNameError),
    #[error(transparent)]
    Limited(#[from] Limited),
}

/// The passkeys of a user.
pub struct PasskeyList {
    pub passkeys: Vec<ListedPasskey>,
    /// Whether this installation can have passkeys.
    pub available: bool,
    /// When all passkeys will be removed, because the user has lost them.
    pub recovery_due: Option<Timestamp>,
    pub recovery_codes: Option<RecoveryCodesLeft>,
    /// Whether the user requires a passkey to sign in.
    pub required: bool,
    /// Whether a passkey counts, so that the user can create recovery codes.
    pub counts: bool,
}

pub async fn list(app: &App, browser: &Browser) -> Result<PasskeyList, AccountError> {
    let user_id = signed_in(browser)?.user_id;
    let db = app.database.connect().await?;
    let listed = store::passkeys::list_by_user(&db, user_id).await?;
    let recovery_due = store::passkey_recoveries::find(&db, user_id).await?;
    let recovery_codes = store::recovery_codes::find(&db, user_id).await?;
    let counts = step_up::of_user(app, &db, user_id, app.clock.now()).await? == StepUp::NoCode;
    let (available, required) = (passkeys::are_available(app), store::users::requires_passkey(&db, user_id).await?);
    Ok(PasskeyList { passkeys: listed, available, recovery_due, recovery_codes, required, counts })
}

/// Begins to add a passkey; returns what the page asks the browser for.
pub async fn begin(app: &App, meta: &RequestMeta, browser: &Browser) -> Result<Value, AccountError> {
    let person = signed_in(browser)?;
    step_up::require_recent_sign_in(app, &actor(browser, meta)?).await?;
    let party = RelyingParty::of(app).ok_or(PasskeyRefusal::Unavailable)?;
    let db = app.database.connect().await?;
    let existing = store::passkeys::list_by_user(&db, person.user_id).await?;
    if existing.len() >= MAX_PASSKEYS {
        return Err(PasskeyRefusal::TooMany.into());
    }
    let user = store::passkeys::find_or_create_user(&db, person.user_id, &random::bytes()?).await?;
    let new = PasskeyRequest { brand: &app.config.brand.name, email: &person.email, user: &user, existing: &existing };
    Ok(party.creation_options(&challenge(app, browser, &user), &new))
}

fn challenge(app: &App, browser: &Browser, user: &PasskeyUser) -> Challenge {
    browser.passkey_challenge(app, &[b"new passkey", &user.handle, &user.changes.to_be_bytes()])
}

/// Adds the passkey that the browser created; returns its name.
pub async fn add(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    name: &str,
    response: &str,
) -> Result<String, AccountError> {
    let actor = actor(browser, meta)?;
    step_up::require_recent_sign_in(app, &actor).await?;
    let name = passkeys::parse_name(app, name).map_err(PasskeyRefusal::from)?;
    let response = RegistrationResponse::read(response.as_bytes()).map_err(PasskeyRefusal::from)?;
    let party = RelyingParty::of(app).ok_or(PasskeyRefusal::Unavailable)?;
    let now = app.clock.now();
    let db = app.database.begin().await?;
    let held = actor.hold(&db, now).await?.ok_or(AccountError::NotSignedIn)?;
    let user = store::passkeys::find_user(&db, actor.user_id).await?;
    let user = user.ok_or(PasskeyRefusal::NotAccepted(PasskeyError::Challenge))?;
    let challenge = challenge(app, browser, &user);
    let passkey = judge_registration(response.sent(), party.expected(&challenge)).map_err(PasskeyRefusal::from)?;
    if let Some(limited) = actor.count(app, &db, now).await? {
        return Err(PasskeyRefusal::from(limited).into());
    }
    let passkeys = store::passkeys::count_by_user(&db, actor.user_id).await?;
    if usize::try_from(passkeys).is_ok_and(|passkeys| passkeys >= MAX_PASSKEYS) {
        return Err(PasskeyRefusal::TooMany.into());
    }
    if !store::passkeys::count_change(&db, actor.user_id, user.changes).await? {
        return Err(PasskeyRefusal::NotAccepted(PasskeyError::Challenge).into());
    }
    let new = NamedPasskey { passkey: &passkey, name: name.as_str(), made_by: &held.made_by };
    actor.store_passkey(app, &db, &new, now).await?;
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(name.into_string())
}

/// A passkey that is to be stored.
struct NamedPasskey<'a> {
    passkey: &'a NewPasskey,
    name: &'a str,
    made_by: &'a str,
}

impl Actor<'_> {
    async fn store_passkey(
        &self,
        app: &App,
        db: &Connection,
        new: &NamedPasskey<'_>,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        let NamedPasskey { passkey, name, made_by } = *new;
        let id: PasskeyId = random::id_in(self.user_id.shard(), now)?;
        let counts_from = rules::counts_from(store::passkeys::count_now(db, self.user_id, now).await?, now);
        let stored = PasskeyToStore { id, user_id: self.user_id, passkey, name, made_by, now, counts_from };
        if !store::passkeys::insert(db, &stored).await? {
            return Err(PasskeyRefusal::InUse.into());
        }
        let event = self.event(EventName::PasskeyAdded, now, json!({ "madeBy": made_by }))?;
        event.subject(id).insert(db).await?;
        let mail = Email::PasskeyAdded {
            to: passkeys::find_email(db, self.user_id).await?,
            name: name.to_owned(),
            at: now,
            from: self.meta.address.to_string(),
            language: self.meta.language,
        };
        Ok(mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?)
    }
}

/// The name of a passkey of the user, and whether it is the only one.
pub async fn find(app: &App, browser: &Browser, id: &str) -> Result<(ListedPasskey, bool), AccountError> {
    let id: PasskeyId = id.parse().map_err(|_| AccountError::NotFound)?;
    let passkeys = list(app, browser).await?.passkeys;
    let is_last = passkeys.len() == 1;
    let found = passkeys.into_iter().find(|passkey| passkey.id == id);
    found.map(|passkey| (passkey, is_last)).ok_or(AccountError::NotFound)
}

/// Renames a passkey of the user; returns its new name.
pub async fn rename(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    id: &str,
    name: &str,
) -> Result<String, AccountError> {
    Ok(passkeys::rename(app, &actor(browser, meta)?, id, name).await?.name)
}

/// Removes a passkey of the user; returns its name.
pub async fn remove(app: &App, meta: &RequestMeta, browser: &Browser, id: &str) -> Result<String, AccountError> {
    let actor = actor(browser, meta)?;
    let sign_in = step_up::require_recent_sign_in(app, &actor).await?;
    passkeys::remove(app, &actor, sign_in, id).await?.ok_or(AccountError::NotFound)
}
