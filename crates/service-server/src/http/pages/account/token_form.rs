//! The form that creates a CLI token: what the user entered, what is wrong with it, and the key that lets one form create
//! one token.

use axum::http::StatusCode;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use service_api::cli_tokens::CreateCliToken;

use crate::{
    crypto::random,
    flows::tokens::cli_tokens::CliTokenError,
    http::{
        errors::api,
        pages::{account::tokens::refused, request_browser::Form},
    },
    locales::Texts,
};

/// The days after which a token can expire. A program can choose any other number.
const EXPIRY_DAYS: [i64; 4] = [7, 30, 90, 365];
const DEFAULT_EXPIRY_DAYS: i64 = 90;
const MAX_KEY_LENGTH: usize = 64;

/// The form, with what the user entered.
pub(super) struct TokenForm {
    /// A reload or a second click sends the same key, and creates no second token.
    pub(super) key: String,
    pub(super) name: String,
    /// The value of the chosen space.
    pub(super) space: String,
    pub(super) days: Vec<DaysShown>,
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) problem: Option<FieldProblem>,
}

/// A number of days to choose.
pub(super) struct DaysShown {
    pub(super) count: i64,
    pub(super) selected: bool,
}

/// What is wrong with a field, shown beside it.
pub(super) struct FieldProblem {
    pub(super) status: StatusCode,
    field: &'static str,
    text: String,
}

impl TokenForm {
    /// An empty form.
    pub(super) fn new() -> anyhow::Result<Self> {
        Self::with("", "", DEFAULT_EXPIRY_DAYS, &["read"])
    }

    /// The form as the user sent it, with what is wrong. It has a new key, because the old one created nothing.
    pub(super) fn again(request: &CreateCliToken, problem: FieldProblem) -> anyhow::Result<Self> {
        let scopes = request.scopes.iter().flatten().map(String::as_str);
        let form = Self::with(
            request.name.as_deref().unwrap_or_default(),
            request.workspace_id.as_deref().unwrap_or_default(),
            request.expires_in_days.unwrap_or(DEFAULT_EXPIRY_DAYS),
            &scopes.collect::<Vec<_>>(),
        )?;
        Ok(Self { problem: Some(problem), ..form })
    }

    fn with(name: &str, space: &str, days: i64, scopes: &[&str]) -> anyhow::Result<Self> {
        Ok(Self {
            key: format!("page-{}", BASE64_URL_SAFE_NO_PAD.encode(random::bytes::<16>()?)),
            name: name.to_owned(),
            space: space.to_owned(),
            days: EXPIRY_DAYS.map(|count| DaysShown { count, selected: count == days }).into(),
            read: scopes.contains(&"read"),
            write: scopes.contains(&"write"),
            problem: None,
        })
    }

    /// What is wrong with a field.
    pub(super) fn problem_of(&self, field: &str) -> Option<&str> {
        self.problem.as_ref().filter(|problem| problem.field == field).map(|problem| problem.text.as_str())
    }
}

/// The token that a form asks for.
pub(super) fn wanted(form: &Form) -> CreateCliToken {
    let words = ["read", "write"].iter().filter(|word| !form.get(word).is_empty());
    CreateCliToken {
        name: Some(form.get("name").to_owned()),
        workspace_id: Some(form.get("space").to_owned()),
        scopes: Some(words.map(|word| (*word).to_owned()).collect()),
        expires_in_days: form.get("days").parse().ok(),
        scope: None,
    }
}

/// The form's key, if it has one of the length that a page gives it.
pub(super) fn key(form: &Form) -> Option<&str> {
    let key = form.get("key");
    let usable = (1..=MAX_KEY_LENGTH).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    usable.then_some(key)
}

/// A request without any permission. The API gives such a token `read`, but a user who ticks nothing may not know that.
pub(super) fn check(texts: &Texts, request: &CreateCliToken) -> Result<(), FieldProblem> {
    if request.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty()) {
        return Ok(());
    }
    let text = texts.account.tokens.no_permission.to_string();
    Err(FieldProblem { status: StatusCode::UNPROCESSABLE_ENTITY, field: "scopes", text })
}

/// What is wrong with a field of the form. `Err`: the error is about no field.
pub(super) fn field_problem(
    texts: &Texts,
    error: CliTokenError,
    base_url: &str,
) -> Result<FieldProblem, CliTokenError> {
    let field = match &error {
        CliTokenError::InvalidField(invalid) if invalid.field == "name" => "name",
        CliTokenError::InvalidField(_) => "days",
        CliTokenError::UnknownScopes(_) | CliTokenError::ScopesDiffer => "scopes",
        CliTokenError::Space(_) => "space",
        _ => return Err(error),
    };
    let text = refused(texts, &error);
    Ok(FieldProblem { status: api::cli_tokens(error, base_url).status(), field, text })
}
