//! What a browser gets after a form of the account and workspace pages.

use axum::{http::StatusCode, response::Response};

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
