//! The page that sends a browser to a company's identity provider.

use askama::Template;
use axum::{http::StatusCode, response::Response};

use crate::{
    flows::sso::start::HandOff,
    http::{
        errors::ApiError,
        pages::{STYLESHEET, page},
    },
    locales::Texts,
};

#[derive(Template)]
#[template(path = "pages/hand_off.html")]
struct HandOffPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    company: &'a str,
    location: &'a str,
}

/// A page and no redirect: one of a form would be bound by the form's content security policy, and so would every redirect
/// of the provider.
pub(super) fn show(t: &Texts, hand_off: &HandOff) -> Result<Response, ApiError> {
    let HandOff { company, location } = hand_off;
    let title = t.sso.handing_off.with("company", company).to_string();
    page(t, StatusCode::OK, &HandOffPage { t, title: &title, stylesheet: STYLESHEET, company, location }, None)
}
