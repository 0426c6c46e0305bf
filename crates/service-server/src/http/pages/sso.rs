//! Signing in at a company's identity provider: the way there, the way back, and linking an account once.

use askama::Template;
use axum::{
    Extension,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode},
    response::Response,
};
use service_rules::{authorization::Parameters, email::Address, id_token::EmailVerified, lifetimes, otp::OtpError};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        oauth::authorize::{Begun, SignInFlow},
        sign_in::{browser, browser_session::Browser, verify_otp::VerifyOtpError},
        sso::{
            SsoError,
            callback::{self, Finished},
            link::{self, LinkError},
            provider::ProviderResponse,
            start::{self, NavigationSource, Started},
            try_connection::{self, TriedConnection, TryConnectionError, WouldSignIn},
        },
    },
    http::{
        errors::{ApiError, MalformedRequest},
        pages::{
            STYLESHEET,
            authorize::go_on,
            hand_off, keep_account, page,
            request_browser::{Form, Navigation, RequestBrowser},
            see_other,
            sign_in::{self, AddressPage, SignInProblem},
            sso_problem, with_cookie,
        },
        path::{PathId, PathIds},
        query,
    },
    locales::{Sentence, Text, Texts},
};

#[derive(Template)]
#[template(path = "pages/emergency.html")]
struct EmergencyPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    csrf: String,
    action: String,
    email: &'a str,
    problem: Option<String>,
}

#[derive(Template)]
#[template(path = "pages/link.html")]
struct LinkPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    csrf: String,
    action: String,
    resend_action: String,
    why: String,
    sent: Sentence,
    email: String,
    problem: Option<String>,
    wait_class: &'a str,
}

#[derive(Template)]
#[template(path = "pages/tried_connection.html")]
struct TriedPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    heading: &'a Text,
    next: &'a Text,
    email: Option<&'a str>,
    verified: &'a Text,
    domains: String,
    back: String,
}

/// `/sso/start`
pub async fn begin(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    _: Navigation,
    request_browser: RequestBrowser,
    request: Request,
) -> Result<Response, ApiError> {
    let pairs = pairs(&request)?;
    let source = navigation_source(request.headers());
    match start::begin(&app, &meta, request_browser.0, &Parameters(&pairs), source).await {
        Ok(Started::HandOff(browser, hand_off)) => {
            Ok(with_cookie(hand_off::show(app.locales.of(meta.language), &hand_off)?, &browser))
        }
        Ok(Started::Next(Begun { browser, next })) => go_on(&app, &meta, browser.as_ref(), next),
        Err(error) => sso_problem::show(&app, &meta, error),
    }
}

fn pairs(request: &Request) -> Result<Vec<(String, String)>, ApiError> {
    let pairs = query::pairs(request.uri().query().unwrap_or_default());
    let malformed = || MalformedRequest::Query("The query cannot be decoded. Check its percent-encoding.".into());
    Ok(pairs.ok_or_else(malformed)?)
}

/// Where a navigation came from. Browsers say it.
fn navigation_source(headers: &HeaderMap) -> NavigationSource {
    match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        None | Some(b"none" | b"same-origin") => NavigationSource::User,
        Some(_) => NavigationSource::OtherSite,
    }
}

/// The button on the sign-in page: to the provider, or to another way to sign in.
pub async fn continue_with(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let decision = form.get("decision").to_owned();
    let (browser, flow) = sign_in::find(&app, Some(form.browser), &id).await?;
    let t = app.locales.of(meta.language);
    match decision.as_str() {
        "other" => {
            start::choose(&app, flow.id, None, None).await?;
            see_other(&format!("/sign-in/{id}"))
        }
        "code" => {
            let Some(address) = flow.email.clone() else { return see_other(&format!("/sign-in/{id}")) };
            start::choose(&app, flow.id, None, None).await?;
            match browser::send_code(&app, &meta, &flow, &address).await {
                Ok(()) => see_other(&format!("/sign-in/{id}/code")),
                Err(failure) => {
                    let problem = sign_in::describe(t, failure)?;
                    AddressPage { app: &app, t, browser: &browser, flow: &flow }
                        .show(address.as_str(), Some(problem))
                        .await
                }
            }
        }
        _ => match start::hand_off(&app, &meta, &browser, &flow).await {
            Ok(hand_off) => hand_off::show(t, &hand_off),
            Err(error) => sso_problem::show(&app, &meta, error),
        },
    }
}

/// Where a break-glass owner requests a code, although single sign-on is required.
pub async fn show_emergency(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let (browser, flow) = sign_in::find(&app, browser, &id).await?;
    let email = flow.email.as_ref().map_or("", Address::as_str);
    let entered = EnteredAddress { email, problem: None };
    emergency_page(&app, app.locales.of(meta.language), &browser, &flow, entered)
}

/// Sends a code to an address, whatever its domain. Whether the mail holds one, and whether the code signs in, depends on its
/// owner.
pub async fn send_emergency(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let t = app.locales.of(meta.language);
    let email = form.get("email").to_owned();
    let (browser, flow) = sign_in::find(&app, Some(form.browser), &id).await?;
    let sent = match Address::parse(&email) {
        Ok(address) => browser::send_code(&app, &meta, &flow, &address).await,
        Err(refusal) => Err(refusal.into()),
    };
    match sent {
        Ok(()) => see_other(&format!("/sign-in/{id}/code")),
        Err(failure) => {
            let problem = sign_in::describe(t, failure)?;
            let entered = EnteredAddress { email: &email, problem: Some(&problem) };
            emergency_page(&app, t, &browser, &flow, entered)
        }
    }
}

fn emergency_page(
    app: &App,
    t: &Texts,
    browser: &Browser,
    flow: &SignInFlow,
    entered: EnteredAddress<'_>,
) -> Result<Response, ApiError> {
    let EnteredAddress { email, problem } = entered;
    let template = EmergencyPage {
        t,
        title: &t.sso.emergency_title,
        stylesheet: STYLESHEET,
        csrf: browser.form_token(app),
        action: format!("/sign-in/{}/emergency", flow.id),
        email,
        problem: sign_in::text_of(problem),
    };
    Ok(sign_in::with_problem(page(t, StatusCode::OK, &template, None)?, problem))
}

/// The address in a form that is shown again, and what is wrong with it.
#[derive(Clone, Copy)]
struct EnteredAddress<'a> {
    email: &'a str,
    problem: Option<&'a SignInProblem>,
}

/// `/sso/callback/{connectionId}`
pub async fn callback(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    _: Navigation,
    RequestBrowser(browser): RequestBrowser,
    request: Request,
) -> Result<Response, ApiError> {
    let pairs = pairs(&request)?;
    // Of the path, only the id of the connection varies.
    let connection_id = request.uri().path().rsplit('/').next().unwrap_or_default();
    let finished = match (browser, ProviderResponse::read(&pairs)) {
        (Some(mut browser), Some(response)) => {
            let finished = callback::finish(&app, &meta, &mut browser, connection_id, &response).await;
            finished.map(|finished| (browser, finished))
        }
        _ => Err(SsoError::ForeignResponse),
    };
    match finished {
        // With the cookie that it has from now on, the browser goes on by itself.
        Ok((browser, Finished::SignedIn(id))) => Ok(with_cookie(see_other(&format!("/sign-in/{id}"))?, &browser)),
        Ok((browser, Finished::Link(id))) => send_link_code(&app, &meta, browser, &id.to_string()).await,
        Ok((_, Finished::Closed(account))) => keep_account::lead_to(&account),
        Ok((_, Finished::Tried(tried))) => tried_page(app.locales.of(meta.language), &tried),
        Err(error) => sso_problem::show(&app, &meta, error),
    }
}

pub async fn show_link(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let (browser, flow) = sign_in::find(&app, browser, &id).await?;
    if flow.unlinked.is_none() {
        return see_other(&format!("/sign-in/{id}"));
    }
    link_page(&app, &meta, &browser, &flow, None).await
}

pub async fn resend_link(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    send_link_code(&app, &meta, form.browser, &id).await
}

/// Sends the code that links an account, and shows where it is entered.
async fn send_link_code(app: &App, meta: &RequestMeta, browser: Browser, id: &str) -> Result<Response, ApiError> {
    let (browser, flow) = sign_in::find(app, Some(browser), id).await?;
    if flow.unlinked.is_none() {
        return see_other(&format!("/sign-in/{id}"));
    }
    match link::send_code(app, meta, &flow).await {
        Ok(()) => see_other(&format!("/sign-in/{id}/link")),
        Err(failure) => {
            let problem = sign_in::describe(app.locales.of(meta.language), failure)?;
            link_page(app, meta, &browser, &flow, Some(&problem)).await
        }
    }
}

pub async fn enter_link(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let t = app.locales.of(meta.language);
    let code = zeroize::Zeroizing::new(form.get("code").to_owned());
    let (mut browser, flow) = sign_in::find(&app, Some(form.browser), &id).await?;
    let problem = match link::enter_code(&app, &meta, &mut browser, &flow, &code).await {
        Ok(()) => return Ok(with_cookie(see_other(&format!("/sign-in/{id}"))?, &browser)),
        Err(LinkError::Sso(error)) => return sso_problem::show(&app, &meta, error),
        Err(LinkError::Code(VerifyOtpError::Code(OtpError::Limited(limited)))) => {
            SignInProblem::limited(t, limited, &t.code.too_many)
        }
        Err(LinkError::Code(VerifyOtpError::Database(error))) => return Err(error.into()),
        Err(LinkError::Code(VerifyOtpError::Defect(error))) => return Err(error.into()),
        Err(LinkError::Code(VerifyOtpError::Closed(account))) => return keep_account::lead_to(&account),
        Err(LinkError::Code(VerifyOtpError::PasskeyRequired)) => SignInProblem::wrong(&t.sso.passkey),
        Err(LinkError::Code(_)) => SignInProblem::wrong(&t.code.wrong),
    };
    link_page(&app, &meta, &browser, &flow, Some(&problem)).await
}

async fn link_page(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    flow: &SignInFlow,
    problem: Option<&SignInProblem>,
) -> Result<Response, ApiError> {
    let t = app.locales.of(meta.language);
    let chosen = match start::chosen(app, flow).await {
        Ok(Some(chosen)) => chosen,
        Ok(None) => return sso_problem::show(app, meta, SsoError::NotAvailable),
        Err(error) => return sso_problem::show(app, meta, error),
    };
    let template = LinkPage {
        t,
        title: &t.sso.link_title,
        stylesheet: STYLESHEET,
        csrf: browser.form_token(app),
        action: format!("/sign-in/{}/link", flow.id),
        resend_action: format!("/sign-in/{}/link/resend", flow.id),
        why: t.sso.link_why.with("company", &chosen.company).to_string(),
        sent: t.sso.link_sent.with("minutes", t.duration(lifetimes::OTP)),
        email: link::address(flow).as_ref().map_or_else(String::new, |address: &Address| address.as_str().to_owned()),
        problem: sign_in::text_of(problem),
        wait_class: sign_in::wait_class(app, flow),
    };
    Ok(sign_in::with_problem(page(t, StatusCode::OK, &template, sign_in::leads_to(flow))?, problem))
}

/// An owner tries a connection.
pub async fn try_connection(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(workspace_id, connection_id): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    match try_connection::begin(&app, &meta, &form.browser, &workspace_id, &connection_id).await {
        Ok(hand_off) => hand_off::show(app.locales.of(meta.language), &hand_off),
        Err(TryConnectionError::Workspace(error)) => Err(error.into()),
        Err(TryConnectionError::Sso(error)) => sso_problem::show(&app, &meta, error),
    }
}

/// What the provider sent about the owner who tried the connection.
fn tried_page(t: &Texts, tried: &TriedConnection) -> Result<Response, ApiError> {
    let texts = &t.sso;
    let (heading, next) = match tried.would_sign_in {
        WouldSignIn::Yes => (&texts.tried_works, &texts.tried_works_next),
        WouldSignIn::NoAddress => (&texts.tried_not, &texts.tried_no_address),
        WouldSignIn::Unverified => (&texts.tried_not, &texts.tried_unverified),
        WouldSignIn::ForeignDomain => (&texts.tried_not, &texts.tried_foreign),
    };
    let template = TriedPage {
        t,
        title: &texts.tried_title,
        stylesheet: STYLESHEET,
        heading,
        next,
        email: tried.email.as_deref(),
        verified: match tried.verified {
            EmailVerified::True => &texts.tried_true,
            EmailVerified::Absent => &texts.tried_absent,
            EmailVerified::Other => &texts.tried_other,
        },
        domains: tried.domains.join(", "),
        back: format!("/workspaces/{}/connections/{}", tried.workspace_id, tried.connection_id),
    };
    page(t, StatusCode::OK, &template, None)
}
