//! Signing in: the address, then the code; or a passkey.

use askama::Template;
use axum::{
    Extension,
    extract::State,
    http::{StatusCode, header},
    response::Response,
};
use service_rules::{
    email::Address,
    lifetimes,
    limits::Limited,
    otp::OtpError,
    redirect::{self, RedirectKind},
};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        oauth::authorize::{self, SignInFlow, SignInPurpose},
        sign_in::{
            browser,
            browser_session::{self, Browser},
            passkey::{self, PasskeyNotice},
            recovery_code::{self, RecoveryCodeOffer},
            request_otp::RequestOtpError,
            verify_otp::VerifyOtpError,
        },
        sso::{
            routes,
            start::{self, ChosenConnection},
        },
    },
    http::{
        errors::{
            ApiError,
            pages::{foreign_flow, unknown_browser},
        },
        pages::{
            STYLESHEET,
            authorize::go_on,
            hand_off, keep_account, page,
            request_browser::{Form, Navigation, RequestBrowser},
            script::{self, PASSKEYS},
            see_other, sso_problem, with_cookie,
        },
        path::PathId,
    },
    locales::{Sentence, Texts},
};

#[derive(Template)]
#[template(path = "pages/sign_in.html")]
struct SignIn<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    csrf: String,
    action: String,
    email: &'a str,
    problem: Option<String>,
    /// Where a code that was sent before can be entered.
    code_page: Option<String>,
    client: Option<String>,
    /// What the script asks the browser for, as JSON. `None`: the installation cannot have passkeys.
    passkey: Option<String>,
    /// What went wrong with a passkey.
    passkey_problem: String,
    passkey_notice: PasskeyNoticeShown,
    recovery_code: RecoveryCodeOffer,
    /// What went wrong with a recovery code.
    recovery_problem: Option<String>,
    script: &'static str,
}

/// What the page says about a passkey.
enum PasskeyNoticeShown {
    Nothing,
    Confirm,
    Required {
        /// What the user has to do.
        text: Sentence,
        /// When all passkeys will be removed. `None`: the user can ask for that.
        removed_on: Option<Sentence>,
        /// Why that was not begun.
        not_begun: Option<String>,
    },
}

impl PasskeyNoticeShown {
    const fn is_required(&self) -> bool {
        matches!(self, Self::Required { .. })
    }
}

#[derive(Template)]
#[template(path = "pages/sign_in_sso.html")]
struct SignInWithSso<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    csrf: String,
    action: String,
    company: &'a str,
    /// The host of the provider, because the company's name is its own choice.
    host: &'a str,
    client: Option<String>,
    returns: &'a Sentence,
    /// Where the answer goes, if another client than the service's own asks.
    returns_host: Option<String>,
    /// A code can be sent instead.
    offers_code: bool,
    /// A code was entered although single sign-on is required.
    required_now: bool,
}

#[derive(Template)]
#[template(path = "pages/code.html")]
struct Code<'a> {
    t: &'a Texts,
    sent: Sentence,
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
    Extension(meta): Extension<RequestMeta>,
    _: Navigation,
    RequestBrowser(browser): RequestBrowser,
) -> Result<Response, ApiError> {
    let browser = match browser {
        Some(browser) if browser.person.is_some() => return see_other("/account"),
        Some(browser) => browser,
        None => browser_session::open(&app, &meta).await?,
    };
    let flow = authorize::open_flow(&app, &meta, &browser, SignInPurpose::Account).await?;
    let next = authorize::step(&app, &meta, &browser, &flow).await?;
    go_on(&app, &meta, Some(&browser), next)
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let t = app.locales.of(meta.language);
    let (browser, flow) = find(&app, browser, &id).await?;
    match authorize::step(&app, &meta, &browser, &flow).await? {
        authorize::Next::SignIn(_) if flow.connection_id.is_some() && flow.waiting.is_none() => {
            SsoPage { app: &app, meta: &meta, browser: &browser, flow: &flow }.show(false).await
        }
        authorize::Next::SignIn(_) => {
            let hint = authorize::login_hint(&flow).unwrap_or_default();
            AddressPage { app: &app, t, browser: &browser, flow: &flow }.show(hint, None).await
        }
        next => go_on(&app, &meta, Some(&browser), next),
    }
}

pub async fn send(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let t = app.locales.of(meta.language);
    let email = form.get("email").to_owned();
    let (browser, mut flow) = find(&app, Some(form.browser), &id).await?;
    let address = Address::parse(&email);
    if let Ok(address) = &address
        && let Some(route) = routes::find(&app, address).await?
    {
        start::choose(&app, flow.id, Some(route.connection_id), Some(address)).await?;
        if !start::is_direct(&app, &flow).await? {
            return see_other(&format!("/sign-in/{id}"));
        }
        (flow.connection_id, flow.email) = (Some(route.connection_id), Some(address.clone()));
        return match start::hand_off(&app, &meta, &browser, &flow).await {
            Ok(hand_off) => hand_off::show(t, &hand_off),
            Err(error) => sso_problem::show(&app, &meta, error),
        };
    }
    let failure = match &address {
        Ok(address) => match browser::send_code(&app, &meta, &flow, address).await {
            Ok(()) => return see_other(&format!("/sign-in/{id}/code")),
            Err(failure) => failure,
        },
        Err(refusal) => (*refusal).into(),
    };
    let mut problem = describe(t, failure)?;
    if let Ok(address) = &address
        && problem.retry_after.is_some()
        && browser::resume_code(&app, &browser, &mut flow, address).await?
    {
        problem.code_page = Some(format!("/sign-in/{id}/code"));
    }
    AddressPage { app: &app, t, browser: &browser, flow: &flow }.show(&email, Some(problem)).await
}

pub async fn show_code(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let t = app.locales.of(meta.language);
    let (browser, flow) = find(&app, browser, &id).await?;
    match authorize::step(&app, &meta, &browser, &flow).await? {
        authorize::Next::SignIn(_) if flow.otp_id.is_some() => code_page(&app, t, &browser, &flow, None),
        next => go_on(&app, &meta, Some(&browser), next),
    }
}

pub async fn enter(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let t = app.locales.of(meta.language);
    let code = zeroize::Zeroizing::new(form.get("code").to_owned());
    let (mut browser, mut flow) = find(&app, Some(form.browser), &id).await?;
    let wrong = match browser::enter_code(&app, &meta, &mut browser, &flow, &code).await {
        Ok(()) => {
            // With the cookie that it has from now on, the browser goes on by itself.
            return Ok(with_cookie(see_other(&format!("/sign-in/{id}"))?, &browser));
        }
        Err(failure) => failure,
    };
    let problem = match wrong {
        VerifyOtpError::Code(OtpError::NotAccepted) | VerifyOtpError::NotAMember => SignInProblem::wrong(&t.code.wrong),
        VerifyOtpError::SsoRequired => {
            let route = match &flow.email {
                Some(address) => routes::find(&app, address).await?,
                None => None,
            };
            flow.connection_id = route.map(|route| route.connection_id);
            start::choose(&app, flow.id, flow.connection_id, None).await?;
            return SsoPage { app: &app, meta: &meta, browser: &browser, flow: &flow }.show(true).await;
        }
        VerifyOtpError::Closed(account) => return keep_account::lead_to(&account),
        // In a browser the code is accepted, and the next page asks for the passkey.
        VerifyOtpError::PasskeyRequired => return see_other(&format!("/sign-in/{id}")),
        VerifyOtpError::Code(OtpError::Limited(limited)) => SignInProblem::limited(t, limited, &t.code.too_many),
        VerifyOtpError::Database(error) => return Err(error.into()),
        VerifyOtpError::Defect(error) => return Err(error.into()),
    };
    code_page(&app, t, &browser, &flow, Some(&problem))
}

pub async fn resend(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let t = app.locales.of(meta.language);
    let (browser, flow) = find(&app, Some(form.browser), &id).await?;
    let Some(email) = flow.email.clone() else { return see_other(&format!("/sign-in/{id}")) };
    match browser::send_code(&app, &meta, &flow, &email).await {
        Ok(()) => see_other(&format!("/sign-in/{id}/code")),
        Err(failure) => {
            let problem = describe(t, failure)?;
            code_page(&app, t, &browser, &flow, Some(&problem))
        }
    }
}

/// The flow of this browser; in any other there is none.
pub(super) async fn find(app: &App, browser: Option<Browser>, id: &str) -> Result<(Browser, SignInFlow), ApiError> {
    let browser = browser.ok_or_else(unknown_browser)?;
    let flow = authorize::find_flow(app, &browser, id).await?.ok_or_else(foreign_flow)?;
    Ok((browser, flow))
}

/// The page that asks for the address.
pub(super) struct AddressPage<'a> {
    pub(super) app: &'a App,
    pub(super) t: &'a Texts,
    pub(super) browser: &'a Browser,
    pub(super) flow: &'a SignInFlow,
}

impl AddressPage<'_> {
    /// Shows the page again, with what went wrong with one of its forms.
    pub(super) async fn show_again(&self, problem: SignInProblem) -> Result<Response, ApiError> {
        self.show(authorize::login_hint(self.flow).unwrap_or_default(), Some(problem)).await
    }

    pub(super) async fn show(&self, email: &str, problem: Option<SignInProblem>) -> Result<Response, ApiError> {
        let Self { app, t, browser, flow } = *self;
        let of = |form| text_of(problem.as_ref().filter(|problem| problem.form == form));
        let template = SignIn {
            t,
            title: &t.sign_in.title,
            stylesheet: STYLESHEET,
            csrf: browser.form_token(app),
            action: format!("/sign-in/{}", flow.id),
            email,
            problem: of(ProblemForm::Address),
            code_page: problem.as_ref().and_then(|problem| problem.code_page.clone()),
            client: authorize::client_name(app, flow).await?,
            passkey: passkey::request_options(app, browser, flow).map(|options| options.to_string()),
            passkey_problem: of(ProblemForm::Passkey).unwrap_or_default(),
            recovery_problem: of(ProblemForm::RecoveryCode),
            recovery_code: recovery_code::offer(app, browser, flow).await?,
            passkey_notice: self.passkey_notice(of(ProblemForm::LostPasskeys)).await?,
            script: PASSKEYS,
        };
        let page = script::allow(page(t, StatusCode::OK, &template, leads_to(flow))?);
        Ok(with_cookie(with_problem(page, problem.as_ref()), browser))
    }

    async fn passkey_notice(&self, not_begun: Option<String>) -> Result<PasskeyNoticeShown, ApiError> {
        let Self { app, t, browser, flow } = *self;
        Ok(match passkey::notice(app, browser, flow).await? {
            PasskeyNotice::Nothing => PasskeyNoticeShown::Nothing,
            PasskeyNotice::Confirm => PasskeyNoticeShown::Confirm,
            PasskeyNotice::Required { removed_on } => {
                let email = flow.email.as_ref().map_or("", Address::as_str);
                let removed_on = removed_on.map(|at| t.sign_in.lost_due.with("date", t.moment(at)));
                PasskeyNoticeShown::Required { text: t.sign_in.required.with("email", email), removed_on, not_begun }
            }
        })
    }
}

/// The page that offers to sign in with the company's identity provider. It names the client, and where its answer goes.
struct SsoPage<'a> {
    app: &'a App,
    meta: &'a RequestMeta,
    browser: &'a Browser,
    flow: &'a SignInFlow,
}

impl SsoPage<'_> {
    /// `required_now`: the user has entered a code although single sign-on is required.
    async fn show(&self, required_now: bool) -> Result<Response, ApiError> {
        let Self { app, meta, browser, flow } = *self;
        let t = app.locales.of(meta.language);
        let ChosenConnection { company, host, required } = match start::chosen(app, flow).await {
            Ok(Some(chosen)) => chosen,
            // It was switched off meanwhile, so the user signs in by code.
            Ok(None) => {
                let hint = flow.email.as_ref().map_or("", Address::as_str);
                return AddressPage { app, t, browser, flow }.show(hint, None).await;
            }
            Err(error) => return sso_problem::show(app, meta, error),
        };
        let returns_to = leads_to(flow).filter(|_| !required_now);
        let is_local = returns_to.is_some_and(|uri| redirect::check(uri) == Ok(RedirectKind::Loopback));
        let template = SignInWithSso {
            t,
            title: &t.sign_in.title,
            stylesheet: STYLESHEET,
            csrf: browser.form_token(app),
            action: format!("/sign-in/{}/sso", flow.id),
            company: &company,
            host: &host,
            client: authorize::client_name(app, flow).await?,
            returns: if is_local { &t.consent.returns_local } else { &t.consent.returns_to },
            returns_host: returns_to.map(redirect::host),
            offers_code: !required && flow.email.is_some(),
            required_now,
        };
        let status = if required_now { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        Ok(with_cookie(page(t, status, &template, leads_to(flow))?, browser))
    }
}

fn code_page(
    app: &App,
    t: &Texts,
    browser: &Browser,
    flow: &SignInFlow,
    problem: Option<&SignInProblem>,
) -> Result<Response, ApiError> {
    let template = Code {
        t,
        sent: t.code.sent.with("minutes", t.duration(lifetimes::OTP)),
        title: &t.code.title,
        stylesheet: STYLESHEET,
        csrf: browser.form_token(app),
        action: format!("/sign-in/{}/code", flow.id),
        resend_action: format!("/sign-in/{}/resend", flow.id),
        back: format!("/sign-in/{}", flow.id),
        email: flow.email.as_ref().map_or("", Address::as_str),
        problem: text_of(problem),
        wait_class: wait_class(app, flow),
    };
    Ok(with_problem(page(t, StatusCode::OK, &template, leads_to(flow))?, problem))
}

/// The style of the button that sends another code, which appears when the wait is over.
pub(super) fn wait_class(app: &App, flow: &SignInFlow) -> &'static str {
    let waits = browser::seconds_to_wait(flow, app.clock.now());
    let classes = ["0", "10", "20", "30", "40", "50", "60"];
    let place = usize::try_from(waits.div_euclid(10) + i64::from(waits % 10 != 0)).unwrap_or_default();
    classes[place.min(classes.len() - 1)]
}

/// Where the answer goes in the end. Nowhere yet, while the client's document has not been fetched: the person is asked
/// first, on a page of its own.
pub(super) fn leads_to(flow: &SignInFlow) -> Option<&str> {
    flow.request().map(|request| request.redirect_uri.as_str())
}

/// What went wrong with a form, for the page that shows it again.
pub(super) struct SignInProblem {
    status: StatusCode,
    text: String,
    retry_after: Option<u32>,
    /// Where a code that was sent before can be entered.
    code_page: Option<String>,
    form: ProblemForm,
}

/// The form of the sign-in page that was not carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ProblemForm {
    Address,
    Passkey,
    RecoveryCode,
    LostPasskeys,
}

impl SignInProblem {
    pub(super) fn wrong(text: &str) -> Self {
        let (status, text) = (StatusCode::BAD_REQUEST, text.to_owned());
        Self { status, text, retry_after: None, code_page: None, form: ProblemForm::Address }
    }

    pub(super) fn limited(t: &Texts, limited: Limited, sentence: &Sentence) -> Self {
        let seconds = limited.retry_after;
        let text = sentence.with("wait", t.duration(seconds.into())).to_string();
        let (status, retry_after) = (StatusCode::TOO_MANY_REQUESTS, Some(seconds));
        Self { status, text, retry_after, code_page: None, form: ProblemForm::Address }
    }

    pub(super) fn of(self, form: ProblemForm) -> Self {
        Self { form, ..self }
    }
}

pub(super) fn text_of(problem: Option<&SignInProblem>) -> Option<String> {
    problem.map(|problem| problem.text.clone())
}

/// What a page says about a code that was not sent. An error of the service itself is passed on.
pub(super) fn describe(t: &Texts, failure: RequestOtpError) -> Result<SignInProblem, ApiError> {
    let wrong = SignInProblem::wrong;
    match failure {
        RequestOtpError::InvalidAddress(_) => Ok(wrong(&t.sign_in.invalid_email)),
        RequestOtpError::Limited(limited) => Ok(SignInProblem::limited(t, limited, &t.sign_in.wait)),
        RequestOtpError::Client(_) => Ok(wrong(&t.sign_in.start_again)),
        RequestOtpError::Database(error) => Err(error.into()),
        RequestOtpError::Defect(error) => Err(error.into()),
    }
}

pub(super) fn with_problem(mut response: Response, problem: Option<&SignInProblem>) -> Response {
    if let Some(problem) = problem {
        *response.status_mut() = problem.status;
        if let Some(seconds) = problem.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
    }
    response
}
