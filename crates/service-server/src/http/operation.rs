//! Binds a handler to an operation of the API.
//!
//! A handler whose body or response has another type than its operation declares does not compile. The status of a
//! successful response comes from the operation, so that a handler returns only the body.

use std::marker::PhantomData;

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest as _, FromRequestParts},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, IntoResponseParts, Response as HttpResponse},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    app::App,
    http::{body::Body, edge::USUAL_HEADERS, errors::ApiError},
};

/// Most bodies fit, so that writing them moves nothing.
const USUAL_BODY_BYTES: usize = 512;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A handler for an operation that takes a body of type `Request` and responds with a body of type `Response`; `()` stands
/// for no body. `Arguments` are the extractors that the handler takes, of which [`Body`] is the last.
#[diagnostic::on_unimplemented(
    message = "the handler does not have the types of its operation, `{Request}` and `{Response}`",
    note = "it takes extractors and then `Body<{Request}>`, if there is a body, and returns `Result<Json<{Response}>, ApiError>`"
)]
pub trait OperationHandler<Arguments, Request, Response>: Clone + Send + Sync + 'static {
    fn handle(
        self,
        request: axum::extract::Request,
        app: App,
        status: StatusCode,
    ) -> impl Future<Output = HttpResponse> + Send;
}

/// What a handler returns for an operation that responds with a `Response`.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a response of an operation that returns `{Response}`")]
pub trait Reply<Response> {
    fn into_response(self, status: StatusCode) -> HttpResponse;
}

impl Reply<()> for () {
    fn into_response(self, status: StatusCode) -> HttpResponse {
        status.into_response()
    }
}

impl<T: Serialize> Reply<T> for Json<T> {
    fn into_response(self, status: StatusCode) -> HttpResponse {
        (status, JsonBytes::of(&self.0)).into_response()
    }
}

/// A `T` that was written as JSON before.
pub struct WrittenJson<T> {
    bytes: Bytes,
    of: PhantomData<T>,
}

impl<T> WrittenJson<T> {
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes, of: PhantomData }
    }
}

impl<T> Reply<T> for WrittenJson<T> {
    fn into_response(self, status: StatusCode) -> HttpResponse {
        (status, JsonBytes(Ok(self.bytes))).into_response()
    }
}

/// A body that was written as JSON, or the error.
struct JsonBytes(Result<Bytes, ApiError>);

impl JsonBytes {
    fn of(body: &impl Serialize) -> Self {
        let mut bytes = Vec::with_capacity(USUAL_BODY_BYTES);
        let written = serde_json::to_writer(&mut bytes, body);
        Self(written.map(|()| bytes.into()).map_err(|error| anyhow::Error::from(error).into()))
    }
}

impl IntoResponse for JsonBytes {
    fn into_response(self) -> HttpResponse {
        match self.0 {
            Ok(bytes) => {
                let mut response = HttpResponse::new(bytes.into());
                // Room for those of the edge, too.
                *response.headers_mut() = HeaderMap::with_capacity(USUAL_HEADERS);
                response.headers_mut().insert(header::CONTENT_TYPE, JSON);
                response
            }
            Err(error) => error.into_response(),
        }
    }
}

/// A body with headers.
impl<T: Serialize, Headers: IntoResponseParts> Reply<T> for (Headers, Json<T>) {
    fn into_response(self, status: StatusCode) -> HttpResponse {
        (status, self.0, JsonBytes::of(&self.1.0)).into_response()
    }
}

/// A created resource, with its path as `Location`.
pub struct Created<T> {
    path: String,
    body: T,
}

impl<T> Created<T> {
    #[must_use]
    pub fn at(path: String, body: T) -> Self {
        Self { path, body }
    }
}

impl<T: Serialize> Reply<T> for Created<T> {
    fn into_response(self, status: StatusCode) -> HttpResponse {
        (status, [(header::LOCATION, self.path)], JsonBytes::of(&self.body)).into_response()
    }
}

impl<Response, Success: Reply<Response>> Reply<Response> for Result<Success, ApiError> {
    fn into_response(self, status: StatusCode) -> HttpResponse {
        match self {
            Ok(success) => success.into_response(status),
            Err(error) => error.into_response(),
        }
    }
}

macro_rules! operation_handler {
    ($($part:ident $value:ident),*) => {
        impl<Handler, Returned, Request, Response, $($part),*>
            OperationHandler<($($part,)* Body<Request>,), Request, Response> for Handler
        where
            Handler: FnOnce($($part,)* Body<Request>) -> Returned + Clone + Send + Sync + 'static,
            Returned: Future<Output: Reply<Response>> + Send,
            Request: DeserializeOwned + Send,
            $($part: FromRequestParts<App> + Send,)*
        {
            async fn handle(self, request: axum::extract::Request, app: App, status: StatusCode) -> HttpResponse {
                let (mut parts, body) = request.into_parts();
                $(let $value = match $part::from_request_parts(&mut parts, &app).await {
                    Ok(value) => value,
                    Err(rejection) => return rejection.into_response(),
                };)*
                let request = axum::extract::Request::from_parts(parts, body);
                match Body::from_request(request, &app).await {
                    Ok(body) => self($($value,)* body).await.into_response(status),
                    Err(rejection) => rejection.into_response(),
                }
            }
        }

        impl<Handler, Returned, Response, $($part),*> OperationHandler<($($part,)*), (), Response> for Handler
        where
            Handler: FnOnce($($part),*) -> Returned + Clone + Send + Sync + 'static,
            Returned: Future<Output: Reply<Response>> + Send,
            $($part: FromRequestParts<App> + Send,)*
        {
            async fn handle(self, request: axum::extract::Request, app: App, status: StatusCode) -> HttpResponse {
                let (mut parts, _) = request.into_parts();
                $(let $value = match $part::from_request_parts(&mut parts, &app).await {
                    Ok(value) => value,
                    Err(rejection) => return rejection.into_response(),
                };)*
                self($($value),*).await.into_response(status)
            }
        }
    };
}

operation_handler!(A a);
operation_handler!(A a, B b);
operation_handler!(A a, B b, C c);
operation_handler!(A a, B b, C c, D d);
operation_handler!(A a, B b, C c, D d, E e);
