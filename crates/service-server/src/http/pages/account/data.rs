//! `/account/data`: starting an export of everything that is stored about the user, and downloading it.

use std::convert::Infallible;

use askama::Template;
use axum::{
    Extension,
    extract::{FromRequestParts, State},
    http::{Method, StatusCode, request::Parts},
    response::Response,
};
use service_api::account_exports::{AccountExport, ExportStatus, MAX_EXPORTS_PER_DAY};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{
            AccountError,
            export::{self, ExportError},
        },
    },
    http::{
        download::Download,
        errors::ApiError,
        pages::{
            Moments, STYLESHEET, When,
            account::{AccountPage, Frame, Reader, after_form, not_shown},
            done::Done,
            forms::{FormOutcome, FormProblem, with_problem},
            page,
            request_browser::{Form, RequestBrowser},
            see_other,
        },
        path::PathId,
        query::Query,
    },
    locales::Texts,
};

const PATH: &str = "/account/data";

#[derive(Template)]
#[template(path = "pages/account/data.html")]
struct DataPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    exports: Vec<ExportShown>,
}

/// An export that this browser started.
struct ExportShown {
    created: When,
    expires: When,
    status: String,
    /// Where it is downloaded. `None`: it was downloaded as often as possible, or it is being downloaded.
    href: Option<String>,
}

impl ExportShown {
    fn of(moments: Moments<'_>, export: &AccountExport) -> Self {
        let texts = &moments.t.account.data;
        let status = match export.status {
            ExportStatus::Running => texts.running.to_string(),
            _ if export.downloads_left == 0 => texts.used_up.to_string(),
            ExportStatus::Ready => texts.not_downloaded.to_string(),
            ExportStatus::Finished => texts.downloaded.to_string(),
        };
        let can_be_downloaded = export.downloads_left > 0 && export.status != ExportStatus::Running;
        Self {
            created: moments.of(export.created_at),
            expires: moments.of(export.expires_at),
            status,
            href: can_be_downloaded.then(|| format!("{PATH}/{}", export.id)),
        }
    }
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    data_page(Reader::of(&app, &meta, &browser).after(&query), None).await
}

/// Starts an export for this browser.
pub async fn start(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let started = export::start_from_browser(&app, &meta, &form.browser).await;
    let reader = Reader::of(&app, &meta, &form.browser);
    match started {
        Ok(_) => see_other(&format!("{PATH}?done={}", Done::ExportStarted.seal(&app, &form.browser)?)),
        Err(failure) => after(reader, failure).await,
    }
}

/// The id of the export whose file a request wants; `None`: a `HEAD`, which wants only headers.
pub struct WantedFile(Option<String>);

impl<S: Sync> FromRequestParts<S> for WantedFile {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let PathId(id) = PathId::from_request_parts(parts, state).await?;
        Ok(Self((parts.method != Method::HEAD).then_some(id)))
    }
}

/// Downloads an export in the browser that started it. A `HEAD` begins no download.
pub async fn download(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    WantedFile(id): WantedFile,
    _: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let Some(id) = id else { return see_other(PATH) };
    match export::download_in_browser(&app, &meta, &browser, &id).await {
        Ok(body) => Ok(Download::new(body).into_page()),
        Err(AccountError::NotFound) => see_other(PATH),
        Err(failure) => after(Reader::of(&app, &meta, &browser), failure).await,
    }
}

/// The page with a problem, or the page where the user has to sign in first.
async fn after(reader: Reader<'_>, failure: AccountError) -> Result<Response, ApiError> {
    match after_form(reader, Err(failure), AccountPage::Security).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => data_page(reader, Some(problem)).await,
    }
}

async fn data_page(reader: Reader<'_>, problem: Option<FormProblem>) -> Result<Response, ApiError> {
    let Reader { app, meta, browser, t, .. } = reader;
    let found = match export::list_for_browser(app, meta, browser).await {
        Ok(found) => found,
        Err(failure) => return not_shown(failure, AccountPage::Security),
    };
    let (status, problem) = with_problem(problem);
    let moments = reader.moments();
    let template = DataPage {
        t,
        title: &t.account.data.title,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Security, problem),
        exports: found.iter().map(|export| ExportShown::of(moments, export)).collect(),
    };
    page(t, status, &template, None)
}

/// What the page says about an export that was not started or downloaded.
pub(super) fn refused(t: &Texts, refusal: &ExportError) -> FormProblem {
    let texts = &t.account.data;
    let (status, text) = match refusal {
        ExportError::Limited(limited) => {
            let wait = t.duration(limited.retry_after.into());
            let text = texts.limited.with("count", MAX_EXPORTS_PER_DAY).with("wait", wait).to_string();
            (StatusCode::TOO_MANY_REQUESTS, text)
        }
        ExportError::Running => (StatusCode::TOO_MANY_REQUESTS, texts.is_running.to_string()),
        ExportError::Busy => (StatusCode::SERVICE_UNAVAILABLE, texts.busy.to_string()),
        _ => (StatusCode::CONFLICT, texts.too_often.to_string()),
    };
    FormProblem { status, text }
}
