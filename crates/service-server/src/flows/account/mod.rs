//! The account pages: a user's passkeys, sessions, apps, tokens and workspaces, and the latest events.

pub mod activity;
pub mod address_change;
pub mod apps;
pub mod deletion;
pub mod export;
pub mod passkey_requirement;
pub mod passkeys;
pub mod profile;
pub mod recovery_codes;
pub mod reported_sign_in;
pub mod secure;
pub mod sessions;
pub mod tokens;

use serde_json::json;
use service_api::{audit_events::EventName, workspaces::ReceivedInvitation};
use service_rules::rotation;

use crate::{
    app::App,
    database,
    flows::{
        Actor, RequestMeta,
        account::{
            address_change::AddressChangeError, deletion::DeletionError, export::ExportError,
            passkey_requirement::PasskeyRequirementError, passkeys::PasskeyRefusal, profile::ProfileError,
            secure::SecureError,
        },
        audit::{events::AuditQueryError, named_events::NamedEvent},
        authenticate::AuthenticateError,
        oauth::consents::{self, ConsentsError},
        passkeys::PasskeyChangeError,
        sign_in::{
            browser_session::{self, Browser},
            passkey_recovery::PasskeyRecoveryError,
        },
        tokens::cli_tokens::CliTokenError,
        workspaces::received_invitations,
    },
    pagination::{InvalidCursor, PageRequest},
    store::{self, browser_sessions::SignedInUser},
};

/// Why an account page was not shown, or its form not carried out.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("no user is signed in with this browser")]
    NotSignedIn,
    #[error("the user has to sign in again")]
    SignInTooOld,
    #[error("the user has no such session, app or token")]
    NotFound,
    #[error("the CLI token was not created or revoked: {0}")]
    Token(CliTokenError),
    #[error("the passkey was not added: {0}")]
    Passkey(#[from] PasskeyRefusal),
    #[error("the requirement of a passkey was not changed: {0}")]
    PasskeyRequirement(PasskeyRequirementError),
    #[error("the export was not started or downloaded: {0}")]
    Export(ExportError),
    #[error("the address is not changed: {0}")]
    Address(AddressChangeError),
    #[error("the account was not closed: {0}")]
    Deletion(DeletionError),
    #[error("the name was not changed: {0}")]
    Profile(ProfileError),
    #[error(transparent)]
    InvalidCursor(#[from] InvalidCursor),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

impl From<AuditQueryError> for AccountError {
    fn from(error: AuditQueryError) -> Self {
        match error {
            AuditQueryError::InvalidCursor(error) => error.into(),
            AuditQueryError::Database(error) => error.into(),
            AuditQueryError::Defect(error) => error.into(),
        }
    }
}

impl From<PasskeyRecoveryError> for AccountError {
    fn from(error: PasskeyRecoveryError) -> Self {
        match error {
            PasskeyRecoveryError::NotSignedIn => Self::NotSignedIn,
            PasskeyRecoveryError::SignInTooOld => Self::SignInTooOld,
            PasskeyRecoveryError::NothingToDo => Self::NotFound,
            PasskeyRecoveryError::Limited(limited) => Self::Passkey(limited.into()),
            PasskeyRecoveryError::Database(error) => error.into(),
            PasskeyRecoveryError::Defect(error) => error.into(),
        }
    }
}

impl From<AuthenticateError> for AccountError {
    fn from(error: AuthenticateError) -> Self {
        match error {
            AuthenticateError::Bearer(_) => Self::SignInTooOld,
            AuthenticateError::Database(error) => error.into(),
            AuthenticateError::Defect(error) => error.into(),
        }
    }
}

impl From<CliTokenError> for AccountError {
    fn from(error: CliTokenError) -> Self {
        match error {
            CliTokenError::InvalidCursor(error) => error.into(),
            CliTokenError::Database(error) => error.into(),
            CliTokenError::Defect(error) => error.into(),
            refusal => Self::Token(refusal),
        }
    }
}

impl From<PasskeyChangeError> for AccountError {
    fn from(error: PasskeyChangeError) -> Self {
        match error {
            PasskeyChangeError::NotFound => Self::NotFound,
            PasskeyChangeError::SessionEnded => Self::NotSignedIn,
            PasskeyChangeError::Name(refusal) => Self::Passkey(refusal.into()),
            PasskeyChangeError::Database(error) => error.into(),
            PasskeyChangeError::Defect(error) => error.into(),
        }
    }
}

impl From<PasskeyRequirementError> for AccountError {
    fn from(error: PasskeyRequirementError) -> Self {
        match error {
            PasskeyRequirementError::SessionEnded => Self::NotSignedIn,
            PasskeyRequirementError::Database(error) => error.into(),
            PasskeyRequirementError::Defect(error) => error.into(),
            refusal => Self::PasskeyRequirement(refusal),
        }
    }
}

impl From<SecureError> for AccountError {
    fn from(error: SecureError) -> Self {
        match error {
            SecureError::SessionEnded => Self::NotSignedIn,
            SecureError::Database(error) => error.into(),
            SecureError::Defect(error) => error.into(),
        }
    }
}

impl From<DeletionError> for AccountError {
    fn from(error: DeletionError) -> Self {
        match error {
            DeletionError::SessionEnded => Self::NotSignedIn,
            DeletionError::Database(error) => error.into(),
            DeletionError::Defect(error) => error.into(),
            refusal => Self::Deletion(refusal),
        }
    }
}

impl From<AddressChangeError> for AccountError {
    fn from(error: AddressChangeError) -> Self {
        match error {
            AddressChangeError::SessionEnded => Self::NotSignedIn,
            AddressChangeError::NotRequested => Self::NotFound,
            AddressChangeError::Database(error) => error.into(),
            AddressChangeError::Defect(error) => error.into(),
            refusal => Self::Address(refusal),
        }
    }
}

impl From<ProfileError> for AccountError {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::SessionEnded => Self::NotSignedIn,
            ProfileError::Database(error) => error.into(),
            ProfileError::Defect(error) => error.into(),
            refusal => Self::Profile(refusal),
        }
    }
}

impl From<ExportError> for AccountError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::NotFound => Self::NotFound,
            ExportError::SessionEnded | ExportError::Bearer(_) => Self::NotSignedIn,
            ExportError::Database(error) => error.into(),
            ExportError::Defect(error) => error.into(),
            refusal => Self::Export(refusal),
        }
    }
}

impl From<ConsentsError> for AccountError {
    fn from(error: ConsentsError) -> Self {
        match error {
            ConsentsError::NotFound => Self::NotFound,
            ConsentsError::InvalidCursor(error) => error.into(),
            ConsentsError::Database(error) => error.into(),
            ConsentsError::Defect(error) => error.into(),
        }
    }
}

/// The user who is signed in with this browser.
fn signed_in(browser: &Browser) -> Result<&SignedInUser, AccountError> {
    browser.person.as_ref().ok_or(AccountError::NotSignedIn)
}

/// The user who is signed in with this browser, as the actor of a flow.
fn actor<'a>(browser: &Browser, meta: &'a RequestMeta) -> Result<Actor<'a>, AccountError> {
    Actor::in_browser(browser, meta).ok_or(AccountError::NotSignedIn)
}

/// The numbers of a user's passkeys, sessions, apps, tokens and workspaces, and the latest events.
pub struct AccountOverview {
    /// What the user is called, if the user chose a name.
    pub name: Option<String>,
    /// The address that the account is to have, if a change is requested.
    pub new_address: Option<String>,
    pub passkeys: i64,
    pub browsers: i64,
    pub sessions: i64,
    pub apps: i64,
    pub tokens: i64,
    pub workspaces: i64,
    /// Invitations that the user has not answered.
    pub invitations: Vec<ReceivedInvitation>,
    pub events: Vec<NamedEvent>,
}

/// Events that the overview shows.
const EVENTS_IN_OVERVIEW: u16 = 5;
/// Invitations that the overview shows; all are on the page of workspaces.
const INVITATIONS_IN_OVERVIEW: i64 = 5;

pub async fn overview(app: &App, browser: &Browser) -> Result<AccountOverview, AccountError> {
    let user_id = signed_in(browser)?.user_id;
    let events = activity::page_of(app, user_id, PageRequest::first(EVENTS_IN_OVERVIEW)).await?.data;
    let now = app.clock.now();
    let epoch = app.revocations.epoch()?;
    let db = app.database.connect().await?;
    let invitations = received_invitations::pending(app, &db, user_id, None, INVITATIONS_IN_OVERVIEW).await?;
    Ok(AccountOverview {
        name: store::users::find(&db, user_id).await?.and_then(|user| user.name),
        new_address: store::address_changes::find(&db, user_id, now).await?.map(|change| change.address),
        passkeys: store::passkeys::count_by_user(&db, user_id).await?,
        browsers: store::browser_sessions::count_by_user(&db, user_id, now, browser_session::idle_since(now)).await?,
        sessions: store::grants::count_by_user(&db, user_id, now, rotation::idle_since(now)).await?,
        apps: store::consents::count_by_user(&db, user_id, consents::counting_at(now)).await?,
        tokens: store::cli_tokens::count_live(&db, user_id, epoch, now).await?,
        workspaces: store::workspaces::count_by_user(&db, user_id).await?,
        invitations,
        events,
    })
}

/// Signs this browser out.
pub async fn sign_out(app: &App, meta: &RequestMeta, browser: &Browser) -> anyhow::Result<()> {
    let db = app.database.begin().await?;
    store::browser_sessions::delete(&db, browser.id).await?;
    if let Some(person) = &browser.person {
        let event = meta.event(EventName::SessionEnded, app.clock.now(), json!({ "by": browser.id }))?;
        event.user(person.user_id).subject(browser.id).insert(&db).await?;
    }
    Ok(db.commit().await?)
}
