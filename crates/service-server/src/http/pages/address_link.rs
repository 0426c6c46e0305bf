//! `/address-change`: the page behind the links that confirm or stop a change of an email address. It shows the change; its forms
//! confirm or stop it.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::address_change::links::{self, LinkedChange},
    },
    http::{
        errors::ApiError,
        pages::{STYLESHEET, page, request_browser::LinkForm},
        query::Query,
    },
    locales::{Sentence, Text, Texts},
};

#[derive(Template)]
#[template(path = "pages/address_link.html")]
struct AddressLinkPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    about: Sentence,
    state: String,
    is_confirmed: bool,
    stop: &'a Text,
    token: &'a str,
}

#[derive(Template)]
#[template(path = "pages/address_answered.html")]
struct AnsweredPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    text: String,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    query: Query,
) -> Result<Response, ApiError> {
    let token = query.get("token").unwrap_or_default();
    let found = links::find(&app, token).await?;
    let t = app.locales.of(meta.language);
    let texts = &t.address_link;
    let (about, stop) = if found.is_new_address { (&texts.new, &texts.not_you) } else { (&texts.current, &texts.stop) };
    let template = AddressLinkPage {
        t,
        title: &texts.title,
        stylesheet: STYLESHEET,
        about: about.with("email", &found.email),
        state: describe(t, &found),
        is_confirmed: found.is_confirmed,
        stop,
        token,
    };
    page(t, StatusCode::OK, &template, None)
}

/// Confirms or stops the change.
pub async fn answer(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: LinkForm,
) -> Result<Response, ApiError> {
    let (t, token) = (app.locales.of(meta.language), form.get("token"));
    let texts = &t.address_link;
    let (title, text) = if form.get("answer") == "confirm" {
        let confirmed = links::confirm(&app, &meta, token).await?;
        (&texts.confirmed_title, describe(t, &confirmed))
    } else {
        links::stop(&app, &meta, token).await?;
        (&texts.stopped_title, texts.stopped.to_string())
    };
    page(t, StatusCode::OK, &AnsweredPage { t, title, stylesheet: STYLESHEET, text }, None)
}

/// What has to happen until the address is changed.
fn describe(t: &Texts, change: &LinkedChange) -> String {
    let texts = &t.address_link;
    match (change.due_at, change.is_confirmed) {
        (Some(at), _) => texts.due.with("date", t.moment(at)).to_string(),
        (None, true) => texts.other.to_string(),
        (None, false) => texts.effect.to_string(),
    }
}
