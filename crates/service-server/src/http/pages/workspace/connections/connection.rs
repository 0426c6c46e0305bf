//! `/workspaces/{workspaceId}/connections/{connectionId}`: setting up one connection, step by step.
//!
//! The steps are provider, domain, and trying it; then it is turned on. The first step that is not done is open.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use serde_json::Value;
use service_api::{
    connections::{
        AuthMethod, Change, ClaimDomain, DefaultRole, DomainStatus, SsoConnection, UpdateConnection, UpdateDomain,
        WorkspaceDomain,
    },
    ids::ConnectionId,
    token::ProviderSecret,
};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        sso::{
            connection_error::ConnectionError,
            connections::{self, ConnectionPath},
            domains::{self, DomainClaimError, DomainPath},
            pages::{self, ConnectionDetail},
        },
    },
    http::{
        errors::ApiError,
        pages::{
            Moments, STYLESHEET, When,
            confirm::{HiddenField, Question},
            done::Done,
            forms::{FormOutcome, FormProblem, with_problem},
            page,
            request_browser::{Form, RequestBrowser},
            see_other,
            workspace::{
                Visit, WorkspaceFrame, WorkspacePage,
                connections::{Health, StateShown, after_refusal, domain_state, path_of, recently_signed_in},
            },
        },
        path::PathIds,
        query::Query,
    },
    locales::{Text, Texts},
};

#[derive(Template)]
#[template(path = "pages/workspace/connection.html")]
struct ConnectionPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: WorkspaceFrame<'a>,
    /// The address of this page.
    path: String,
    c: SsoConnection,
    state: StateShown<'a>,
    health: Health<'a>,
    domains: Vec<DomainShown<'a>>,
    other_domains: Vec<DomainShown<'a>>,
    methods: [MethodShown<'a>; 3],
    /// The key that the provider has to know, as a JWK Set.
    public_key: Option<String>,
    viewer: bool,
    tried: Option<When>,
    enabled: Option<When>,
    steps: Steps,
}

struct DomainShown<'a> {
    domain: String,
    state: &'a Text,
    verified: bool,
    value: String,
    checked: Option<When>,
    /// Why the last check failed, in English.
    last_error: Option<String>,
}

struct MethodShown<'a> {
    value: &'static str,
    name: &'a Text,
    chosen: bool,
}

/// Which steps are done. The first one that is not is open, and so is the one whose form was refused.
#[derive(Clone, Copy)]
struct Steps {
    provider: bool,
    domain: bool,
    tried: bool,
    open: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Provider,
    Domain,
    Try,
    TurnOn,
    Settings,
    Delete,
}

impl Steps {
    fn of(connection: &SsoConnection, domains: &[WorkspaceDomain], open: Option<Step>) -> Self {
        let has_credential = connection.has_client_secret || connection.public_key.is_some();
        let provider = connection.client_id.is_some() && has_credential;
        let domain = domains.iter().any(|domain| is_verified(domain.status));
        let tried = connection.tried_at.is_some();
        let next = match (provider, domain, tried) {
            (false, ..) => Step::Provider,
            (true, false, _) => Step::Domain,
            (true, true, false) => Step::Try,
            (true, true, true) => Step::TurnOn,
        };
        Self { provider, domain, tried, open: open.unwrap_or(next) }
    }

    fn is_open(self, step: &str) -> bool {
        let name = match self.open {
            Step::Provider => "provider",
            Step::Domain => "domain",
            Step::Try => "try",
            Step::TurnOn => "on",
            Step::Settings => "settings",
            Step::Delete => "delete",
        };
        name == step
    }
}

/// Whether users of the domain are sent to the provider.
const fn is_verified(status: DomainStatus) -> bool {
    matches!(status, DomainStatus::Verified | DomainStatus::Failing)
}

impl<'a> DomainShown<'a> {
    fn of(moments: Moments<'a>, domain: WorkspaceDomain) -> Self {
        Self {
            state: domain_state(moments.t, domain.status),
            verified: domain.status == DomainStatus::Verified,
            domain: domain.domain,
            value: domain.record.value,
            checked: domain.checked_at.map(|at| moments.of(at)),
            last_error: domain.last_error,
        }
    }
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathIds(id, connection): PathIds,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    connection_page(Visit::of(&app, &meta, &browser, &id).after(&query), &connection, None, None).await
}

pub async fn set_provider(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, connection): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let text = |name| Some(form.get(name).trim_ascii()).filter(|text| !text.is_empty());
    let change = UpdateConnection {
        client_id: text("client_id").map(str::to_owned),
        // An empty field keeps the secret that is stored.
        client_secret: text("client_secret").map(|secret| ProviderSecret::new(secret.to_owned())),
        auth_method: AuthMethod::parse(form.get("auth_method")),
        ..UpdateConnection::default()
    };
    update(Visit::of(&app, &meta, &form.browser, &id).at_connection(&connection), &connection, &change, Step::Provider)
        .await
}

pub async fn set_policy(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, connection): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    // A number that cannot be read is refused like one that is out of range.
    let number = |name| Some(form.get(name).parse().unwrap_or_default());
    let change = UpdateConnection {
        name: Some(form.get("name").to_owned()),
        default_role: match form.get("role") {
            "viewer" => Some(DefaultRole::Viewer),
            "member" => Some(DefaultRole::Member),
            _ => None,
        },
        session_hours: number("session_hours"),
        token_days: number("token_days"),
        ..UpdateConnection::default()
    };
    update(Visit::of(&app, &meta, &form.browser, &id).at_connection(&connection), &connection, &change, Step::Settings)
        .await
}

pub async fn enable(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, connection): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let change = UpdateConnection { enabled: Some(form.get("on") == "true"), ..UpdateConnection::default() };
    update(Visit::of(&app, &meta, &form.browser, &id).at_connection(&connection), &connection, &change, Step::TurnOn)
        .await
}

pub async fn claim_domain(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, connection): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id).at_connection(&connection);
    let claimed = async {
        let (actor, recent) = recently_signed_in(visit).await?;
        let connection_id = connection.parse().map_err(|_| ConnectionError::NotFound)?;
        let claim = ClaimDomain { domain: form.get("domain").to_owned(), connection_id: Some(connection_id) };
        domains::claim(&app, &actor, recent, &id, &claim).await.map(drop)
    };
    answer(visit, &connection, claimed.await, Step::Domain).await
}

/// Uses a domain that the workspace has claimed before for this connection.
pub async fn use_domain(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, connection): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id).at_connection(&connection);
    let used = async {
        let (actor, recent) = recently_signed_in(visit).await?;
        let connection_id: ConnectionId = connection.parse().map_err(|_| ConnectionError::NotFound)?;
        let change = UpdateDomain { connection_id: Change::Set(connection_id) };
        let path = DomainPath { workspace_id: &id, domain: form.get("domain") };
        domains::update(&app, &actor, recent, path, &change).await.map(drop)
    };
    answer(visit, &connection, used.await, Step::Domain).await
}

pub async fn verify_domain(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, connection): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id).at_connection(&connection);
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let path = DomainPath { workspace_id: &id, domain: form.get("domain") };
    match domains::verify(&app, &actor, path).await {
        Ok(domain) if is_verified(domain.status) => answer(visit, &connection, Ok(()), Step::Domain).await,
        // The check was made. The page says what it found, with the step open.
        Ok(_) => connection_page(visit, &connection, Some(Step::Domain), None).await,
        Err(error) => answer(visit, &connection, Err(error), Step::Domain).await,
    }
}

/// Asks before a domain is removed.
pub async fn confirm_remove_domain(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathIds(id, connection): PathIds,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let visit = Visit::of(&app, &meta, &browser, &id).at_connection(&connection);
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let path = ConnectionPath { workspace_id: &id, connection_id: &connection };
    let found = pages::detail(&app, &actor, path).await?;
    let named = query.get("domain").unwrap_or_default();
    let Some(domain) = found.domains.into_iter().find(|domain| domain.domain == named) else {
        return answer(visit, &connection, Err(DomainClaimError::NotFound), Step::Domain).await;
    };
    let (t, back) = (visit.t, path_of(&id, found.connection.id));
    let question = Question {
        title: t.confirm.remove_domain.with("domain", &domain.domain).to_string(),
        text: t.confirm.remove_domain_text.to_string(),
        action: format!("{back}/remove-domain"),
        field: Some(HiddenField { name: "domain", value: domain.domain }),
        button: &t.workspace.remove,
        back,
        ..Question::default()
    };
    question.show(&app, &browser, t)
}

pub async fn remove_domain(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, connection): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id).at_connection(&connection);
    let removed = async {
        let (actor, recent) = recently_signed_in(visit).await?;
        domains::remove(&app, &actor, recent, DomainPath { workspace_id: &id, domain: form.get("domain") }).await
    };
    match removed.await {
        Ok(()) => {
            let done = Done::DomainRemoved(form.get("domain").to_owned());
            visit.go_to(&format!("{}/{connection}", WorkspacePage::Connections.path(&id)), Some(done))
        }
        Err(error) => answer(visit, &connection, Err(error), Step::Domain).await,
    }
}

/// Asks before a connection is deleted.
pub async fn confirm_delete(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathIds(id, connection): PathIds,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let visit = Visit::of(&app, &meta, &browser, &id);
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let path = ConnectionPath { workspace_id: &id, connection_id: &connection };
    let connection = connections::find(&app, &actor, path).await?;
    let (t, back) = (visit.t, path_of(&id, connection.id));
    let question = Question {
        title: t.confirm.delete_connection.with("name", connection.name).to_string(),
        text: t.connections.delete.lead.to_string(),
        action: format!("{back}/delete"),
        field: Some(HiddenField::sure()),
        button: &t.connections.delete.button,
        back,
        ..Question::default()
    };
    question.show(&app, &browser, t)
}

pub async fn delete(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathIds(id, connection): PathIds,
    form: Form,
) -> Result<Response, ApiError> {
    let visit = Visit::of(&app, &meta, &form.browser, &id).at_connection(&connection);
    if form.get("sure").is_empty() {
        return connection_page(visit, &connection, Some(Step::Delete), None).await;
    }
    let path = ConnectionPath { workspace_id: &id, connection_id: &connection };
    let deleted = async {
        let (actor, recent) = recently_signed_in(visit).await?;
        // What is not found is not named. Deleting it says why.
        let name = connections::find(&app, &actor, path).await.ok().map(|connection| connection.name);
        connections::delete(&app, &actor, recent, path).await?;
        Ok(name)
    };
    match deleted.await {
        Ok(name) => visit.go_to(&WorkspacePage::Connections.path(&id), name.map(Done::ConnectionDeleted)),
        Err(error) => answer(visit, &connection, Err(error), Step::Delete).await,
    }
}

async fn update(
    visit: Visit<'_>,
    connection: &str,
    change: &UpdateConnection,
    step: Step,
) -> Result<Response, ApiError> {
    let path = ConnectionPath { workspace_id: visit.id, connection_id: connection };
    let updated = async {
        let (actor, recent) = recently_signed_in(visit).await?;
        Ok(connections::update(visit.app, &actor, recent, path, change).await.map(drop)?)
    };
    answer(visit, connection, updated.await, step).await
}

/// Back to the page; or the page with what went wrong in a step, or what has to be done first.
async fn answer(
    visit: Visit<'_>,
    connection: &str,
    done: Result<(), DomainClaimError>,
    step: Step,
) -> Result<Response, ApiError> {
    let error = match done {
        Ok(()) => return see_other(&format!("{}/{connection}", WorkspacePage::Connections.path(visit.id))),
        Err(error) => error,
    };
    match after_refusal(visit, error).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => connection_page(visit, connection, Some(step), Some(problem)).await,
    }
}

async fn connection_page(
    visit: Visit<'_>,
    connection: &str,
    open: Option<Step>,
    problem: Option<FormProblem>,
) -> Result<Response, ApiError> {
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let path = ConnectionPath { workspace_id: visit.id, connection_id: connection };
    let ConnectionDetail { header, connection, domains, other_domains } =
        pages::detail(visit.app, &actor, path).await?;
    let (t, moments) = (visit.t, visit.moments());
    let method = |method: AuthMethod| MethodShown {
        value: method.as_str(),
        name: match method {
            AuthMethod::ClientSecretBasic => &t.connections.provider.basic,
            AuthMethod::ClientSecretPost => &t.connections.provider.post,
            AuthMethod::PrivateKeyJwt => &t.connections.provider.private_key,
        },
        chosen: connection.auth_method == method,
    };
    let (status, problem) = with_problem(problem);
    let template = ConnectionPage {
        t,
        title: &t.connections.title,
        stylesheet: STYLESHEET,
        frame: visit.frame(WorkspacePage::Connections, header, problem),
        path: path_of(visit.id, connection.id),
        state: StateShown::of(t, &connection),
        health: Health::of(moments, &connection),
        steps: Steps::of(&connection, &domains, open),
        domains: domains.into_iter().map(|domain| DomainShown::of(moments, domain)).collect(),
        other_domains: other_domains.into_iter().map(|domain| DomainShown::of(moments, domain)).collect(),
        methods: AuthMethod::ALL.map(method),
        public_key: connection.public_key.clone().map(|key| Value::Object(key).to_string()),
        viewer: connection.default_role == DefaultRole::Viewer,
        tried: connection.tried_at.map(|at| moments.of(at)),
        enabled: connection.enabled_at.map(|at| moments.of(at)),
        c: connection,
    };
    page(t, status, &template, None)
}
