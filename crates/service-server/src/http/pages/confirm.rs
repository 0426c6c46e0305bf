//! The pages that ask before something is revoked or removed. They are pages of their own, because there are no scripts.
//!
//! A question shows only what the user who is asked may see, and changes nothing. Its form has the guards of every form.

use askama::Template;
use axum::{http::StatusCode, response::Response};

use crate::{
    app::App,
    flows::sign_in::browser_session::Browser,
    http::{
        errors::ApiError,
        pages::{STYLESHEET, page},
    },
    locales::Texts,
};

#[derive(Template)]
#[template(path = "pages/confirm.html")]
struct ConfirmPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    csrf: String,
    question: &'a Question<'a>,
}

/// A question about something that is to be revoked or removed.
#[derive(Default)]
pub(super) struct Question<'a> {
    pub(super) title: String,
    pub(super) text: String,
    /// What the answer is about, if the title does not name it.
    pub(super) things: Vec<String>,
    /// Where the form is sent.
    pub(super) action: String,
    /// A field that the form has besides the button.
    pub(super) field: Option<HiddenField>,
    pub(super) button: &'a str,
    /// Where a user goes who cancels.
    pub(super) back: String,
    /// What a session created that still works. The user decides what becomes of it.
    pub(super) made: Vec<String>,
}

/// A field of a form that users do not see.
pub(super) struct HiddenField {
    pub(super) name: &'static str,
    pub(super) value: String,
}

impl HiddenField {
    /// What a form needs that was made for a box to be ticked: the question has been asked.
    pub(super) fn sure() -> Self {
        Self { name: "sure", value: "true".to_owned() }
    }
}

impl Question<'_> {
    pub(super) fn show(&self, app: &App, browser: &Browser, t: &Texts) -> Result<Response, ApiError> {
        let csrf = browser.form_token(app);
        let template = ConfirmPage { t, title: &self.title, stylesheet: STYLESHEET, csrf, question: self };
        page(t, StatusCode::OK, &template, None)
    }
}
