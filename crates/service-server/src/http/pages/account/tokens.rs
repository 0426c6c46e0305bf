//! `/account/tokens`: CLI tokens, for scripts and programs that cannot sign in by themselves.
//!
//! The page that shows a new token is the response to the form, so that its secret is stored nowhere and is in no URL. The
//! form has an idempotency key: sent again, it creates nothing, and the page says that the token was shown once.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use service_api::{
    cli_tokens::{CreatedCliToken, ListedCliToken, Status},
    ids::WorkspaceId,
    workspaces::PERSONAL,
};
use service_rules::space::SpaceError;

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{self, AccountError, tokens::TokenList as Found},
        tokens::cli_tokens::CliTokenError,
    },
    http::{
        errors::ApiError,
        pages::{
            Choice, Moments, STYLESHEET, When,
            account::{
                AccountPage, Frame, Reader, after_form, next_page, not_shown, space_name,
                token_form::{self, TokenForm},
            },
            confirm::Question,
            done::Done,
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
    form: TokenForm,
    later_page: bool,
    next: Option<String>,
}

struct TokenShown {
    id: String,
    name: String,
    hint: String,
    space: String,
    /// What it may do, one sentence a scope.
    may: Vec<String>,
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
    tokens_page(Reader::of(&app, &meta, &browser).after(&query), query.get("cursor"), None, TokenForm::new()?).await
}

pub async fn create(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let reader = Reader::of(&app, &meta, &form.browser);
    let request = token_form::wanted(&form);
    if let Err(problem) = token_form::check(reader.t, &request) {
        return tokens_page(reader, None, None, TokenForm::again(&request, problem)?).await;
    }
    let failure = match account::tokens::create(&app, &meta, &form.browser, &request, token_form::key(&form)).await {
        Ok(created) => return created_page(&app, reader.t, &created),
        Err(AccountError::Token(refusal)) => match token_form::field_problem(reader.t, refusal, &app.config.base_url) {
            Ok(problem) => return tokens_page(reader, None, None, TokenForm::again(&request, problem)?).await,
            Err(refusal) => AccountError::Token(refusal),
        },
        Err(failure) => failure,
    };
    answer(reader, Err(failure)).await
}

/// Asks before a token is revoked.
pub async fn confirm_revoke(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let reader = Reader::of(&app, &meta, &browser);
    let texts = &reader.t.account;
    match account::tokens::find_name(&app, &browser, &id).await {
        Ok(name) => {
            let question = Question {
                title: reader.t.confirm.revoke_token.with("name", name).to_string(),
                text: reader.t.confirm.revoke_token_text.to_string(),
                action: format!("/account/tokens/{id}/revoke"),
                button: &texts.tokens.revoke,
                back: AccountPage::Tokens.path().to_owned(),
                ..Question::default()
            };
            question.show(&app, &browser, reader.t)
        }
        Err(failure) => answer(reader, Err(failure)).await,
    }
}

pub async fn revoke(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let done = account::tokens::revoke(&app, &meta, &form.browser, &id).await.map(Done::TokenRevoked);
    let reader = Reader::of(&app, &meta, &form.browser);
    answer(reader, done).await
}

/// Asks before all suspected tokens are revoked.
pub async fn confirm_revoke_suspected(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let reader = Reader::of(&app, &meta, &browser);
    let suspected = match account::tokens::list_suspected(&app, &browser).await {
        Ok(suspected) if suspected.is_empty() => return see_other(AccountPage::Tokens.path()),
        Ok(suspected) => suspected,
        Err(failure) => return not_shown(failure, AccountPage::Tokens),
    };
    let texts = &reader.t.confirm;
    let question = Question {
        title: texts.revoke_tokens.to_string(),
        text: texts.revoke_tokens_text.to_string(),
        things: suspected.into_iter().map(|token| format!("{} {}", token.name, token.hint)).collect(),
        action: "/account/suspected-tokens/revoke".to_owned(),
        button: &reader.t.account.tokens.suspected_revoke,
        back: AccountPage::Tokens.path().to_owned(),
        ..Question::default()
    };
    question.show(&app, &browser, reader.t)
}

pub async fn revoke_suspected(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let done = account::tokens::revoke_suspected(&app, &meta, &form.browser).await;
    let done = done.map(|()| Done::SuspectedTokensRevoked);
    let reader = Reader::of(&app, &meta, &form.browser);
    answer(reader, done).await
}

/// The response to a form of this page.
async fn answer(reader: Reader<'_>, done: Result<Done, AccountError>) -> Result<Response, ApiError> {
    match after_form(reader, done, AccountPage::Tokens).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => tokens_page(reader, None, Some(problem), TokenForm::new()?).await,
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
    form: TokenForm,
) -> Result<Response, ApiError> {
    let Reader { app, browser, t, .. } = reader;
    let found = match account::tokens::list(app, browser, cursor).await {
        Ok(found) => found,
        Err(failure) => return not_shown(failure, AccountPage::Tokens),
    };
    let name = t.spaces.personal.to_string();
    let personal = Choice { value: PERSONAL.into(), name, owner: None, checked: false };
    let others = found.workspaces.iter();
    let choice = |(id, name): (&WorkspaceId, &String)| Choice {
        value: id.to_string(),
        name: name.clone(),
        owner: None,
        checked: id.to_string() == form.space,
    };
    let others = others.map(choice);
    let (status, problem) = with_problem(problem);
    let status = form.problem.as_ref().map_or(status, |problem| problem.status);
    let template = TokensPage {
        t,
        title: &t.account.tokens.title,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Tokens, problem),
        tokens: found.tokens.data.iter().map(|token| shown(reader.moments(), &found, token)).collect(),
        suspected: found.suspected.iter().map(|token| shown(reader.moments(), &found, token)).collect(),
        spaces: std::iter::once(personal).chain(others).collect(),
        form,
        later_page: cursor.is_some(),
        next: next_page(AccountPage::Tokens, "", found.tokens.next_cursor.as_deref()),
    };
    page(t, status, &template, None)
}

fn shown(moments: Moments<'_>, found: &Found, token: &ListedCliToken) -> TokenShown {
    let t = moments.t;
    let texts = &t.account.tokens;
    TokenShown {
        id: token.id.to_string(),
        name: token.name.clone(),
        hint: token.hint.clone(),
        space: space_name(t, &found.workspaces, token.workspace_id),
        may: token.scopes.words().map(|word| t.scope(word).to_owned()).collect(),
        created: moments.of(token.created_at),
        expires: moments.of(token.expires_at),
        used: token.last_used_at.map(|at| moments.of(at)),
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
        CliTokenError::Space(SpaceError::PasskeyRequired) => t.workspace.kept_out.to_string(),
        CliTokenError::Space(_) => t.spaces.no_access.to_string(),
        CliTokenError::Limited(limited) => {
            t.workspace.limited.with("wait", t.duration(limited.retry_after.into())).to_string()
        }
        CliTokenError::TooMany => texts.limit.to_string(),
        CliTokenError::AlreadyCreated => texts.already_created.to_string(),
        CliTokenError::NotFound | CliTokenError::Inactive | CliTokenError::InvalidCursor(_) => texts.gone.to_string(),
        CliTokenError::Bearer(_) | CliTokenError::UserSessionRequired(_) => t.problem.forbidden_text.to_string(),
        CliTokenError::Database(_) | CliTokenError::Defect(_) => t.problem.unavailable.to_string(),
    }
}
