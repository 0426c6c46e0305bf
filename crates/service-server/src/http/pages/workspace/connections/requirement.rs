//! `/workspaces/{workspaceId}/connections/{connectionId}/require`: requiring single sign-on, what that touches, and the
//! owners who can sign in without it.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use service_api::{
    connections::{ConnectionImpact, ExistingCredentials, SsoConnection, UpdateConnection},
    ids::UserId,
};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        sso::{
            connections::{self, ConnectionPath},
            pages::{self, Owner, Requirement},
        },
    },
    http::{
        errors::ApiError,
        pages::{
            STYLESHEET, When,
            forms::{FormOutcome, FormProblem, with_problem},
            page,
            request_browser::{Form, RequestBrowser},
            see_other,
            workspace::{
                Visit, WorkspaceFrame, WorkspacePage,
                connections::{after_refusal, path_of, recently_signed_in},
            },
        },
        path::PathIds,
    },
    locales::Texts,
};

#[derive(Template)]
#[template(path = "pages/workspace/requirement.html")]
struct RequirementPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: WorkspaceFrame<'a>,
    /// The page of the connection.
    back: String,
    c: SsoConnection,
    impact: ConnectionImpact,
    required: Option<When>,
    owners: Vec<OwnerShown>,
}

struct OwnerShown {
    id: String,
    email: String,
    named: bool,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathIds(id, connection): PathIds,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    requirement_page(Visit::of(&app, &meta, &browser, &id), &connection, None).await
}

/// Requires the connection, changes who can sign in without it, or stops requiring it, as the button says.
pub async fn change(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, connection): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id).at_connection(&connection);
    let owners = form.names_after("owner.").filter_map(|owner| owner.parse::<UserId>().ok());
    let change = match form.get("decision") {
        "stop" => UpdateConnection { required: Some(false), ..UpdateConnection::default() },
        "owners" => UpdateConnection { break_glass: Some(owners.collect()), ..UpdateConnection::default() },
        _ => UpdateConnection {
            break_glass: Some(owners.collect()),
            required: Some(true),
            existing: match form.get("existing") {
                "revoke" => Some(ExistingCredentials::Revoke),
                "keep" => Some(ExistingCredentials::Keep),
                _ => None,
            },
            ..UpdateConnection::default()
        },
    };
    let path = ConnectionPath { workspace_id: &id, connection_id: &connection };
    let changed = async {
        let (actor, recent) = recently_signed_in(visit).await?;
        Ok(connections::update(&app, &actor, recent, path, &change).await?)
    };
    match changed.await {
        Ok(changed) => see_other(&path_of(&id, changed.id)),
        Err(error) => match after_refusal(visit, error).await? {
            FormOutcome::Redirect(response) => Ok(response),
            FormOutcome::Problem(problem) => requirement_page(visit, &connection, Some(problem)).await,
        },
    }
}

async fn requirement_page(
    visit: Visit<'_>,
    connection: &str,
    problem: Option<FormProblem>,
) -> Result<Response, ApiError> {
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let path = ConnectionPath { workspace_id: visit.id, connection_id: connection };
    let Requirement { header, connection, impact, owners } = pages::requirement(visit.app, &actor, path).await?;
    let t = visit.t;
    // Before it is required, the owner who sets it up is suggested.
    let suggested = connection.break_glass.is_empty();
    let owner = |owner: Owner| OwnerShown {
        named: connection.break_glass.contains(&owner.user_id) || suggested && owner.user_id == actor.user_id,
        id: owner.user_id.to_string(),
        email: owner.email,
    };
    let (status, problem) = with_problem(problem);
    let template = RequirementPage {
        t,
        title: &t.connections.require.title,
        stylesheet: STYLESHEET,
        frame: visit.frame(WorkspacePage::Connections, header, problem),
        back: path_of(visit.id, connection.id),
        required: connection.required_at.map(|at| visit.moments().of(at)),
        owners: owners.into_iter().map(owner).collect(),
        impact,
        c: connection,
    };
    page(t, status, &template, None)
}
