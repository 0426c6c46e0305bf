//! `/account`: how much of everything there is, where to look after it, and what happened last.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};

use crate::{
    app::App,
    flows::{RequestMeta, account},
    http::{
        errors::ApiError,
        pages::{
            STYLESHEET,
            account::{AccountPage, EventShown, Frame, Reader, not_shown},
            page,
            received_invitation::InvitationShown,
            request_browser::RequestBrowser,
            see_other,
        },
    },
    locales::{Sentence, Text, Texts},
};

#[derive(Template)]
#[template(path = "pages/account/overview.html")]
struct Overview<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    parts: Vec<Part<'a>>,
    invitations: Vec<InvitationShown>,
    events: Vec<EventShown>,
}

/// A part of the account, with a link to its page.
struct Part<'a> {
    href: &'static str,
    name: &'a Text,
    text: String,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let overview = match account::overview(&app, &browser).await {
        Ok(overview) => overview,
        Err(failure) => return not_shown(failure, AccountPage::Overview),
    };
    let reader = Reader::of(&app, &meta, &browser);
    let (t, counted) = (reader.t, &reader.t.account.overview);
    let part =
        |here: AccountPage, text: Sentence| Part { href: here.path(), name: here.name(t), text: text.to_string() };
    let (browsers, sessions) = (counted.browsers.count(overview.browsers), counted.sessions.count(overview.sessions));
    let parts = vec![
        part(AccountPage::Security, counted.passkeys.count(overview.passkeys)),
        part(AccountPage::Sessions, counted.both.with("browsers", browsers).with("sessions", sessions)),
        part(AccountPage::Apps, counted.apps.count(overview.apps)),
        part(AccountPage::Tokens, counted.tokens.count(overview.tokens)),
        part(AccountPage::Workspaces, counted.workspaces.count(overview.workspaces)),
    ];
    let template = Overview {
        t,
        title: &t.account.title,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Overview, None),
        parts,
        invitations: overview
            .invitations
            .iter()
            .map(|invitation| InvitationShown::of(reader.moments(), invitation))
            .collect(),
        events: overview.events.iter().map(|event| EventShown::of(reader.moments(), event)).collect(),
    };
    page(t, StatusCode::OK, &template, None)
}
