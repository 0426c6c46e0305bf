//! `/account/security`: the person's passkeys, adding, renaming and removing one.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use service_rules::{passkeys::MAX_PASSKEYS, recovery_codes::RecoveryCode};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{
            self, AccountError,
            passkey_requirement::{self, PasskeyRequirementError},
            passkeys::{PasskeyRefusal, RecoveryCodesLeft},
        },
        sign_in::passkey_recovery,
    },
    http::{
        errors::ApiError,
        pages::{
            STYLESHEET, When,
            account::{AccountPage, Frame, Reader, after_form, not_shown},
            confirm::Question,
            done::Done,
            forms::{FormOutcome, FormProblem, with_problem},
            page,
            request_browser::{Form, RequestBrowser},
            script::{self, PASSKEYS},
            see_other,
        },
        path::PathId,
        query::Query,
    },
    locales::Texts,
};

#[derive(Template)]
#[template(path = "pages/account/security.html")]
struct SecurityPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    passkeys: Vec<PasskeyShown>,
    /// Whether a passkey can be added.
    available: bool,
    /// When all passkeys will be removed, because the user has lost them.
    recovery_due: Option<String>,
    /// How many recovery codes are left, if the user can have some.
    recovery_codes: Option<String>,
    /// Whether the user requires a passkey to sign in; `None`: no passkey counts.
    requires_passkey: Option<bool>,
}

struct PasskeyShown {
    id: String,
    name: String,
    is_backed_up: bool,
    created: When,
    used: Option<When>,
}

#[derive(Template)]
#[template(path = "pages/account/new_passkey.html")]
struct NewPasskeyPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    /// What the script asks the browser for, as JSON.
    options: String,
    /// The browser and its system: what the passkey is called unless the person calls it otherwise.
    name: String,
    script: &'static str,
}

#[derive(Template)]
#[template(path = "pages/account/recovery_codes.html")]
struct RecoveryCodesPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    codes: Vec<String>,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    security_page(Reader::of(&app, &meta, &browser).after(&query), None).await
}

/// Asks the browser to create a passkey.
pub async fn new(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let reader = Reader::of(&app, &meta, &form.browser);
    let options = match account::passkeys::begin(&app, &meta, &form.browser).await {
        Ok(options) => options.to_string(),
        Err(failure) => return after(reader, Err(failure)).await,
    };
    let t = reader.t;
    let template = NewPasskeyPage {
        t,
        title: &t.account.security.new_title,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Security, None),
        options,
        name: t.device(meta.agent),
        script: PASSKEYS,
    };
    Ok(script::allow(page(t, StatusCode::OK, &template, None)?))
}

pub async fn add(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let added = account::passkeys::add(&app, &meta, &form.browser, form.get("name"), form.get("response")).await;
    after(Reader::of(&app, &meta, &form.browser), added.map(Done::PasskeyAdded)).await
}

pub async fn rename(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let renamed = account::passkeys::rename(&app, &meta, &form.browser, &id, form.get("name")).await;
    after(Reader::of(&app, &meta, &form.browser), renamed.map(Done::PasskeyRenamed)).await
}

/// Asks before a passkey is removed.
pub async fn confirm_remove(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let reader = Reader::of(&app, &meta, &browser);
    let (passkey, is_last) = match account::passkeys::find(&app, &browser, &id).await {
        Ok(found) => found,
        Err(failure) => return after(reader, Err(failure)).await,
    };
    let texts = &reader.t.confirm;
    let text = if is_last { &texts.remove_last_passkey_text } else { &texts.remove_passkey_text };
    let question = Question {
        title: texts.remove_passkey.with("name", &passkey.name).to_string(),
        text: text.to_string(),
        action: format!("{}/passkeys/{id}/remove", AccountPage::Security.path()),
        button: &reader.t.account.security.remove,
        back: AccountPage::Security.path().to_owned(),
        ..Question::default()
    };
    question.show(&app, &browser, reader.t)
}

pub async fn remove(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let removed = account::passkeys::remove(&app, &meta, &form.browser, &id).await;
    after(Reader::of(&app, &meta, &form.browser), removed.map(Done::PasskeyRemoved)).await
}

/// Creates recovery codes, and shows them this once.
pub async fn create_recovery_codes(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let reader = Reader::of(&app, &meta, &form.browser);
    let codes = match account::recovery_codes::create(&app, &meta, &form.browser).await {
        Ok(codes) => codes,
        Err(failure) => return after(reader, Err(failure)).await,
    };
    let t = reader.t;
    let template = RecoveryCodesPage {
        t,
        title: &t.account.recovery_codes.title,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Security, None),
        codes: codes.iter().map(RecoveryCode::written).collect(),
    };
    page(t, StatusCode::OK, &template, None)
}

/// Requires a passkey to sign in.
pub async fn require_passkey(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let set = passkey_requirement::set_from_browser(&app, &meta, &form.browser, true).await;
    after(Reader::of(&app, &meta, &form.browser), set.map(|()| Done::PasskeyRequired)).await
}

/// Allows to sign in by code again.
pub async fn allow_codes(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let set = passkey_requirement::set_from_browser(&app, &meta, &form.browser, false).await;
    after(Reader::of(&app, &meta, &form.browser), set.map(|()| Done::CodesAllowed)).await
}

/// Begins to remove all passkeys, for a user who has lost them.
pub async fn begin_recovery(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let begun = passkey_recovery::begin(&app, &meta, &form.browser).await.map(|()| Done::PasskeyRecoveryBegun);
    after(Reader::of(&app, &meta, &form.browser), begun.map_err(Into::into)).await
}

/// Keeps the passkeys.
pub async fn stop_recovery(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let stopped = passkey_recovery::stop(&app, &meta, &form.browser).await.map(|()| Done::PasskeyRecoveryStopped);
    after(Reader::of(&app, &meta, &form.browser), stopped.map_err(Into::into)).await
}

/// The list again, or the page where the user has to sign in first.
async fn after(reader: Reader<'_>, done: Result<Done, AccountError>) -> Result<Response, ApiError> {
    match after_form(reader, done, AccountPage::Security).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => security_page(reader, Some(problem)).await,
    }
}

async fn security_page(reader: Reader<'_>, problem: Option<FormProblem>) -> Result<Response, ApiError> {
    let Reader { app, browser, t, .. } = reader;
    let found = match account::passkeys::list(app, browser).await {
        Ok(found) => found,
        Err(failure) => return not_shown(failure, AccountPage::Security),
    };
    let (status, problem) = with_problem(problem);
    let moments = reader.moments();
    let passkeys = found.passkeys.iter().map(|passkey| PasskeyShown {
        id: passkey.id.to_string(),
        name: passkey.name.clone(),
        is_backed_up: passkey.is_backed_up,
        created: moments.of(passkey.created_at),
        used: passkey.last_used_at.map(|at| moments.of(at)),
    });
    let template = SecurityPage {
        t,
        title: &t.account.nav.security,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Security, problem),
        passkeys: passkeys.collect(),
        available: found.available,
        recovery_due: found.recovery_due.map(|at| t.moment(at)),
        recovery_codes: found.counts.then(|| recovery_codes_left(reader, found.recovery_codes)),
        requires_passkey: (found.counts || found.required).then_some(found.required),
    };
    page(t, status, &template, None)
}

fn recovery_codes_left(reader: Reader<'_>, left: Option<RecoveryCodesLeft>) -> String {
    let texts = &reader.t.account.recovery_codes;
    let Some(left) = left else { return texts.none.to_string() };
    let created = reader.moments().of(left.created_at).text;
    texts.left.count(left.count.into()).with("date", created).to_string()
}

/// What the page says about a requirement that was not changed.
pub(super) fn requirement_refused(t: &Texts, refusal: &PasskeyRequirementError) -> FormProblem {
    let texts = &t.account.security;
    let (status, text) = match refusal {
        PasskeyRequirementError::Limited(limited) => {
            let wait = t.duration(limited.retry_after.into());
            (StatusCode::TOO_MANY_REQUESTS, t.workspace.limited.with("wait", wait).to_string())
        }
        PasskeyRequirementError::SsoRequired => (StatusCode::CONFLICT, texts.require_sso.to_string()),
        _ => (StatusCode::CONFLICT, texts.require_none_counts.to_string()),
    };
    FormProblem { status, text }
}

/// What the page says about a passkey that was not added.
pub(super) fn refused(t: &Texts, refusal: PasskeyRefusal) -> FormProblem {
    let texts = &t.account.security;
    let (status, text) = match refusal {
        PasskeyRefusal::Unavailable => (StatusCode::NOT_FOUND, texts.unavailable.to_string()),
        PasskeyRefusal::NotAccepted(_) => (StatusCode::BAD_REQUEST, texts.refused.to_string()),
        PasskeyRefusal::InUse => (StatusCode::CONFLICT, texts.in_use.to_string()),
        PasskeyRefusal::TooMany => (StatusCode::CONFLICT, texts.too_many.with("count", MAX_PASSKEYS).to_string()),
        PasskeyRefusal::NoneCounts => (StatusCode::CONFLICT, texts.none_counts.to_string()),
        PasskeyRefusal::Name(_) => (StatusCode::BAD_REQUEST, texts.invalid_name.to_string()),
        PasskeyRefusal::Limited(limited) => {
            let wait = t.duration(limited.retry_after.into());
            (StatusCode::TOO_MANY_REQUESTS, t.workspace.limited.with("wait", wait).to_string())
        }
    };
    FormProblem { status, text }
}
