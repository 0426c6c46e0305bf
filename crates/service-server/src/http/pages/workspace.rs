//! `/workspaces/{workspaceId}`: who is in a workspace, its invitations for owners, and leaving.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use service_api::workspaces::{ChangeRole, Invite, Role};
use service_rules::{display_name::DisplayNameError, space::SpaceError};

use crate::{
    app::App,
    flows::{
        Actor, RequestMeta,
        oauth::authorize,
        sign_in::browser_session::Browser,
        workspaces::{
            self, MemberPath, WorkspaceError,
            invitations::{self, InvitationPath},
            pages,
        },
    },
    http::{
        errors::ApiError,
        pages::{
            STYLESHEET, When, page,
            request_browser::{Form, RequestBrowser},
            see_other,
        },
        path::{PathId, PathIds},
        query::Query,
    },
    locales::{Sentence, Text, Texts},
};

#[derive(Template)]
#[template(path = "pages/workspace.html")]
struct Workspace<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    csrf: String,
    problem: Option<String>,
    id: &'a str,
    name: &'a str,
    owner: &'a str,
    lead: Sentence,
    owns: bool,
    members: Vec<MemberShown<'a>>,
    next: Option<String>,
    invitations: Vec<InvitedShown<'a>>,
    roles: [RoleShown<'a>; 3],
}

struct MemberShown<'a> {
    id: String,
    email: String,
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
        Self { value: role_value(role), name: texts.role(role) }
    }
}

/// A role, as a form names it.
const fn role_value(role: Role) -> &'static str {
    match role {
        Role::Owner => "owner",
        Role::Member => "member",
        Role::Viewer => "viewer",
    }
}

/// The role that a form names.
fn role_in(form: &Form) -> Option<Role> {
    [Role::Owner, Role::Member, Role::Viewer].into_iter().find(|role| role_value(*role) == form.get("role"))
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
            WorkspacePage { app: &app, meta: &meta, browser: &browser, id: &id }.show(query.get("cursor")).await
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
    let shown = WorkspacePage { app: &app, meta: &meta, browser: &form.browser, id: &id };
    let (Some(actor), Some(role)) = (shown.actor(), role_in(&form)) else { return see_other("/sign-in") };
    let change = ChangeRole { role: Some(role) };
    shown
        .answer(
            workspaces::change_role(&app, &actor, MemberPath { workspace_id: &id, user_id: &member }, &change)
                .await
                .map(drop),
        )
        .await
}

pub async fn remove_member(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, member): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let shown = WorkspacePage { app: &app, meta: &meta, browser: &form.browser, id: &id };
    let Some(actor) = shown.actor() else { return see_other("/sign-in") };
    shown
        .answer(workspaces::remove_member(&app, &actor, MemberPath { workspace_id: &id, user_id: &member }).await)
        .await
}

pub async fn invite(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let shown = WorkspacePage { app: &app, meta: &meta, browser: &form.browser, id: &id };
    let (Some(actor), Some(role)) = (shown.actor(), role_in(&form)) else { return see_other("/sign-in") };
    let invite = Invite { email: form.get("email").to_owned(), role: Some(role) };
    shown.answer(invitations::invite(&app, &actor, &id, &invite).await.map(drop)).await
}

pub async fn revoke_invitation(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, invitation): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let shown = WorkspacePage { app: &app, meta: &meta, browser: &form.browser, id: &id };
    let Some(actor) = shown.actor() else { return see_other("/sign-in") };
    shown
        .answer(
            invitations::revoke(&app, &actor, InvitationPath { workspace_id: &id, invitation_id: &invitation }).await,
        )
        .await
}

pub async fn leave(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let shown = WorkspacePage { app: &app, meta: &meta, browser: &form.browser, id: &id };
    let Some(actor) = shown.actor() else { return see_other("/sign-in") };
    if form.get("sure").is_empty() {
        return see_other(&format!("/workspaces/{id}"));
    }
    let own = actor.user_id.to_string();
    match workspaces::remove_member(&app, &actor, MemberPath { workspace_id: &id, user_id: &own }).await {
        Ok(()) => see_other("/workspaces"),
        Err(failure) => shown.answer(Err(failure)).await,
    }
}

/// The page of one workspace, for the user of one browser.
struct WorkspacePage<'a> {
    app: &'a App,
    meta: &'a RequestMeta,
    browser: &'a Browser,
    id: &'a str,
}

impl WorkspacePage<'_> {
    fn actor(&self) -> Option<Actor<'_>> {
        Actor::in_browser(self.browser, self.meta)
    }

    /// Back to the page; or the page with what went wrong, or what has to be done first.
    async fn answer(&self, done: Result<(), WorkspaceError>) -> Result<Response, ApiError> {
        match done {
            Ok(()) => see_other(&format!("/workspaces/{}", self.id)),
            Err(WorkspaceError::SignInTooOld) => {
                let flow =
                    authorize::open_flow(self.app, self.meta, self.browser, authorize::SignInPurpose::Account).await?;
                see_other(&format!("/sign-in/{}", flow.id))
            }
            Err(WorkspaceError::SessionRevoked) => see_other("/sign-in"),
            Err(broken @ (WorkspaceError::Database(_) | WorkspaceError::Defect(_))) => Err(broken.into()),
            Err(refusal) => {
                let text = refused(self.app.locales.of(self.meta.language), &refusal);
                self.render(ApiError::from(refusal).status(), Some(text), None).await
            }
        }
    }

    async fn show(&self, cursor: Option<&str>) -> Result<Response, ApiError> {
        self.render(StatusCode::OK, None, cursor).await
    }

    async fn render(
        &self,
        status: StatusCode,
        problem: Option<String>,
        cursor: Option<&str>,
    ) -> Result<Response, ApiError> {
        let Some(actor) = self.actor() else { return see_other("/sign-in") };
        let t = self.app.locales.of(self.meta.language);
        let detail = pages::detail(self.app, &actor, self.id, cursor).await?;
        let members = detail.members.data.into_iter().map(|member| MemberShown {
            you: member.user_id == actor.user_id,
            id: member.user_id.to_string(),
            email: member.email,
            role: RoleShown::of(t, member.role),
            since: When::of(t, member.joined_at),
        });
        let invitations = detail.invitations.into_iter().map(|invitation| InvitedShown {
            id: invitation.id.to_string(),
            to: invitation.email,
            role: t.role(invitation.role),
            until: When::of(t, invitation.expires_at),
        });
        let template = Workspace {
            t,
            title: &t.workspace.title,
            stylesheet: STYLESHEET,
            csrf: self.browser.form_token(self.app),
            problem,
            id: self.id,
            name: &detail.workspace.name,
            owner: &detail.owner,
            lead: t.workspace.owned_by.with("role", t.role(detail.workspace.role)),
            owns: detail.workspace.role == Role::Owner,
            members: members.collect(),
            next: detail.members.next_cursor,
            invitations: invitations.collect(),
            roles: [Role::Owner, Role::Member, Role::Viewer].map(|role| RoleShown::of(t, role)),
        };
        page(t, status, &template, None)
    }
}

/// What a page says about a change to a workspace that was refused.
pub(super) fn refused(t: &Texts, refusal: &WorkspaceError) -> String {
    match refusal {
        WorkspaceError::Space(SpaceError::Forbidden) => t.workspace.forbidden.to_string(),
        WorkspaceError::Space(_) => t.spaces.no_access.to_string(),
        WorkspaceError::SignInTooOld | WorkspaceError::SessionRevoked => t.problem.sign_in_again.to_string(),
        WorkspaceError::MemberNotFound | WorkspaceError::InvitationNotFound | WorkspaceError::InvalidCursor(_) => {
            t.workspace.gone.to_string()
        }
        WorkspaceError::NotInvited => t.workspaces.expired.to_string(),
        WorkspaceError::NotBlocked => t.workspaces.not_blocked.to_string(),
        WorkspaceError::TooManyBlocked => t.workspaces.too_many_blocked.to_string(),
        WorkspaceError::InvalidName(DisplayNameError::Length(max)) => {
            t.workspaces.name_length.with("max", max).to_string()
        }
        WorkspaceError::InvalidName(DisplayNameError::Invisible) => t.workspaces.name_invisible.to_string(),
        WorkspaceError::InvalidName(DisplayNameError::Link) => t.workspaces.name_link.to_string(),
        WorkspaceError::InvalidName(DisplayNameError::MixedScripts) => t.workspaces.name_scripts.to_string(),
        WorkspaceError::InvalidName(DisplayNameError::Reserved) => t.workspaces.name_reserved.to_string(),
        WorkspaceError::InvalidAddress => t.workspace.invalid_email.to_string(),
        WorkspaceError::LastOwner => t.workspace.last_owner.to_string(),
        WorkspaceError::LastBreakGlass => t.workspace.last_break_glass.to_string(),
        WorkspaceError::TooManyWorkspaces => t.workspaces.too_many.to_string(),
        WorkspaceError::Limited(limited) => {
            t.workspace.limited.with("wait", t.duration(limited.retry_after.into())).to_string()
        }
        // Callers answer these with the page for a failure of the service.
        WorkspaceError::Database(_) | WorkspaceError::Defect(_) => t.problem.unavailable.to_string(),
    }
}
