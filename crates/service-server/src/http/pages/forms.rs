//! What a browser gets after a form of the account and workspace pages, and what pages say about a refused name.

use axum::{http::StatusCode, response::Response};
use service_rules::display_name::DisplayNameError;

use crate::locales::Texts;

/// What a browser gets after a form.
pub(super) enum FormOutcome {
    /// Another page: the form's own when it was carried out, or the one where the user has to sign in first.
    Redirect(Response),
    /// The form's page again, with a problem.
    Problem(FormProblem),
}

/// What a page says about a form that was not carried out.
pub(super) struct FormProblem {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

/// The status and the sentence that a page is shown with.
pub(super) fn with_problem(problem: Option<FormProblem>) -> (StatusCode, Option<String>) {
    problem.map_or((StatusCode::OK, None), |problem| (problem.status, Some(problem.text)))
}

/// What a page says about a name that other users would read, and that is not allowed.
pub(super) fn refused_name(t: &Texts, refusal: DisplayNameError) -> String {
    let texts = &t.workspaces;
    match refusal {
        DisplayNameError::Length(max) => texts.name_length.with("max", max).to_string(),
        DisplayNameError::Invisible => texts.name_invisible.to_string(),
        DisplayNameError::Link => texts.name_link.to_string(),
        DisplayNameError::MixedScripts => texts.name_scripts.to_string(),
        DisplayNameError::Reserved => texts.name_reserved.to_string(),
    }
}
