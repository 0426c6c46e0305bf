//! `/workspaces/{workspaceId}/credentials`: the CLI tokens and apps of all members that can access a workspace.

use askama::Template;
use axum::{Extension, extract::State, response::Response};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        workspaces::{
            WorkspaceError,
            credentials::{self, BoundCliToken, BoundSession, CredentialPath, MemberCredentials},
            pages,
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
            workspace::{Visit, WorkspaceFrame, WorkspacePage},
        },
        path::{PathId, PathIds},
        query::Query,
    },
    locales::Texts,
};

#[derive(Template)]
#[template(path = "pages/workspace/credentials.html")]
struct CredentialsPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: WorkspaceFrame<'a>,
    members: Vec<CredentialsOfMember>,
    /// Whether the page shows one member only, or begins in the middle of the list.
    part: bool,
    next: Option<String>,
}

struct CredentialsOfMember {
    email: String,
    credentials: Vec<CredentialShown>,
    /// How many there are, and the page that shows them all.
    all: Option<(i64, String)>,
}

struct CredentialShown {
    id: String,
    name: String,
    /// The end of a CLI token's secret; an app has none.
    hint: Option<String>,
    unverified: bool,
    scopes: String,
    created: When,
    expires: When,
    used: Option<When>,
}

/// The part of the list that a page shows.
#[derive(Clone, Copy)]
enum ListPart<'a> {
    From(Option<&'a str>),
    Member(&'a str),
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let part = query.get("member").map_or(ListPart::From(query.get("cursor")), ListPart::Member);
    credentials_page(Visit::of(&app, &meta, &browser, &id), part, None).await
}

pub async fn revoke(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, credential): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id);
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let path = CredentialPath { workspace_id: &id, credential_id: &credential };
    let done = credentials::revoke(&app, &actor, path).await;
    match visit.after_form(done, WorkspacePage::Credentials).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => credentials_page(visit, ListPart::From(None), Some(problem)).await,
    }
}

async fn credentials_page(
    visit: Visit<'_>,
    part: ListPart<'_>,
    problem: Option<FormProblem>,
) -> Result<Response, ApiError> {
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let (app, id, here) = (visit.app, visit.id, WorkspacePage::Credentials.path(visit.id));
    let found = match part {
        ListPart::From(cursor) => {
            credentials::list(app, &actor, id, cursor).await.map(|page| (page.data, page.next_cursor))
        }
        ListPart::Member(member) => {
            credentials::list_of_member(app, &actor, id, member).await.map(|found| (found, None))
        }
    };
    let (found, next) = match found {
        Ok(found) => found,
        Err(WorkspaceError::MemberNotFound | WorkspaceError::InvalidCursor(_)) => return see_other(&here),
        Err(failure) => return Err(failure.into()),
    };
    let header = pages::header(app, &actor, id).await?;
    let t = visit.t;
    let (status, problem) = with_problem(problem);
    let template = CredentialsPage {
        t,
        title: &t.workspace.nav.credentials,
        stylesheet: STYLESHEET,
        frame: visit.frame(WorkspacePage::Credentials, header, problem),
        members: found.into_iter().map(|member| shown(t, &here, member)).collect(),
        part: !matches!(part, ListPart::From(None)),
        // A cursor is written in letters that need no escape.
        next: next.map(|cursor| format!("{here}?cursor={cursor}")),
    };
    page(t, status, &template, None)
}

fn shown(t: &Texts, here: &str, member: MemberCredentials) -> CredentialsOfMember {
    let MemberCredentials { member, credentials: found } = member;
    let tokens = found.cli_tokens.into_iter().map(|token| token_shown(t, token));
    let apps = found.sessions.into_iter().map(|session| app_shown(t, session));
    let credentials: Vec<_> = tokens.chain(apps).collect();
    let cut = usize::try_from(found.total).is_ok_and(|total| total > credentials.len());
    CredentialsOfMember {
        email: member.email,
        all: cut.then(|| (found.total, format!("{here}?member={}", member.user_id))),
        credentials,
    }
}

fn token_shown(t: &Texts, token: BoundCliToken) -> CredentialShown {
    CredentialShown {
        id: token.id.to_string(),
        name: token.name,
        hint: Some(token.hint),
        unverified: false,
        scopes: token.scopes.to_string(),
        created: When::of(t, token.created_at),
        expires: When::of(t, token.expires_at),
        used: token.last_used_at.map(|at| When::of(t, at)),
    }
}

fn app_shown(t: &Texts, session: BoundSession) -> CredentialShown {
    CredentialShown {
        id: session.id.to_string(),
        name: session.client_name,
        hint: None,
        unverified: !session.name_verified,
        scopes: session.scopes.to_string(),
        created: When::of(t, session.created_at),
        expires: When::of(t, session.expires_at),
        used: Some(When::of(t, session.last_used_at)),
    }
}
