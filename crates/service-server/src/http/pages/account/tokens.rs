//! `/account/tokens`: CLI tokens, for scripts and programs that cannot sign in by themselves.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use service_api::{
    cli_tokens::{CreateCliToken, CreatedCliToken, ListedCliToken, Status},
    ids::WorkspaceId,
    workspaces::PERSONAL,
};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{self, tokens::TokenList as Found},
        tokens::cli_tokens::CliTokenError,
    },
    http::{
        errors::ApiError,
        pages::{
            Choice, STYLESHEET, When,
            account::{AccountPage, Frame, Reader, after_form, next_page, not_shown, space_name},
            forms::{FormOutcome, FormProblem, with_problem},
            page,
            request_browser::{Form, RequestBrowser},
            see_other,
        },
        path::PathId,
        query::Query,
    },
    locales::{Sentence, Texts},
};

#[derive(Template)]
#[template(path = "pages/account/tokens.html")]
struct TokensPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    tokens: Vec<TokenShown>,
    /// Tokens that their owner should look at.
    suspected: Vec<TokenShown>,
    spaces: Vec<Choice>,
    later_page: bool,
    next: Option<String>,
}

struct TokenShown {
    id: String,
    name: String,
    hint: String,
    space: String,
    scopes: String,
    created: When,
    expires: When,
    used: Option<When>,
    live: bool,
    state: String,
    /// The session or browser that created it.
    made_by: Option<String>,
}

#[derive(Template)]
#[template(path = "pages/account/token_created.html")]
struct TokenCreated<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    name: &'a str,
    token: &'a str,
    /// That it was created, and when it expires.
    lead: Sentence,
    base_url: &'a str,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    tokens_page(Reader::of(&app, &meta, &browser), query.get("cursor"), None).await
}

pub async fn create(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let words = ["read", "write"].iter().filter(|word| !form.get(word).is_empty());
    let request = CreateCliToken {
        name: Some(form.get("name").to_owned()),
        workspace_id: Some(form.get("space").to_owned()),
        scopes: Some(words.map(|word| (*word).to_owned()).collect()),
        expires_in_days: form.get("days").parse().ok(),
        scope: None,
    };
    let failure = match account::tokens::create(&app, &meta, &form.browser, &request).await {
        Ok(created) => return created_page(&app, app.locales.of(meta.language), &created),
        Err(failure) => failure,
    };
    let reader = Reader::of(&app, &meta, &form.browser);
    match after_form(reader, Err(failure), AccountPage::Tokens).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => tokens_page(reader, None, Some(problem)).await,
    }
}

pub async fn revoke(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let done = account::tokens::revoke(&app, &meta, &form.browser, &id).await;
    let reader = Reader::of(&app, &meta, &form.browser);
    match after_form(reader, done, AccountPage::Tokens).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => tokens_page(reader, None, Some(problem)).await,
    }
}

pub async fn revoke_suspected(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let done = account::tokens::revoke_suspected(&app, &meta, &form.browser).await;
    let reader = Reader::of(&app, &meta, &form.browser);
    match after_form(reader, done, AccountPage::Tokens).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => tokens_page(reader, None, Some(problem)).await,
    }
}

fn created_page(app: &App, t: &Texts, created: &CreatedCliToken) -> Result<Response, ApiError> {
    let texts = &t.account.token_created;
    let template = TokenCreated {
        t,
        title: &texts.title,
        stylesheet: STYLESHEET,
        name: &created.name,
        token: created.access_token.expose(),
        lead: texts.lead.with("date", t.moment(created.expires_at)),
        base_url: &app.config.base_url,
    };
    page(t, StatusCode::CREATED, &template, None)
}

async fn tokens_page(
    reader: Reader<'_>,
    cursor: Option<&str>,
    problem: Option<FormProblem>,
) -> Result<Response, ApiError> {
    let Reader { app, browser, t, .. } = reader;
    let found = match account::tokens::list(app, browser, cursor).await {
        Ok(found) => found,
        Err(failure) => return not_shown(failure, AccountPage::Tokens),
    };
    let name = t.spaces.personal.to_string();
    let personal = Choice { value: PERSONAL.into(), name, owner: None, checked: true };
    let others = found.workspaces.iter();
    let choice = |(id, name): (&WorkspaceId, &String)| Choice {
        value: id.to_string(),
        name: name.clone(),
        owner: None,
        checked: false,
    };
    let others = others.map(choice);
    let (status, problem) = with_problem(problem);
    let template = TokensPage {
        t,
        title: &t.account.tokens.title,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Tokens, problem),
        tokens: found.tokens.data.iter().map(|token| shown(t, &found, token)).collect(),
        suspected: found.suspected.iter().map(|token| shown(t, &found, token)).collect(),
        spaces: std::iter::once(personal).chain(others).collect(),
        later_page: cursor.is_some(),
        next: next_page(AccountPage::Tokens, "", found.tokens.next_cursor.as_deref()),
    };
    page(t, status, &template, None)
}

fn shown(t: &Texts, found: &Found, token: &ListedCliToken) -> TokenShown {
    let texts = &t.account.tokens;
    TokenShown {
        id: token.id.to_string(),
        name: token.name.clone(),
        hint: token.hint.clone(),
        space: space_name(t, &found.workspaces, token.workspace_id),
        scopes: token.scopes.to_string(),
        created: When::of(t, token.created_at),
        expires: When::of(t, token.expires_at),
        used: token.last_used_at.map(|at| When::of(t, at)),
        live: token.status == Status::Active,
        made_by: token.made_by.as_ref().map(|actor| {
            if actor.starts_with("sess_") {
                texts.by_browser.to_string()
            } else {
                texts.by_session.with("id", actor).to_string()
            }
        }),
        state: match token.status {
            Status::Active => texts.active.to_string(),
            Status::Expired => texts.expired.to_string(),
            Status::Revoked => texts.revoked.to_string(),
        },
    }
}

/// What the page says about a token that was not created or revoked.
pub(super) fn refused(t: &Texts, error: &CliTokenError) -> String {
    let texts = &t.account.tokens;
    match error {
        CliTokenError::InvalidField(invalid) if invalid.field == "name" => texts.invalid_name.to_string(),
        CliTokenError::InvalidField(_) => texts.invalid_days.to_string(),
        CliTokenError::UnknownScopes(_) | CliTokenError::ScopesDiffer => texts.no_permission.to_string(),
        CliTokenError::NotAMember => t.spaces.no_access.to_string(),
        CliTokenError::Limited(limited) => {
            t.workspace.limited.with("wait", t.duration(limited.retry_after.into())).to_string()
        }
        CliTokenError::TooMany => texts.limit.to_string(),
        CliTokenError::NotFound
        | CliTokenError::Inactive
        | CliTokenError::AlreadyCreated
        | CliTokenError::InvalidCursor(_) => texts.gone.to_string(),
        CliTokenError::Bearer(_) | CliTokenError::UserSessionRequired(_) => t.problem.forbidden_text.to_string(),
        CliTokenError::Database(_) | CliTokenError::Defect(_) => t.problem.unavailable.to_string(),
    }
}
