//! The table of routes: finds the handler of a method and a path.
//!
//! Every request takes this way, so there is no layer between the edge and a handler.

use std::pin::Pin;

use anyhow::{Context as _, ensure};
use axum::{
    extract::Request,
    handler::Handler,
    http::{HeaderValue, Method, StatusCode},
    response::Response,
};
use service_api::endpoints::{self, Access, Endpoint, Operation};

use crate::{
    app::App,
    http::{operation::OperationHandler, path::PathVariables},
    telemetry::labels::UNMATCHED,
};

type HandlerFuture = Pin<Box<dyn Future<Output = Response> + Send>>;
type BoxedHandler = Box<dyn Fn(Request, App) -> HandlerFuture + Send + Sync>;

/// An endpoint and its handler.
pub struct Route {
    endpoint: &'static Endpoint,
    handler: BoxedHandler,
}

/// Routes an operation to a handler, which must have the operation's types.
pub fn at<Arguments: 'static, Body: 'static, Answer: 'static>(
    operation: &'static Operation<Body, Answer>,
    handler: impl OperationHandler<Arguments, Body, Answer>,
) -> Route {
    let status = StatusCode::from_u16(operation.row.status).unwrap_or_default();
    let handler: BoxedHandler = Box::new(move |request, app| Box::pin(handler.clone().handle(request, app, status)));
    Route { endpoint: &operation.row.endpoint, handler }
}

/// Routes an endpoint to a handler.
pub fn page<T: 'static>(endpoint: &'static Endpoint, handler: impl Handler<T, App>) -> Route {
    Route { endpoint, handler: boxed(handler) }
}

fn boxed<T: 'static>(handler: impl Handler<T, App>) -> BoxedHandler {
    Box::new(move |request, app| Box::pin(handler.clone().call(request, app)))
}

/// All routes of a listener.
pub struct Routes {
    paths: matchit::Router<PathRoutes>,
    not_found: BoxedHandler,
    method_not_allowed: BoxedHandler,
}

/// The routes of one path.
struct PathRoutes {
    path: &'static str,
    routes: Vec<Route>,
    /// Whether one of its endpoints is a page.
    has_page: bool,
    /// The methods of its endpoints.
    allowed: HeaderValue,
}

impl Routes {
    /// Fails if two routes have the same method and path, or paths that cannot be told apart.
    pub fn new<N: 'static, M: 'static>(
        routes: Vec<Route>,
        not_found: impl Handler<N, App>,
        method_not_allowed: impl Handler<M, App>,
    ) -> anyhow::Result<Self> {
        let mut by_path: Vec<(&'static str, Vec<Route>)> = Vec::new();
        for route in routes {
            let path = route.endpoint.path;
            match by_path.iter_mut().find(|(known, _)| *known == path) {
                Some((_, routes)) => {
                    let is_new = routes.iter().all(|known| known.endpoint.method != route.endpoint.method);
                    ensure!(is_new, "two routes have the same method at {path}");
                    routes.push(route);
                }
                None => by_path.push((path, vec![route])),
            }
        }
        let mut paths = matchit::Router::new();
        for (path, routes) in by_path {
            let has_page = routes.iter().any(|route| route.endpoint.access == Access::Browser);
            let methods: Vec<_> = routes.iter().map(|route| methods_of(route.endpoint.method)).collect();
            let allowed = HeaderValue::from_str(&methods.join(","))?;
            paths.insert(path, PathRoutes { path, routes, has_page, allowed }).with_context(|| path)?;
        }
        Ok(Self { paths, not_found: boxed(not_found), method_not_allowed: boxed(method_not_allowed) })
    }

    /// Finds what serves a method and a path.
    #[must_use]
    pub fn find(&self, method: &Method, path: &str) -> Found<'_> {
        let Ok(matched) = self.paths.at(path) else { return Found::nothing(&self.not_found) };
        let PathRoutes { path, routes, has_page, allowed } = matched.value;
        let found = Found {
            template: path,
            is_page: *has_page,
            endpoint: None,
            allowed: Some(allowed),
            variables: PathVariables::of(&matched.params),
            handler: &self.method_not_allowed,
        };
        match routes.iter().find(|route| serves(route.endpoint.method, method)) {
            Some(route) => Found { endpoint: Some(route.endpoint), allowed: None, handler: &route.handler, ..found },
            None => found,
        }
    }
}

/// What serves a request.
pub struct Found<'r> {
    /// The path as the endpoint table has it: never what the caller sent.
    pub template: &'static str,
    pub is_page: bool,
    /// `None`: the path is unknown, or does not have the method.
    pub endpoint: Option<&'static Endpoint>,
    /// The methods of the path, if the one that was sent is not among them.
    pub allowed: Option<&'r HeaderValue>,
    pub variables: Option<PathVariables>,
    handler: &'r BoxedHandler,
}

impl<'r> Found<'r> {
    fn nothing(handler: &'r BoxedHandler) -> Self {
        Self { template: UNMATCHED, is_page: false, endpoint: None, allowed: None, variables: None, handler }
    }

    /// Handles the request.
    pub fn handle(&self, request: Request, app: App) -> HandlerFuture {
        (self.handler)(request, app)
    }
}

/// What serves GET serves HEAD, too: the connection leaves out the body.
fn serves(own: endpoints::Method, method: &Method) -> bool {
    match own {
        endpoints::Method::Get => matches!(*method, Method::GET | Method::HEAD),
        endpoints::Method::Post => *method == Method::POST,
        endpoints::Method::Patch => *method == Method::PATCH,
        endpoints::Method::Delete => *method == Method::DELETE,
    }
}

/// The methods that an endpoint serves, for `Allow`.
fn methods_of(own: endpoints::Method) -> &'static str {
    match own {
        endpoints::Method::Get => "GET,HEAD",
        endpoints::Method::Post => "POST",
        endpoints::Method::Patch => "PATCH",
        endpoints::Method::Delete => "DELETE",
    }
}
