//! Signing in: the address, then the code.

use askama::Template;
use axum::{
    Extension,
    extract::State,
    http::{StatusCode, header},
    response::Response,
};
use service_rules::{limits::Limited, otp};

use crate::{
    app::App,
    failure::Failure,
    flows::{
        Asker,
        authorize::{self, Flow},
        browser::{self, Browser},
        request_otp, sign_in,
    },
    http::{
        error::ApiError,
        page_refusals::{foreign_flow, unknown_browser},
        pages::{
            STYLESHEET,
            authorize::go_on,
            page, see_other,
            visitor::{Form, Visitor},
            with_cookie,
        },
        path::PathId,
    },
};

#[derive(Template)]
#[template(path = "pages/sign_in.html")]
struct SignIn<'a> {
    title: &'a str,
    stylesheet: &'a str,
    csrf: String,
    action: String,
    email: &'a str,
    problem: Option<String>,
    client: Option<String>,
}

#[derive(Template)]
#[template(path = "pages/code.html")]
struct Code<'a> {
    title: &'a str,
    stylesheet: &'a str,
    csrf: String,
    action: String,
    resend_action: String,
    back: String,
    email: &'a str,
    problem: Option<String>,
    wait_class: &'a str,
}

/// `/`
pub async fn home() -> Result<Response, ApiError> {
    see_other("/account")
}

/// Begins a sign-in that no app asked for.
pub async fn begin(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Visitor(browser): Visitor,
) -> Result<Response, ApiError> {
    let browser = match browser {
        Some(browser) if browser.person.is_some() => return see_other("/account"),
        Some(browser) => browser,
        None => browser::open(&app, &asker).await?,
    };
    let flow = authorize::open_flow(&app, &asker, &browser, None).await?;
    let next = authorize::step(&app, &browser, &flow).await?;
    go_on(&asker, Some(&browser), next)
}

pub async fn show(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Visitor(browser): Visitor,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let (browser, flow) = find(&app, browser, &id).await?;
    match authorize::step(&app, &browser, &flow).await? {
        authorize::Next::SignIn(_) => address_page(&app, &browser, &flow, "", None).await,
        next => go_on(&asker, Some(&browser), next),
    }
}

pub async fn send(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let email = form.get("email").to_owned();
    let (browser, flow) = find(&app, Some(form.browser), &id).await?;
    match sign_in::send_code(&app, &asker, &flow, &email).await {
        Ok(()) => see_other(&format!("/sign-in/{id}/code")),
        Err(Failure::Refused(refusal)) => address_page(&app, &browser, &flow, &email, Some(describe(&refusal))).await,
        Err(Failure::Broken(broken)) => Err(broken.into()),
    }
}

pub async fn show_code(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Visitor(browser): Visitor,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let (browser, flow) = find(&app, browser, &id).await?;
    match authorize::step(&app, &browser, &flow).await? {
        authorize::Next::SignIn(_) if flow.email.is_some() => code_page(&app, &browser, &flow, None),
        next => go_on(&asker, Some(&browser), next),
    }
}

pub async fn enter(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let code = zeroize::Zeroizing::new(form.get("code").to_owned());
    let (mut browser, flow) = find(&app, Some(form.browser), &id).await?;
    let wrong = match sign_in::enter_code(&app, &asker, &mut browser, &flow, &code).await {
        Ok(()) => {
            // With the cookie that it has from now on, the browser goes on by itself.
            return Ok(with_cookie(see_other(&format!("/sign-in/{id}"))?, &browser));
        }
        Err(Failure::Broken(broken)) => return Err(broken.into()),
        Err(Failure::Refused(refusal)) => refusal,
    };
    let problem = match wrong {
        otp::Refusal::NotAccepted => {
            let text = "That code is not right, or it is too old. Check it, or ask for another one.";
            Problem { status: StatusCode::BAD_REQUEST, text: text.to_owned(), retry_after: None }
        }
        otp::Refusal::Limited(limited) => Problem::limited(limited, "Too many wrong codes."),
    };
    code_page(&app, &browser, &flow, Some(&problem))
}

pub async fn resend(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let (browser, flow) = find(&app, Some(form.browser), &id).await?;
    let Some(email) = flow.email.clone() else { return see_other(&format!("/sign-in/{id}")) };
    match sign_in::send_code(&app, &asker, &flow, &email).await {
        Ok(()) => see_other(&format!("/sign-in/{id}/code")),
        Err(Failure::Refused(refusal)) => code_page(&app, &browser, &flow, Some(&describe(&refusal))),
        Err(Failure::Broken(broken)) => Err(broken.into()),
    }
}

/// The flow of this browser; in any other there is none.
pub(super) async fn find(app: &App, browser: Option<Browser>, id: &str) -> Result<(Browser, Flow), ApiError> {
    let browser = browser.ok_or_else(unknown_browser)?;
    let flow = authorize::find_flow(app, &browser, id).await?.ok_or_else(foreign_flow)?;
    Ok((browser, flow))
}

async fn address_page(
    app: &App,
    browser: &Browser,
    flow: &Flow,
    email: &str,
    problem: Option<Problem>,
) -> Result<Response, ApiError> {
    let template = SignIn {
        title: "Sign in to Service",
        stylesheet: STYLESHEET,
        csrf: browser.form_token(app),
        action: format!("/sign-in/{}", flow.id),
        email,
        problem: text_of(problem.as_ref()),
        client: authorize::client_name(app, flow).await?,
    };
    let page = page(StatusCode::OK, &template, leads_to(flow))?;
    Ok(with_cookie(with_problem(page, problem.as_ref()), browser))
}

fn code_page(app: &App, browser: &Browser, flow: &Flow, problem: Option<&Problem>) -> Result<Response, ApiError> {
    let waits = sign_in::seconds_to_wait(flow, app.clock.now());
    let classes = ["0", "10", "20", "30", "40", "50", "60"];
    let place = usize::try_from(waits.div_euclid(10) + i64::from(waits % 10 != 0)).unwrap_or_default();
    let template = Code {
        title: "Enter the code",
        stylesheet: STYLESHEET,
        csrf: browser.form_token(app),
        action: format!("/sign-in/{}/code", flow.id),
        resend_action: format!("/sign-in/{}/resend", flow.id),
        back: format!("/sign-in/{}", flow.id),
        email: flow.email.as_deref().unwrap_or_default(),
        problem: text_of(problem),
        wait_class: classes[place.min(classes.len() - 1)],
    };
    Ok(with_problem(page(StatusCode::OK, &template, leads_to(flow))?, problem))
}

/// Where the answer goes in the end.
pub(super) fn leads_to(flow: &Flow) -> Option<&str> {
    flow.request.as_ref().map(|request| request.redirect_uri.as_str())
}

/// What went wrong with a form, for the page that shows it again.
struct Problem {
    status: StatusCode,
    text: String,
    retry_after: Option<u32>,
}

impl Problem {
    fn limited(limited: Limited, what: &str) -> Self {
        let seconds = limited.retry_after;
        let how_long = match seconds {
            0..=90 => format!("{seconds} seconds"),
            91..=5_400 => format!("{} minutes", seconds / 60 + 1),
            _ => format!("{} hours", seconds / 3_600 + 1),
        };
        let text = format!("{what} Wait {how_long}, then try again.");
        Self { status: StatusCode::TOO_MANY_REQUESTS, text, retry_after: Some(seconds) }
    }
}

fn text_of(problem: Option<&Problem>) -> Option<String> {
    problem.map(|problem| problem.text.clone())
}

fn describe(refusal: &request_otp::Refusal) -> Problem {
    let wrong = |text: &str| Problem { status: StatusCode::BAD_REQUEST, text: text.to_owned(), retry_after: None };
    match refusal {
        request_otp::Refusal::NotAnAddress => wrong("This is not an e-mail address. Check it, and try again."),
        request_otp::Refusal::Limited(limited) => Problem::limited(*limited, "A code was sent a moment ago."),
        request_otp::Refusal::Client(_) => wrong("Begin again where you came from."),
    }
}

fn with_problem(mut response: Response, problem: Option<&Problem>) -> Response {
    if let Some(problem) = problem {
        *response.status_mut() = problem.status;
        if let Some(seconds) = problem.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
    }
    response
}
