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
            Moments, STYLESHEET, When,
            confirm::Question,
            done::Done,
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
    /// What it may do, one sentence a scope.
    may: Vec<String>,
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
    credentials_page(Visit::of(&app, &meta, &browser, &id).after(&query), part, None).await
}

/// Asks before a credential is revoked.
pub async fn confirm_revoke(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathIds(id, credential): PathIds,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let visit = Visit::of(&app, &meta, &browser, &id);
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let path = CredentialPath { workspace_id: &id, credential_id: &credential };
    let found = match credentials::find(&app, &actor, path).await {
        Ok(found) => found,
        Err(failure) => return answer(visit, Err(failure)).await,
    };
    let (t, back) = (visit.t, WorkspacePage::Credentials.path(&id));
    let (title, text) = if found.is_app {
        (&t.confirm.remove_app_of, &t.confirm.remove_app_of_text)
    } else {
        (&t.confirm.revoke_token_of, &t.confirm.revoke_token_text)
    };
    let told = (!found.is_own).then(|| format!(" {}", t.confirm.member_told.with("email", &found.email)));
    let question = Question {
        title: title.with("name", found.name).with("email", found.email).to_string(),
        text: format!("{text}{}", told.unwrap_or_default()),
        action: format!("{back}/{credential}/revoke"),
        button: &t.workspace.revoke,
        back,
        ..Question::default()
    };
    question.show(&app, &browser, t)
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
    // What is not found is not named. Revoking it says why.
    let named = credentials::find(&app, &actor, path).await.ok();
    let done =
        named.map(|named| if named.is_app { Done::AppRemoved(named.name) } else { Done::TokenRevoked(named.name) });
    answer(visit, credentials::revoke(&app, &actor, path).await.map(|()| done)).await
}

/// The response to a form of this page.
async fn answer(visit: Visit<'_>, done: Result<Option<Done>, WorkspaceError>) -> Result<Response, ApiError> {
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
        members: found.into_iter().map(|member| shown(visit.moments(), &here, member)).collect(),
        part: !matches!(part, ListPart::From(None)),
        // A cursor is written in letters that need no escape.
        next: next.map(|cursor| format!("{here}?cursor={cursor}")),
    };
    page(t, status, &template, None)
}

fn shown(moments: Moments<'_>, here: &str, member: MemberCredentials) -> CredentialsOfMember {
    let MemberCredentials { member, credentials: found } = member;
    let tokens = found.cli_tokens.into_iter().map(|token| token_shown(moments, token));
    let apps = found.sessions.into_iter().map(|session| app_shown(moments, session));
    let credentials: Vec<_> = tokens.chain(apps).collect();
    let cut = usize::try_from(found.total).is_ok_and(|total| total > credentials.len());
    CredentialsOfMember {
        email: member.email,
        all: cut.then(|| (found.total, format!("{here}?member={}", member.user_id))),
        credentials,
    }
}

fn token_shown(moments: Moments<'_>, token: BoundCliToken) -> CredentialShown {
    CredentialShown {
        id: token.id.to_string(),
        name: token.name,
        hint: Some(token.hint),
        unverified: false,
        may: token.scopes.words().map(|word| moments.t.scope(word).to_owned()).collect(),
        created: moments.of(token.created_at),
        expires: moments.of(token.expires_at),
        used: token.last_used_at.map(|at| moments.of(at)),
    }
}

fn app_shown(moments: Moments<'_>, session: BoundSession) -> CredentialShown {
    CredentialShown {
        id: session.id.to_string(),
        name: session.client_name,
        hint: None,
        unverified: !session.name_verified,
        may: session.scopes.words().map(|word| moments.t.scope(word).to_owned()).collect(),
        created: moments.of(session.created_at),
        expires: moments.of(session.expires_at),
        used: Some(moments.of(session.last_used_at)),
    }
}
