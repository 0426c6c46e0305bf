//! `/workspaces/{workspaceId}/connections`: single sign-on of a workspace, as its owners set it up.

pub mod connection;
pub mod requirement;

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use service_api::{
    connections::{CreateConnection, DomainStatus, SsoConnection, WorkspaceDomain},
    ids::ConnectionId,
};
use service_rules::domains::DomainError;

use crate::{
    app::App,
    flows::{
        Actor, RequestMeta,
        sign_in::step_up::{self, RecentSignIn},
        sso::{
            connection_error::ConnectionError,
            connections,
            domains::DomainClaimError,
            pages::{self, SsoOverview},
        },
        workspaces::WorkspaceError,
    },
    http::{
        errors::ApiError,
        pages::{
            Moments, STYLESHEET, When,
            forms::{FormOutcome, FormProblem, with_problem},
            page,
            request_browser::{Form, RequestBrowser},
            see_other,
            workspace::{Visit, WorkspaceFrame, WorkspacePage},
        },
        path::PathId,
        query::Query,
    },
    locales::{Text, Texts},
};

#[derive(Template)]
#[template(path = "pages/workspace/connections.html")]
struct ConnectionsPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: WorkspaceFrame<'a>,
    connections: Vec<ConnectionShown<'a>>,
}

struct ConnectionShown<'a> {
    href: String,
    name: String,
    issuer: String,
    /// The domains, each with what is wrong with it.
    domains: Vec<String>,
    state: StateShown<'a>,
    health: Health<'a>,
}

/// How far a connection is set up.
struct StateShown<'a> {
    name: &'a Text,
    /// Whether users are sent to the provider.
    on: bool,
}

impl<'a> StateShown<'a> {
    const fn of(t: &'a Texts, connection: &SsoConnection) -> Self {
        let texts = &t.connections.states;
        let name = match (connection.required, connection.enabled, connection.tried_at) {
            (true, ..) => &texts.required,
            (false, true, _) => &texts.enabled,
            (false, false, Some(_)) => &texts.tried,
            (false, false, None) => &texts.draft,
        };
        Self { name, on: connection.enabled }
    }
}

/// Whether the provider answered lately. What went wrong is in English, as the API says it.
struct Health<'a> {
    verdict: &'a Text,
    is_bad: bool,
    last_success: Option<When>,
    last_error: Option<(When, String)>,
}

impl<'a> Health<'a> {
    fn of(moments: Moments<'a>, connection: &SsoConnection) -> Self {
        let (texts, health) = (&moments.t.connections.health, &connection.health);
        let is_bad = health.last_error_at > health.last_success_at;
        let verdict = match (is_bad, health.last_success_at) {
            (true, _) => &texts.bad,
            (false, Some(_)) => &texts.good,
            (false, None) => &texts.unknown,
        };
        let error = health.last_error.clone().zip(health.last_error_at);
        Self {
            verdict,
            is_bad,
            last_success: health.last_success_at.map(|at| moments.of(at)),
            last_error: error.map(|(error, at)| (moments.of(at), error)),
        }
    }
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
    query: Query,
) -> Result<Response, ApiError> {
    match browser {
        Some(browser) => connections_page(Visit::of(&app, &meta, &browser, &id).after(&query), None).await,
        None => see_other("/sign-in"),
    }
}

pub async fn create(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id);
    let new = CreateConnection {
        name: form.get("name").to_owned(),
        issuer: form.get("issuer").trim_ascii().to_owned(),
        client_id: None,
        client_secret: None,
        auth_method: None,
        algorithms: None,
        jwks: None,
        default_role: None,
        session_hours: None,
        token_days: None,
        break_glass: None,
    };
    let created = async {
        let (actor, recent) = recently_signed_in(visit).await?;
        Ok(connections::create(&app, &actor, recent, &id, &new).await?)
    };
    match created.await {
        Ok(connection) => see_other(&path_of(&id, connection.id)),
        Err(error) => match after_refusal(visit, error).await? {
            FormOutcome::Redirect(response) => Ok(response),
            FormOutcome::Problem(problem) => connections_page(visit, Some(problem)).await,
        },
    }
}

async fn connections_page(visit: Visit<'_>, problem: Option<FormProblem>) -> Result<Response, ApiError> {
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let SsoOverview { header, connections, domains } = pages::overview(visit.app, &actor, visit.id).await?;
    let t = visit.t;
    let shown = |connection: SsoConnection| ConnectionShown {
        href: path_of(visit.id, connection.id),
        domains: domains_of(t, &domains, connection.id),
        state: StateShown::of(t, &connection),
        health: Health::of(visit.moments(), &connection),
        name: connection.name,
        issuer: connection.issuer,
    };
    let (status, problem) = with_problem(problem);
    let template = ConnectionsPage {
        t,
        title: &t.connections.title,
        stylesheet: STYLESHEET,
        frame: visit.frame(WorkspacePage::Connections, header, problem),
        connections: connections.into_iter().map(shown).collect(),
    };
    page(t, status, &template, None)
}

/// The page of a connection.
fn path_of(workspace_id: &str, id: ConnectionId) -> String {
    format!("{}/{id}", WorkspacePage::Connections.path(workspace_id))
}

/// The domains of a connection, and the state of those that are not in order.
fn domains_of(t: &Texts, domains: &[WorkspaceDomain], id: ConnectionId) -> Vec<String> {
    let own = domains.iter().filter(|domain| domain.connection_id == Some(id));
    own.map(|domain| match domain.status {
        DomainStatus::Verified => domain.domain.clone(),
        status => format!("{} ({})", domain.domain, domain_state(t, status)),
    })
    .collect()
}

/// What pages call the state of a domain.
const fn domain_state(t: &Texts, status: DomainStatus) -> &Text {
    let texts = &t.connections.domain;
    match status {
        DomainStatus::Pending => &texts.pending,
        DomainStatus::Verified => &texts.verified,
        DomainStatus::Failing => &texts.failing,
        DomainStatus::Lost => &texts.lost,
    }
}

/// The user of the browser, who has to have signed in recently to change how others sign in.
async fn recently_signed_in(visit: Visit<'_>) -> Result<(Actor<'_>, RecentSignIn), WorkspaceError> {
    let actor = visit.actor().ok_or(WorkspaceError::SessionRevoked)?;
    let recent = step_up::require_recent_sign_in(visit.app, &actor).await?;
    Ok((actor, recent))
}

/// Decides what a browser gets after a form that was refused.
async fn after_refusal(visit: Visit<'_>, error: DomainClaimError) -> Result<FormOutcome, ApiError> {
    match error {
        DomainClaimError::Workspace(error) | DomainClaimError::Connection(ConnectionError::Workspace(error)) => {
            visit.after_form(Err(error), WorkspacePage::Connections).await
        }
        DomainClaimError::Database(error) | DomainClaimError::Connection(ConnectionError::Database(error)) => {
            Err(error.into())
        }
        DomainClaimError::Defect(error) | DomainClaimError::Connection(ConnectionError::Defect(error)) => {
            Err(error.into())
        }
        refusal => {
            let text = refused(visit.t, &refusal);
            Ok(FormOutcome::Problem(FormProblem { status: ApiError::from(refusal).status(), text }))
        }
    }
}

/// What a page says about a change to connections or domains that was refused.
fn refused(t: &Texts, refusal: &DomainClaimError) -> String {
    let texts = &t.connections.problems;
    match refusal {
        DomainClaimError::Connection(refusal) => refused_connection(t, refusal),
        DomainClaimError::Invalid(DomainError::PublicMail) => texts.public_mail.to_string(),
        DomainClaimError::Invalid(DomainError::PublicSuffix) => texts.public_suffix.to_string(),
        DomainClaimError::Invalid(_) => texts.invalid_domain.to_string(),
        DomainClaimError::NotFound => texts.domain_gone.to_string(),
        DomainClaimError::AlreadyClaimed => texts.already_claimed.to_string(),
        DomainClaimError::TooMany => texts.too_many_domains.to_string(),
        DomainClaimError::VerifiedElsewhere { record, .. } => texts.elsewhere.with("record", record).to_string(),
        DomainClaimError::DnsUnanswered => texts.dns.to_string(),
        DomainClaimError::Limited(limited) => {
            t.workspace.limited.with("wait", t.duration(limited.retry_after.into())).to_string()
        }
        // Callers answer these before.
        DomainClaimError::Workspace(_) | DomainClaimError::Database(_) | DomainClaimError::Defect(_) => {
            t.problem.unavailable.to_string()
        }
    }
}

fn refused_connection(t: &Texts, refusal: &ConnectionError) -> String {
    let texts = &t.connections.problems;
    let text = match refusal {
        ConnectionError::InvalidField(invalid) => match invalid.field {
            "issuer" => &texts.invalid_issuer,
            "clientId" => &texts.invalid_client_id,
            "clientSecret" => &texts.invalid_client_secret,
            "sessionHours" => &texts.invalid_hours,
            "tokenDays" => &texts.invalid_days,
            "breakGlass" => &texts.invalid_break_glass,
            _ => &texts.invalid,
        },
        ConnectionError::NotFound => &texts.gone,
        ConnectionError::TooMany => &texts.too_many,
        ConnectionError::NotTried => &texts.not_tried,
        ConnectionError::NotEnabled => &texts.not_enabled,
        ConnectionError::NoBreakGlass => &texts.no_break_glass,
        // Callers answer these before.
        ConnectionError::Workspace(_) | ConnectionError::Database(_) | ConnectionError::Defect(_) => {
            &t.problem.unavailable
        }
    };
    text.to_string()
}
