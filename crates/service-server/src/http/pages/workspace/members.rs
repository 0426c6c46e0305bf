//! `/workspaces/{workspaceId}`: who is in a workspace, its invitations for owners, and leaving.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use service_api::workspaces::{ChangeRole, Invite, Role};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        sign_in::step_up,
        workspaces::{
            self, MemberPath, WorkspaceError,
            invitations::{self, InvitationPath},
            pages, passkey_requirement,
        },
    },
    http::{
        errors::ApiError,
        pages::{
            STYLESHEET, When,
            confirm::{HiddenField, Question},
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
    locales::{Text, Texts},
};

#[derive(Template)]
#[template(path = "pages/workspace/members.html")]
struct MembersPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: WorkspaceFrame<'a>,
    owns: bool,
    /// Whether the workspace requires a passkey, and the account of the reader does not: the page shows no members.
    kept_out: bool,
    requires_passkey: bool,
    members: Vec<MemberShown<'a>>,
    next: Option<String>,
    invitations: Vec<InvitedShown<'a>>,
    roles: [RoleShown<'a>; 3],
}

struct MemberShown<'a> {
    id: String,
    email: String,
    name: Option<String>,
    role: RoleShown<'a>,
    since: When,
    you: bool,
}

struct InvitedShown<'a> {
    id: String,
    to: String,
    role: &'a Text,
    until: When,
}

/// A role, as a form names it and as people read it.
struct RoleShown<'a> {
    value: &'static str,
    name: &'a Text,
}

impl<'a> RoleShown<'a> {
    const fn of(texts: &'a Texts, role: Role) -> Self {
        Self { value: role.as_str(), name: texts.role(role) }
    }
}

/// The role that a form names.
fn role_in(form: &Form) -> Option<Role> {
    [Role::Owner, Role::Member, Role::Viewer].into_iter().find(|role| role.as_str() == form.get("role"))
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
    query: Query,
) -> Result<Response, ApiError> {
    match browser {
        Some(browser) => {
            members_page(Visit::of(&app, &meta, &browser, &id).after(&query), query.get("cursor"), None).await
        }
        None => see_other("/sign-in"),
    }
}

pub async fn change_role(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, member): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id);
    let (Some(actor), Some(role)) = (visit.actor(), role_in(&form)) else { return see_other("/sign-in") };
    let change = ChangeRole { role: Some(role) };
    let path = MemberPath { workspace_id: &id, user_id: &member };
    answer(visit, workspaces::change_role(&app, &actor, path, &change).await.map(|_| None)).await
}

/// Asks before a member is removed.
pub async fn confirm_remove_member(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathIds(id, member): PathIds,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let visit = Visit::of(&app, &meta, &browser, &id);
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    if actor.user_id.to_string() == member {
        return see_other(&format!("{}/leave", WorkspacePage::Members.path(&id)));
    }
    let path = MemberPath { workspace_id: &id, user_id: &member };
    let found =
        async { Ok((pages::find_member(&app, &actor, path).await?, workspaces::find(&app, &actor, &id).await?)) };
    let (member, workspace) = match found.await {
        Ok(found) => found,
        Err(failure) => return answer(visit, Err(failure)).await,
    };
    let (t, back) = (visit.t, WorkspacePage::Members.path(&id));
    let question = Question {
        title: t.confirm.remove_member.with("email", member.email).with("workspace", workspace.name).to_string(),
        text: t.confirm.remove_member_text.to_string(),
        action: format!("{back}/members/{}/remove", member.user_id),
        button: &t.workspace.remove,
        back,
        ..Question::default()
    };
    question.show(&app, &browser, t)
}

pub async fn remove_member(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, member): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id);
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let path = MemberPath { workspace_id: &id, user_id: &member };
    // What is not found is not named. Removing it says why.
    let email = pages::find_member(&app, &actor, path).await.ok().map(|member| member.email);
    let removed = workspaces::remove_member(&app, &actor, path).await;
    answer(visit, removed.map(|()| email.map(Done::MemberRemoved))).await
}

pub async fn invite(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id);
    let (Some(actor), Some(role)) = (visit.actor(), role_in(&form)) else { return see_other("/sign-in") };
    let invite = Invite { email: form.get("email").to_owned(), role: Some(role) };
    answer(visit, invitations::invite(&app, &actor, &id, &invite).await.map(|_| None)).await
}

/// Asks before an invitation is revoked.
pub async fn confirm_revoke_invitation(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathIds(id, invitation): PathIds,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let visit = Visit::of(&app, &meta, &browser, &id);
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let path = InvitationPath { workspace_id: &id, invitation_id: &invitation };
    let invitation = match invitations::find(&app, &actor, path).await {
        Ok(invitation) => invitation,
        Err(failure) => return answer(visit, Err(failure)).await,
    };
    let (t, back) = (visit.t, WorkspacePage::Members.path(&id));
    let question = Question {
        title: t.confirm.revoke_invitation.with("email", invitation.email).to_string(),
        text: t.confirm.revoke_invitation_text.to_string(),
        action: format!("{back}/invitations/{}/revoke", invitation.id),
        button: &t.workspace.revoke,
        back,
        ..Question::default()
    };
    question.show(&app, &browser, t)
}

pub async fn revoke_invitation(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, invitation): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id);
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let path = InvitationPath { workspace_id: &id, invitation_id: &invitation };
    let email = invitations::find(&app, &actor, path).await.ok().map(|invitation| invitation.email);
    let revoked = invitations::revoke(&app, &actor, path).await;
    answer(visit, revoked.map(|()| email.map(Done::InvitationRevoked))).await
}

pub async fn require_passkey(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    set_passkey_requirement(Visit::of(&app, &meta, &form.browser, &id), true).await
}

pub async fn allow_codes(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    set_passkey_requirement(Visit::of(&app, &meta, &form.browser, &id), false).await
}

async fn set_passkey_requirement(visit: Visit<'_>, required: bool) -> Result<Response, ApiError> {
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let set = async {
        let sign_in = step_up::require_recent_sign_in(visit.app, &actor).await?;
        passkey_requirement::set(visit.app, &actor, sign_in, visit.id, required).await
    };
    let done = if required { Done::WorkspacePasskeyRequired } else { Done::WorkspaceCodesAllowed };
    answer(visit, set.await.map(|_| Some(done))).await
}

/// Asks before a member leaves.
pub async fn confirm_leave(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let visit = Visit::of(&app, &meta, &browser, &id);
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let workspace = workspaces::find(&app, &actor, &id).await?;
    let (t, back) = (visit.t, WorkspacePage::Members.path(&id));
    let question = Question {
        title: t.confirm.leave.with("name", workspace.name).to_string(),
        text: t.workspace.leave_hint.to_string(),
        action: format!("{back}/leave"),
        field: Some(HiddenField::sure()),
        button: &t.workspace.leave,
        back,
        ..Question::default()
    };
    question.show(&app, &browser, t)
}

pub async fn leave(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id);
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    if form.get("sure").is_empty() {
        return see_other(&format!("/workspaces/{id}"));
    }
    let own = actor.user_id.to_string();
    let name = workspaces::find(&app, &actor, &id).await.ok().map(|workspace| workspace.name);
    match workspaces::remove_member(&app, &actor, MemberPath { workspace_id: &id, user_id: &own }).await {
        Ok(()) => visit.go_to("/workspaces", name.map(Done::WorkspaceLeft)),
        Err(failure) => answer(visit, Err(failure)).await,
    }
}

/// Back to the page; or the page with what went wrong, or what has to be done first.
async fn answer(visit: Visit<'_>, done: Result<Option<Done>, WorkspaceError>) -> Result<Response, ApiError> {
    match visit.after_form(done, WorkspacePage::Members).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => members_page(visit, None, Some(problem)).await,
    }
}

async fn members_page(
    visit: Visit<'_>,
    cursor: Option<&str>,
    problem: Option<FormProblem>,
) -> Result<Response, ApiError> {
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let (t, moments) = (visit.t, visit.moments());
    let detail = pages::detail(visit.app, &actor, visit.id, cursor).await?;
    let members = detail.members.data.into_iter().map(|member| MemberShown {
        you: member.user_id == actor.user_id,
        id: member.user_id.to_string(),
        email: member.email,
        name: member.name,
        role: RoleShown::of(t, member.role),
        since: moments.of(member.joined_at),
    });
    let invitations = detail.invitations.into_iter().map(|invitation| InvitedShown {
        id: invitation.id.to_string(),
        to: invitation.email,
        role: t.role(invitation.role),
        until: moments.of(invitation.expires_at),
    });
    let (status, problem) = with_problem(problem);
    let (owns, kept_out) = (detail.header.workspace.role == Role::Owner, detail.kept_out);
    let template = MembersPage {
        t,
        title: &t.workspace.title,
        stylesheet: STYLESHEET,
        owns: owns && !kept_out,
        kept_out,
        requires_passkey: detail.header.workspace.requires_passkey,
        frame: visit.frame(WorkspacePage::Members, detail.header, problem),
        members: members.collect(),
        next: detail.members.next_cursor,
        invitations: invitations.collect(),
        roles: [Role::Owner, Role::Member, Role::Viewer].map(|role| RoleShown::of(t, role)),
    };
    page(t, status, &template, None)
}
