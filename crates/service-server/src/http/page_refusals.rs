//! What the refusals look like of everything that begins in a browser: asking for access, agreeing, the code that comes of
//! it, and clients that register themselves.

use service_api::errors::ErrorCode::*;

use crate::{
    flows,
    http::{
        error::{ApiError, error},
        refusals::unusable,
    },
};

/// A form that no page of ours sent, or not in this browser.
#[must_use]
pub fn foreign_form() -> ApiError {
    error(Forbidden, "This form was not sent from our page in this browser, so nothing was done.")
}

#[must_use]
pub fn unknown_browser() -> ApiError {
    error(Forbidden, "We do not know this browser; it may block cookies, or you took too long.")
}

/// A sign-in that is under way in another browser, or nowhere.
#[must_use]
pub fn foreign_flow() -> ApiError {
    error(Forbidden, "This sign-in was begun in another browser, or too long ago.")
}

impl From<flows::authorize::NotBegun> for ApiError {
    fn from(refusal: flows::authorize::NotBegun) -> Self {
        use flows::{authorize::NotBegun, client_documents};
        use service_rules::authorization::NoClient;
        match refusal {
            NotBegun::NoClient(NoClient::Unknown) => error(InvalidRequest, "There is no such app here."),
            NotBegun::NoClient(NoClient::Disabled) => error(InvalidRequest, "This app was disabled by an operator."),
            NotBegun::NoClient(NoClient::RedirectUri) => {
                error(InvalidRequest, "The app wants its answer sent to an address that it never registered.")
            }
            NotBegun::NoClient(NoClient::Repeated) => {
                error(InvalidRequest, "The request names its app or its address twice.")
            }
            NotBegun::Limited(limited) | NotBegun::Document(client_documents::Refusal::Limited(limited)) => {
                limited.into()
            }
            NotBegun::Document(client_documents::Refusal::Address) => {
                error(InvalidRequest, "The app's name is not the address of a document about it.")
            }
            NotBegun::Document(client_documents::Refusal::NotFetched) => {
                error(InvalidRequest, "The document about this app could not be fetched.")
            }
            NotBegun::Document(client_documents::Refusal::Document(why)) => {
                error(InvalidRequest, format!("The document about this app does not do: {why}"))
            }
        }
    }
}

impl From<flows::agree::NotDone> for ApiError {
    fn from(refusal: flows::agree::NotDone) -> Self {
        match refusal {
            flows::agree::NotDone::SignIn => unknown_browser(),
            flows::agree::NotDone::Finished => {
                error(InvalidRequest, "This was decided already; the app has had its answer.")
            }
            flows::agree::NotDone::Space => {
                error(InvalidRequest, "That space is not one of yours; go back and choose another.")
            }
        }
    }
}

impl From<flows::exchange_code::Refusal> for ApiError {
    fn from(refusal: flows::exchange_code::Refusal) -> Self {
        use flows::exchange_code::Refusal;
        match refusal {
            Refusal::Client(refusal) => refusal.into(),
            Refusal::Unusable(what) => unusable(what),
            Refusal::Target => error(InvalidTarget, "The code is for another resource; leave resource out."),
            Refusal::Code => error(
                InvalidGrant,
                "The code is not valid for this client; send the person through /oauth/authorize again.",
            ),
        }
    }
}

impl From<flows::register_client::Refusal> for ApiError {
    fn from(refusal: flows::register_client::Refusal) -> Self {
        use service_rules::registration::Refusal as Said;
        match refusal {
            flows::register_client::Refusal::Said(Said::RedirectUri(text)) => error(InvalidRedirectUri, text),
            flows::register_client::Refusal::Said(Said::Metadata(text)) => error(InvalidClientMetadata, text),
            flows::register_client::Refusal::Limited(limited) => limited.into(),
        }
    }
}
