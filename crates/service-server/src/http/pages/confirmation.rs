//! `/confirm/{confirmationId}`: the user confirms or denies a deletion that an app asks for.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use service_api::{contents::Kind, errors::ErrorCode::NotFound, ids::ConfirmationId};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        contents::confirmations::{self, WaitingDeletion},
        sign_in::browser_session::Browser,
    },
    http::{
        errors::{ApiError, error},
        pages::{
            Moments, STYLESHEET, When, page,
            request_browser::{Form, RequestBrowser},
            see_other,
        },
        path::PathId,
    },
    locales::{Sentence, Text, Texts},
};

#[derive(Template)]
#[template(path = "pages/confirmation.html")]
struct Confirmation<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    csrf: String,
    action: String,
    waiting: &'a WaitingDeletion,
    kind: &'a Text,
    at: When,
    changed: When,
}

#[derive(Template)]
#[template(path = "pages/confirmation_answered.html")]
struct Answered<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    next: &'a Sentence,
    name: &'a str,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let Some(browser) = browser.filter(|browser| browser.person.is_some()) else { return see_other("/sign-in") };
    let waiting = find(&app, &browser, &id).await?;
    let t = app.locales.of(meta.language);
    let moments = Moments::now(&app, t);
    let template = Confirmation {
        t,
        title: &t.confirmation.title,
        stylesheet: STYLESHEET,
        csrf: browser.form_token(&app),
        action: format!("/confirm/{}", waiting.confirmation.id),
        kind: kind_name(t, waiting.confirmation.kind),
        at: moments.of(waiting.confirmation.created_at),
        changed: moments.of(waiting.changed_at),
        waiting: &waiting,
    };
    page(t, StatusCode::OK, &template, None)
}

pub async fn answer(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let Some(person) = &form.browser.person else { return see_other("/sign-in") };
    let waiting = find(&app, &form.browser, &id).await?;
    let confirmed = form.get("decision") == "delete";
    if !confirmations::answer(&app, &meta, person.user_id, &waiting, confirmed).await? {
        return Err(nothing_to_confirm());
    }
    let t = app.locales.of(meta.language);
    let texts = &t.confirmation;
    let (title, next) =
        if confirmed { (&texts.confirmed, &texts.confirmed_next) } else { (&texts.denied, &texts.denied_next) };
    page(t, StatusCode::OK, &Answered { t, title, stylesheet: STYLESHEET, next, name: &waiting.content_name }, None)
}

/// Finds what waits for the user of this browser.
async fn find(app: &App, browser: &Browser, id: &str) -> Result<WaitingDeletion, ApiError> {
    let person = browser.person.as_ref().ok_or_else(nothing_to_confirm)?;
    let id: ConfirmationId = id.parse().map_err(|_| nothing_to_confirm())?;
    confirmations::find(app, person.user_id, id).await?.ok_or_else(nothing_to_confirm)
}

fn nothing_to_confirm() -> ApiError {
    error(NotFound, "There is nothing to confirm here. The link may have expired, or was used.")
}

const fn kind_name(texts: &Texts, kind: Kind) -> &Text {
    let texts = &texts.confirmation;
    match kind {
        Kind::Project => &texts.kind_project,
        Kind::Pack => &texts.kind_pack,
        Kind::Playbook => &texts.kind_playbook,
        Kind::Case => &texts.kind_case,
        Kind::Record => &texts.kind_record,
    }
}
