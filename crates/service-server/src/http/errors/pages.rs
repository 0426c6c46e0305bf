//! Responses to browsers: which error code and which sentence each error of an authorization request becomes.

use service_api::errors::ErrorCode::*;
use service_rules::{authorization::RedirectError, registration::RegistrationError};

use crate::{
    flows::{
        account::{
            address_change::links::AddressLinkError, deletion::keep::KeepError, reported_sign_in::SignInReportError,
        },
        oauth::{authorize::AuthorizeError, client_metadata::ClientMetadataError, consent_prompt::ConsentError},
    },
    http::errors::{ApiError, error},
};

/// What went wrong, for a page that says it in the language of its reader.
#[derive(Clone, Debug)]
pub enum PageProblem {
    ForeignForm,
    NotANavigation,
    UnknownBrowser,
    /// The user signed out before.
    SignedOut,
    ForeignFlow,
    /// The link in a mail about a new sign-in was used, or has expired.
    ReportGone,
    /// The change of a link was made, stopped, replaced or not confirmed in time.
    AddressLinkGone,
    /// The link that keeps an account was used, or the account is erased.
    KeepGone,
    UnknownApp,
    DisabledApp,
    RedirectUri,
    Repeated,
    PromptNone,
    MetadataAddress,
    MetadataFailed,
    /// The reason is for the app's developer, in English.
    MetadataInvalid(String),
    Finished,
    Space,
    EndDate,
    /// The workspace requires a passkey from its members, and the account of the reader does not.
    KeptOut,
    /// The request was refused before anything was done.
    Refused,
}

/// A form that no page of ours sent, or not in this browser.
#[must_use]
pub fn foreign_form() -> ApiError {
    error(Forbidden, "This form was not sent from our page in this browser. Nothing was changed.")
        .on_page(PageProblem::ForeignForm)
}

/// A page that begins a sign-in was fetched by something else than a browser that navigates there.
#[must_use]
pub fn not_a_navigation() -> ApiError {
    error(Forbidden, "A sign-in starts only when a browser opens this page. Open the address in a tab.")
        .on_page(PageProblem::NotANavigation)
}

#[must_use]
pub fn unknown_browser() -> ApiError {
    error(Forbidden, "Cookies may be blocked, or this page was open too long.").on_page(PageProblem::UnknownBrowser)
}

/// A sign-in that is under way in another browser, or nowhere.
#[must_use]
pub fn foreign_flow() -> ApiError {
    error(Forbidden, "This sign-in was started in another browser or has expired.").on_page(PageProblem::ForeignFlow)
}

fn invalid(problem: PageProblem, description: impl Into<String>) -> ApiError {
    error(InvalidRequest, description).on_page(problem)
}

impl From<AuthorizeError> for ApiError {
    fn from(failure: AuthorizeError) -> Self {
        match failure {
            AuthorizeError::Redirect(RedirectError::UnknownClient) => {
                invalid(PageProblem::UnknownApp, "We don't recognize this app.")
            }
            AuthorizeError::Redirect(RedirectError::DisabledClient) => {
                invalid(PageProblem::DisabledApp, "This app has been disabled.")
            }
            AuthorizeError::Redirect(RedirectError::UnregisteredUri) => {
                invalid(PageProblem::RedirectUri, "The app's redirect address isn't registered.")
            }
            AuthorizeError::Redirect(RedirectError::Repeated) => {
                invalid(PageProblem::Repeated, "The request names its app or its redirect address twice.")
            }
            AuthorizeError::PromptNone => invalid(
                PageProblem::PromptNone,
                "The app wanted to continue without a sign-in, but the user is not signed in.",
            ),
            AuthorizeError::ClientMetadata(failure) => failure.into(),
            AuthorizeError::RateLimit(failure) => failure.into(),
            AuthorizeError::Database(error) => error.into(),
            AuthorizeError::Defect(error) => error.into(),
        }
    }
}

impl From<ClientMetadataError> for ApiError {
    fn from(failure: ClientMetadataError) -> Self {
        let unusable = |why: &str| {
            invalid(
                PageProblem::MetadataInvalid(why.to_owned()),
                format!("The client metadata document is invalid: {why}"),
            )
        };
        match failure {
            ClientMetadataError::InvalidUrl => {
                invalid(PageProblem::MetadataAddress, "The client ID isn't the URL of a client metadata document.")
            }
            ClientMetadataError::NotFetched => {
                invalid(PageProblem::MetadataFailed, "The client metadata document could not be loaded.")
            }
            ClientMetadataError::NotJson => unusable("It must be a JSON object."),
            ClientMetadataError::Metadata(RegistrationError::RedirectUri(why) | RegistrationError::Metadata(why)) => {
                unusable(&why)
            }
            ClientMetadataError::BlockedHost => unusable("An operator has blocked this app."),
            ClientMetadataError::Limited(limited) => limited.into(),
            ClientMetadataError::Database(error) => error.into(),
            ClientMetadataError::Defect(error) => error.into(),
        }
    }
}

impl From<ConsentError> for ApiError {
    fn from(failure: ConsentError) -> Self {
        match failure {
            ConsentError::SignInRequired => unknown_browser(),
            ConsentError::Finished => invalid(PageProblem::Finished, "This request has already been completed."),
            ConsentError::NoAccessToSpace => invalid(PageProblem::Space, "You don't have access to that workspace."),
            ConsentError::UnavailableEndDate => {
                invalid(PageProblem::EndDate, "Access can't end on that date. Choose another one.")
            }
            ConsentError::Database(error) => error.into(),
            ConsentError::Defect(error) => error.into(),
        }
    }
}

impl From<AddressLinkError> for ApiError {
    fn from(failure: AddressLinkError) -> Self {
        match failure {
            AddressLinkError::NotFound => {
                error(NotFound, "The address was changed, the change was stopped, or the link has expired.")
                    .on_page(PageProblem::AddressLinkGone)
            }
            AddressLinkError::Database(error) => error.into(),
            AddressLinkError::Defect(error) => error.into(),
        }
    }
}

impl From<KeepError> for ApiError {
    fn from(failure: KeepError) -> Self {
        match failure {
            KeepError::NotFound => {
                error(NotFound, "This link was used, or the account is erased.").on_page(PageProblem::KeepGone)
            }
            KeepError::Database(error) => error.into(),
            KeepError::Defect(error) => error.into(),
        }
    }
}

impl From<SignInReportError> for ApiError {
    fn from(failure: SignInReportError) -> Self {
        match failure {
            SignInReportError::NotFound => {
                error(NotFound, "This link was used or has expired.").on_page(PageProblem::ReportGone)
            }
            SignInReportError::Database(error) => error.into(),
            SignInReportError::Defect(error) => error.into(),
        }
    }
}
