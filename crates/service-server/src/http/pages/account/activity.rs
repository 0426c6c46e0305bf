//! `/account/activity`: what happened to the account, the latest first.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};

use crate::{
    app::App,
    flows::{RequestMeta, account},
    http::{
        errors::ApiError,
        pages::{
            STYLESHEET,
            account::{AccountPage, EventShown, Frame, Reader, next_page, not_shown},
            page,
            request_browser::RequestBrowser,
            see_other,
        },
        query::Query,
    },
    locales::Texts,
};

#[derive(Template)]
#[template(path = "pages/account/activity.html")]
struct Activity<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    events: Vec<EventShown>,
    later_page: bool,
    next: Option<String>,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let reader = Reader::of(&app, &meta, &browser);
    let t = reader.t;
    let cursor = query.get("cursor");
    let events = match account::activity::list(&app, &browser, cursor).await {
        Ok(events) => events,
        Err(failure) => return not_shown(failure, AccountPage::Activity),
    };
    let template = Activity {
        t,
        title: &t.account.nav.activity,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Activity, None),
        events: events.data.iter().map(|event| EventShown::of(reader.moments(), event)).collect(),
        later_page: cursor.is_some(),
        next: next_page(AccountPage::Activity, "", events.next_cursor.as_deref()),
    };
    page(t, StatusCode::OK, &template, None)
}
