//! The person is asked whether an app may have access.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use service_api::scope::Scopes;
use service_rules::consent;

use crate::{
    app::App,
    failure::Failure,
    flows::{
        Asker,
        agree::{self, NotDone},
        authorize::{self, Flow},
        browser::Browser,
    },
    http::{
        error::ApiError,
        pages::{
            Choice, STYLESHEET,
            authorize::go_on,
            page, see_other,
            sign_in::{find, leads_to},
            visitor::{Form, Visitor},
            with_cookie,
        },
        path::PathId,
    },
};

#[derive(Template)]
#[template(path = "pages/consent.html")]
struct Consent<'a> {
    title: &'a str,
    stylesheet: &'a str,
    csrf: String,
    action: String,
    switch_action: String,
    client: String,
    vouched_by: Option<String>,
    host: String,
    unproven: bool,
    local: bool,
    email: &'a str,
    new_scopes: Vec<String>,
    old_scopes: Vec<String>,
    spaces: Vec<Choice>,
}

pub async fn show(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Visitor(browser): Visitor,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let (browser, flow) = find(&app, browser, &id).await?;
    if !flow.finished {
        match authorize::step(&app, &browser, &flow).await? {
            authorize::Next::Ask(_) => {}
            next => return go_on(&asker, Some(&browser), next),
        }
    }
    match agree::question(&app, &browser, &flow).await {
        Ok(question) => ask(&app, &browser, &flow, question),
        Err(Failure::Refused(NotDone::SignIn)) => see_other(&format!("/sign-in/{id}")),
        Err(failure) => Err(failure.into()),
    }
}

pub async fn decide(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let (space, decision) = (form.get("space").to_owned(), form.get("decision").to_owned());
    let (mut browser, flow) = find(&app, Some(form.browser), &id).await?;
    if authorize::must_sign_in(&flow, &browser) {
        return see_other(&format!("/sign-in/{id}"));
    }
    let location = if decision == "allow" {
        agree::allow(&app, &asker, &mut browser, &flow, &space).await?
    } else {
        agree::deny(&app, &browser, &flow).await?
    };
    Ok(with_cookie(see_other(&location)?, &browser))
}

/// Goes on as somebody else.
pub async fn switch(State(app): State<App>, PathId(id): PathId, form: Form) -> Result<Response, ApiError> {
    let (mut browser, flow) = find(&app, Some(form.browser), &id).await?;
    authorize::forget_person(&app, &mut browser).await?;
    Ok(with_cookie(see_other(&format!("/sign-in/{}", flow.id))?, &browser))
}

fn ask(app: &App, browser: &Browser, flow: &Flow, question: agree::Question) -> Result<Response, ApiError> {
    let sentences = |scopes: Scopes| scopes.words().map(|word| consent::sentence(word).to_owned()).collect();
    let choice = |space: agree::Space| Choice { value: space.value, name: space.name, checked: space.usual };
    let template = Consent {
        title: "Let an app have access",
        stylesheet: STYLESHEET,
        csrf: browser.form_token(app),
        action: format!("/consent/{}", flow.id),
        switch_action: format!("/consent/{}/switch", flow.id),
        client: question.client,
        vouched_by: question.vouched_by,
        host: question.host,
        unproven: question.unproven,
        local: question.local,
        email: browser.person.as_ref().map_or("", |person| &person.email),
        new_scopes: sentences(question.asked),
        old_scopes: sentences(question.agreed),
        spaces: question.spaces.into_iter().map(choice).collect(),
    };
    page(StatusCode::OK, &template, leads_to(flow))
}
