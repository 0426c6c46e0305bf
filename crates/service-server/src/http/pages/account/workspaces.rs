//! `/workspaces`, which is also `/account/workspaces`: the workspaces that a user is in, the invitations that wait for
//! them, and what they have blocked.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};

use crate::{
    app::App,
    flows::{
        Actor, RequestMeta,
        sign_in::browser_session::Browser,
        workspaces::{self, WorkspaceError, pages},
    },
    http::{
        errors::ApiError,
        pages::{
            STYLESHEET,
            account::{AccountPage, Frame, Reader},
            page,
            received_invitation::InvitationShown,
            request_browser::{Form, RequestBrowser},
            see_other,
            workspace::refused,
        },
        query::Query,
    },
    locales::Texts,
};

#[derive(Template)]
#[template(path = "pages/account/workspaces.html")]
struct ListPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    invitations: Vec<InvitationShown>,
    workspaces: Vec<WorkspaceShown>,
    blocked: Vec<BlockedShown>,
}

struct WorkspaceShown {
    id: String,
    name: String,
    owner: String,
    role: String,
}

struct BlockedShown {
    id: String,
    name: String,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    query: Query,
) -> Result<Response, ApiError> {
    match browser {
        Some(browser) => list_page(Reader::of(&app, &meta, &browser).after(&query), StatusCode::OK, None).await,
        None => see_other("/sign-in"),
    }
}

pub async fn create(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    form: Form,
) -> Result<Response, ApiError> {
    let Some(actor) = Actor::in_browser(&form.browser, &meta) else { return see_other("/sign-in") };
    match workspaces::create(&app, &actor, form.get("name")).await {
        Ok(made) => see_other(&format!("/workspaces/{}", made.id)),
        Err(failure) => answer(&app, &meta, &form.browser, Err(failure)).await,
    }
}

/// Back to the list; or the list with what went wrong.
pub(in crate::http::pages) async fn answer(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    done: Result<(), WorkspaceError>,
) -> Result<Response, ApiError> {
    match done {
        Ok(()) => see_other("/workspaces"),
        Err(broken @ (WorkspaceError::Database(_) | WorkspaceError::Defect(_))) => Err(broken.into()),
        Err(refusal) => {
            let reader = Reader::of(app, meta, browser);
            let text = refused(reader.t, &refusal);
            list_page(reader, ApiError::from(refusal).status(), Some(text)).await
        }
    }
}

async fn list_page(reader: Reader<'_>, status: StatusCode, problem: Option<String>) -> Result<Response, ApiError> {
    let Reader { app, meta, browser, t, .. } = reader;
    let Some(actor) = Actor::in_browser(browser, meta) else { return see_other("/sign-in") };
    let overview = pages::overview(app, &actor).await?;
    let workspaces = overview.workspaces.into_iter().map(|workspace| WorkspaceShown {
        id: workspace.id.to_string(),
        name: workspace.name,
        owner: workspace.owner,
        role: t.role(workspace.role).to_string(),
    });
    let blocked = overview.blocked.into_iter();
    let template = ListPage {
        t,
        title: &t.workspaces.title,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Workspaces, problem),
        invitations: overview
            .invitations
            .iter()
            .map(|invitation| InvitationShown::of(reader.moments(), invitation))
            .collect(),
        workspaces: workspaces.collect(),
        blocked: blocked.map(|one| BlockedShown { id: one.workspace_id.to_string(), name: one.name }).collect(),
    };
    page(t, status, &template, None)
}
