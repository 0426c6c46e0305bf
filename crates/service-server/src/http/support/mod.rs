//! The support listener: the calls of `serviced admin` that help a user, over HTTPS, for tools of the operator.
//!
//! A connection exists only with a valid client certificate (`net/server_tls.rs`). Then every request takes these steps, in
//! one layer and one handler for all calls, so that no call can lack one of them:
//!
//! 1. The request gets an id. Requests beyond what one certificate may cost this node are rejected.
//! 2. The body is received, up to its limit, and the call waits for a place.
//! 3. The support client authenticates by an assertion for this listener, and its limits count the call.
//! 4. The body names the operator and a reason, which the audit event of the call records with the client.
//! 5. The call runs ([`calls`]). Its result is what the command prints with `--json`.
//! 6. One log line and one metric are recorded with the name of the call: never a field of the body.

pub mod calls;

use std::{panic::AssertUnwindSafe, sync::Arc};

use axum::{
    Extension, Router,
    extract::{MatchedPath, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::Response,
    routing::post,
};
use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Map, Value};
use service_api::{ids::SupportClientId, token::ClientAssertion};
use tokio::time::{Instant, timeout};

use self::calls::SupportCall;
use crate::{
    app::App,
    crypto::random,
    flows::{
        operator::Operator,
        support::{
            SupportOperator,
            clients::{self, PresentedSupportClient, SupportClient, SupportClientError},
        },
    },
    http::{
        body, edge,
        errors::{ApiError, EdgeError, MalformedRequest, support as errors},
        oauth::client_authentication::ASSERTION_TYPE,
    },
    net::server_tls::PeerCertificate,
    telemetry::{
        current_request::{self, CurrentRequest},
        labels::UNMATCHED,
    },
};

/// Bytes of the largest body.
const MAX_BODY_BYTES: usize = 16 * 1024;

/// The id of a request.
#[derive(Clone)]
struct RequestIdText(Arc<str>);

/// The fields that every call has. They are taken out of the body before the call reads its own.
#[derive(Deserialize)]
struct CallerFields {
    client_id: Option<String>,
    client_assertion_type: Option<String>,
    client_assertion: Option<ClientAssertion>,
    operator: Option<String>,
    reason: Option<String>,
}

const CALLER_FIELDS: [&str; 5] = ["client_id", "client_assertion_type", "client_assertion", "operator", "reason"];

/// Routes every call to the one handler.
pub fn router(app: &App) -> Router {
    app.metrics.begin_support_calls(SupportCall::ALL.iter().map(|call| call.label()).chain([UNMATCHED]));
    let route = |router: Router<App>, call: SupportCall| {
        let handler = async move |State(app): State<App>, Extension(id): Extension<RequestIdText>, request: Request| {
            Box::pin(answer(&app, call, &id.0, request)).await
        };
        router.route(call.path(), post(handler))
    };
    SupportCall::ALL
        .into_iter()
        .fold(Router::new(), route)
        .fallback(async || errors::unknown_call())
        .method_not_allowed_fallback(async || errors::not_post())
        .layer(middleware::from_fn_with_state(app.clone(), support_edge))
        .with_state(app.clone())
}

/// Wraps the router: request id, limits before authentication, deadline, rendered errors, log and metric.
async fn support_edge(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let call = SupportCall::ALL.iter().find(|call| Some(call.path()) == matched).map_or(UNMATCHED, |call| call.label());
    let id: Arc<str> = random::request_id(app.clock.now());
    let certificate = request.extensions().get::<PeerCertificate>().map(PeerCertificate::name);
    request.extensions_mut().insert(RequestIdText(id.clone()));
    let current = CurrentRequest::new(id.clone(), call, None);
    let response = match current_request::within(current, Box::pin(run(&app, request, next))).await {
        Ok(response) => response,
        Err(refused) => refused.into(),
    };
    let response = edge::finish(response, &id, None);
    let status = response.status();
    let ms = began.elapsed().as_secs_f64() * 1_000.0;
    tracing::info!(call, certificate, status = status.as_u16(), ms, request.id = &*id, "Support call");
    app.metrics.support_called(call, outcome(status));
    response
}

/// Applies what is limited before anything of the request is verified, and runs the handler within the deadline.
async fn run(app: &App, request: Request, next: Next) -> Result<Response, ApiError> {
    // Without TLS there is no certificate, and nothing is served.
    let certificate = request.extensions().get::<PeerCertificate>().copied().ok_or(EdgeError::Defect)?;
    app.support_attempts.count(certificate, app.clock.now())?;
    edge::check_head(&request)?;
    let request = body::receive_at_most(request, MAX_BODY_BYTES).await?;
    let work = async {
        let Ok(_place) = app.support_attempts.take_place().await else { return Err(EdgeError::Busy.into()) };
        if edge::is_fenced(app) {
            return Err(EdgeError::Fenced.into());
        }
        let work = AssertUnwindSafe(next.run(request)).catch_unwind();
        work.await.map_err(|_panic| EdgeError::Defect.into())
    };
    timeout(app.config.http.deadline, work).await.unwrap_or_else(|_| Err(EdgeError::TooSlow.into()))
}

/// Answers a call: authenticates its client, reads who asks and why, and runs it.
async fn answer(app: &App, call: SupportCall, request_id: &str, request: Request) -> Result<Response, ApiError> {
    let (mut parts, _) = request.into_parts();
    if parts.uri.query().is_some() {
        return Err(MalformedRequest::Query("The call takes no query. Send its fields in the body.".into()).into());
    }
    let mut fields = body::json_object(&mut parts)?;
    let caller = CallerFields::take(&mut fields)?;
    let client = authenticate(app, call, &caller).await?;
    let operator = caller.operator(&client, request_id)?;
    call.run(app, &operator, Value::Object(fields)).await
}

/// Authenticates the client of a call. A refusal is logged with its reason, which the caller is not told.
async fn authenticate(app: &App, call: SupportCall, caller: &CallerFields) -> Result<SupportClient, ApiError> {
    // The listener is on, so it has settings.
    let support = app.config.support.as_ref().ok_or(EdgeError::Defect)?;
    if caller.client_assertion.is_some() && caller.client_assertion_type.as_deref() != Some(ASSERTION_TYPE) {
        return Err(MalformedRequest::Body(format!("client_assertion_type must be {ASSERTION_TYPE}.")).into());
    }
    let presented =
        PresentedSupportClient { id: caller.client_id.as_deref(), assertion: caller.client_assertion.as_ref() };
    let authenticated = clients::authenticate(app, support, presented, call.changes()).await;
    authenticated.map_err(|error| {
        if !matches!(error, SupportClientError::Database(_)) {
            // Another text than an id may be anything, also a secret.
            let client = caller.client_id.as_deref().and_then(|id| id.parse::<SupportClientId>().ok());
            let client = client.map(tracing::field::display);
            tracing::warn!(call = call.label(), client, why = error.to_string(), "Support call refused");
        }
        error.into()
    })
}

impl CallerFields {
    /// Takes the fields that every call has out of a body.
    fn take(fields: &mut Map<String, Value>) -> Result<Self, MalformedRequest> {
        let taken = CALLER_FIELDS.iter().filter_map(|name| fields.remove_entry(*name)).collect();
        body::typed(Value::Object(taken))
    }

    /// The operator for whom the client calls, with a reason, as the commands require it.
    fn operator(&self, client: &SupportClient, request_id: &str) -> Result<SupportOperator, ApiError> {
        let name = self.operator.as_deref().ok_or_else(|| MalformedRequest::MissingField("operator".into()))?;
        let reason = self.reason.as_deref().ok_or_else(|| MalformedRequest::MissingField("reason".into()))?;
        let operator = Operator::new(name).ok_or_else(|| errors::not_a_line("operator"))?;
        let operator = operator.because(reason).ok_or_else(|| errors::not_a_line("reason"))?;
        SupportOperator::new(operator.through(client.id(), request_id)).ok_or_else(|| errors::not_a_line("reason"))
    }
}

/// The outcome of a call, for the metric.
fn outcome(status: StatusCode) -> &'static str {
    match status.as_u16() {
        200..300 => "succeeded",
        401 => "unauthenticated",
        429 => "limited",
        400..500 => "refused",
        _ => "failed",
    }
}
