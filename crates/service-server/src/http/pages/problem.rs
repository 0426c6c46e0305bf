//! Pages that say what went wrong, and what to do.

use askama::Template;
use axum::{http::StatusCode, response::Response};

use crate::http::{
    error::ApiError,
    pages::{STYLESHEET, page},
};

#[derive(Template)]
#[template(path = "pages/problem.html")]
struct Problem<'a> {
    title: &'a str,
    stylesheet: &'a str,
    heading: &'a str,
    text: &'a str,
    next: &'a str,
    request_id: &'a str,
    link: Option<Link<'a>>,
}

pub struct Link<'a> {
    pub href: &'a str,
    pub text: &'a str,
}

/// An error of whatever kind, on a page.
#[must_use]
pub fn show(error: &ApiError, request_id: &str) -> Response {
    let (heading, next) = match error.status().as_u16() {
        403 => ("This did not come from our page", "Go back to where you began, and begin again there."),
        404 => ("There is nothing here", "Check the address, or go to your account."),
        429 => ("Too many at once", "Wait a moment, then try again."),
        503 => ("We could not do this just now", "Wait a moment, then try again. Nothing is lost."),
        500.. => {
            ("Something went wrong on our side", "Try again later. If it stays like this, tell us the number below.")
        }
        _ => ("This cannot be done", "Go back to where you began. If an app sent you here, tell its makers."),
    };
    let told = Told { status: error.status(), heading, text: error.description(), next, link: None };
    let mut response = told.show(request_id).unwrap_or_else(|error| error.render(request_id));
    for (name, value) in error.headers() {
        response.headers_mut().insert(name.clone(), value);
    }
    response
}

/// A problem in words of its own.
pub(super) struct Told<'a> {
    pub(super) status: StatusCode,
    pub(super) heading: &'a str,
    pub(super) text: &'a str,
    pub(super) next: &'a str,
    pub(super) link: Option<Link<'a>>,
}

impl Told<'_> {
    pub(super) fn show(self, request_id: &str) -> Result<Response, ApiError> {
        let Self { status, heading, text, next, link } = self;
        let template = Problem { title: heading, stylesheet: STYLESHEET, heading, text, next, request_id, link };
        page(status, &template, None)
    }
}
