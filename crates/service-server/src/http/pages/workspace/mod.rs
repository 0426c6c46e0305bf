//! `/workspaces/{workspaceId}`: the pages of one workspace. One file a page; what they share is here.
//!
//! Every member sees the members. The other pages are for owners, and only owners see the navigation.

pub mod activity;
pub mod connections;
pub mod credentials;
pub mod members;

use axum::response::Response;
use service_api::workspaces::Role;
use service_rules::space::SpaceError;

use crate::{
    app::App,
    flows::{
        Actor, RequestMeta,
        oauth::authorize::{self, SignInPurpose, WorkspacePlace},
        sign_in::browser_session::Browser,
        workspaces::{WorkspaceError, pages::WorkspaceHeader},
    },
    http::{
        errors::ApiError,
        pages::{
            Moments,
            done::Done,
            forms::{FormOutcome, FormProblem, refused_name},
            see_other,
        },
        query::Query,
    },
    locales::{Sentence, Text, Texts},
};

/// The pages, in the order in which the navigation lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkspacePage {
    Members,
    Connections,
    Credentials,
    Activity,
}

impl WorkspacePage {
    const ALL: [Self; 4] = [Self::Members, Self::Connections, Self::Credentials, Self::Activity];

    fn path(self, id: &str) -> String {
        let page = match self {
            Self::Members => "",
            Self::Connections => "/connections",
            Self::Credentials => "/credentials",
            Self::Activity => "/activity",
        };
        format!("/workspaces/{id}{page}")
    }

    const fn name(self, texts: &Texts) -> &Text {
        let nav = &texts.workspace.nav;
        match self {
            Self::Members => &nav.members,
            Self::Connections => &nav.connections,
            Self::Credentials => &nav.credentials,
            Self::Activity => &nav.activity,
        }
    }
}

/// The path of a page to which a user returns.
pub(in crate::http::pages) fn path_of(place: WorkspacePlace) -> String {
    let workspace_id = place.workspace_id.to_string();
    match place.connection_id {
        Some(id) => format!("{}/{id}", WorkspacePage::Connections.path(&workspace_id)),
        None => WorkspacePage::Members.path(&workspace_id),
    }
}

/// A link of the navigation.
struct WorkspaceLink<'a> {
    href: String,
    name: &'a Text,
    current: bool,
}

/// What every page of a workspace shows around its own content.
struct WorkspaceFrame<'a> {
    csrf: String,
    id: String,
    name: String,
    /// The email address of an owner, which tells workspaces of the same name apart.
    owner: String,
    lead: Sentence,
    /// The address of the page.
    path: String,
    /// The pages for owners; empty for other members.
    links: Vec<WorkspaceLink<'a>>,
    /// What went wrong with the form that was sent.
    problem: Option<String>,
    /// What the form did that led here.
    done: Option<String>,
}

/// The user of a browser at the pages of one workspace.
#[derive(Clone, Copy)]
struct Visit<'a> {
    app: &'a App,
    meta: &'a RequestMeta,
    browser: &'a Browser,
    id: &'a str,
    connection: Option<&'a str>,
    t: &'a Texts,
    /// The sealed message about the form that led here.
    done: Option<&'a str>,
}

impl<'a> Visit<'a> {
    fn of(app: &'a App, meta: &'a RequestMeta, browser: &'a Browser, id: &'a str) -> Self {
        Self { app, meta, browser, id, connection: None, t: app.locales.of(meta.language), done: None }
    }

    /// At a page whose address may have a message.
    fn after(self, query: &'a Query) -> Self {
        Self { done: query.get("done"), ..self }
    }

    fn actor(&self) -> Option<Actor<'a>> {
        Actor::in_browser(self.browser, self.meta)
    }

    fn moments(&self) -> Moments<'a> {
        Moments::now(self.app, self.t)
    }

    /// At the page of one connection.
    fn at_connection(self, connection: &'a str) -> Self {
        Self { connection: Some(connection), ..self }
    }

    /// What the user does after signing in again: returns to this page.
    fn purpose(&self) -> SignInPurpose {
        let connection_id = self.connection.and_then(|id| id.parse().ok());
        let place = self.id.parse().map(|workspace_id| WorkspacePlace { workspace_id, connection_id });
        place.map_or(SignInPurpose::Account, SignInPurpose::Workspace)
    }

    fn frame(&self, here: WorkspacePage, header: WorkspaceHeader, problem: Option<String>) -> WorkspaceFrame<'a> {
        let t = self.t;
        let link =
            |page: WorkspacePage| WorkspaceLink { href: page.path(self.id), name: page.name(t), current: page == here };
        let WorkspaceHeader { workspace, owner } = header;
        WorkspaceFrame {
            csrf: self.browser.form_token(self.app),
            id: workspace.id.to_string(),
            lead: t.workspace.owned_by.with("role", t.role(workspace.role)),
            links: WorkspacePage::ALL.map(link).into_iter().filter(|_| workspace.role == Role::Owner).collect(),
            name: workspace.name,
            owner,
            path: here.path(self.id),
            problem,
            done: self.done.and_then(|sealed| Done::open(self.app, self.browser, sealed)).map(|done| done.text(t)),
        }
    }

    /// To a page that says what was done, if there is anything to say.
    fn go_to(&self, path: &str, done: Option<Done>) -> Result<Response, ApiError> {
        match done {
            Some(done) => see_other(&format!("{path}?done={}", done.seal(self.app, self.browser)?)),
            None => see_other(path),
        }
    }

    /// Decides what a browser gets after a form: a redirect, or the page at `here` with a problem.
    async fn after_form(
        &self,
        done: Result<Option<Done>, WorkspaceError>,
        here: WorkspacePage,
    ) -> Result<FormOutcome, ApiError> {
        match done {
            Ok(done) => self.go_to(&here.path(self.id), done).map(FormOutcome::Redirect),
            Err(WorkspaceError::SignInTooOld(_)) => {
                let flow = authorize::open_flow(self.app, self.meta, self.browser, self.purpose()).await?;
                see_other(&format!("/sign-in/{}", flow.id)).map(FormOutcome::Redirect)
            }
            Err(WorkspaceError::SessionRevoked) => see_other("/sign-in").map(FormOutcome::Redirect),
            Err(broken @ (WorkspaceError::Database(_) | WorkspaceError::Defect(_))) => Err(broken.into()),
            Err(refusal) => {
                let text = refused(self.t, &refusal);
                Ok(FormOutcome::Problem(FormProblem { status: ApiError::from(refusal).status(), text }))
            }
        }
    }
}

/// What a page says about a change to a workspace that was refused.
pub(in crate::http::pages) fn refused(t: &Texts, refusal: &WorkspaceError) -> String {
    match refusal {
        WorkspaceError::Space(SpaceError::Forbidden) => t.workspace.forbidden.to_string(),
        WorkspaceError::Space(SpaceError::PasskeyRequired) => t.workspace.kept_out.to_string(),
        WorkspaceError::Space(_) => t.spaces.no_access.to_string(),
        WorkspaceError::SignInTooOld(_) | WorkspaceError::SessionRevoked => t.problem.sign_in_again.to_string(),
        WorkspaceError::MemberNotFound | WorkspaceError::InvitationNotFound | WorkspaceError::InvalidCursor(_) => {
            t.workspace.gone.to_string()
        }
        WorkspaceError::CredentialNotFound => t.workspace.credentials.gone.to_string(),
        WorkspaceError::NotInvited => t.workspaces.expired.to_string(),
        WorkspaceError::NotBlocked => t.workspaces.not_blocked.to_string(),
        WorkspaceError::TooManyBlocked => t.workspaces.too_many_blocked.to_string(),
        WorkspaceError::InvalidName(refusal) => refused_name(t, *refusal),
        WorkspaceError::InvalidAddress => t.workspace.invalid_email.to_string(),
        WorkspaceError::LastOwner => t.workspace.last_owner.to_string(),
        WorkspaceError::LastBreakGlass => t.workspace.last_break_glass.to_string(),
        WorkspaceError::NoOwnPasskey => t.workspace.no_own_passkey.to_string(),
        WorkspaceError::TooManyWorkspaces => t.workspaces.too_many.to_string(),
        WorkspaceError::Limited(limited) => {
            t.workspace.limited.with("wait", t.duration(limited.retry_after.into())).to_string()
        }
        // Callers answer these with the page for a failure of the service.
        WorkspaceError::Database(_) | WorkspaceError::Defect(_) => t.problem.unavailable.to_string(),
    }
}
