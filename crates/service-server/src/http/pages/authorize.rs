//! `/oauth/authorize`: where apps send people.

use axum::{
    Extension,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use service_rules::authorization::Parameters;

use crate::{
    app::App,
    flows::{
        Asker,
        authorize::{self, Next},
        browser::Browser,
    },
    http::{
        body,
        error::{ApiError, Unreadable},
        pages::{
            problem::{Link, Told},
            see_other,
            visitor::Visitor,
            with_cookie,
        },
        query,
    },
};

pub async fn by_query(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    visitor: Visitor,
    request: Request,
) -> Result<Response, ApiError> {
    let pairs = query::pairs(request.uri().query().unwrap_or_default());
    let pairs =
        pairs.ok_or_else(|| Unreadable::Query("The address cannot be read; check how it is encoded.".into()))?;
    let (browser, next) = authorize::begin(&app, &asker, visitor.0, &Parameters(&pairs)).await?;
    go_on(&asker, browser.as_ref(), next)
}

/// The same as a form: sent on as an address, because a form from elsewhere brings no cookie along.
pub async fn by_form(request: Request) -> Result<Response, ApiError> {
    let (mut parts, _) = request.into_parts();
    let pairs = body::form_pairs(&mut parts)?;
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let written: Vec<_> = pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    see_other(&format!("/oauth/authorize?{}", written.join("&")))
}

/// Sends the browser to wherever its flow is.
pub(super) fn go_on(asker: &Asker, browser: Option<&Browser>, next: Next) -> Result<Response, ApiError> {
    let response = match next {
        Next::SignIn(id) => see_other(&format!("/sign-in/{id}"))?,
        Next::Ask(id) => see_other(&format!("/consent/{id}"))?,
        Next::Account => see_other("/account")?,
        Next::Answer(location) => see_other(&location)?,
        Next::Offer { location, host, refusal } => Told {
            status: StatusCode::BAD_REQUEST,
            heading: "The app asked for something that cannot be",
            text: refusal.description(),
            next: &format!("Tell its makers. It waits for an answer at {host}; send it one only if you trust it."),
            link: Some(Link { href: &location, text: "Send the app this answer" }),
        }
        .show(&asker.request_id)?,
    };
    Ok(match browser {
        Some(browser) => with_cookie(response, browser),
        None => response,
    })
}
