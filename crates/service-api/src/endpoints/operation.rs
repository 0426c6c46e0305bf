//! An endpoint for programs, with the types of its request and response.

use std::{fmt, marker::PhantomData};

use schemars::{JsonSchema, SchemaGenerator};

use super::{Access, Body, Endpoint, Method};
use crate::{
    errors::ErrorCode,
    openapi::{Group, Shape},
};

/// An endpoint for programs: `Request` is the type of its body, `Response` that of a successful response. `()` stands for
/// no body.
pub struct Operation<Request, Response> {
    pub row: OperationRow,
    types: PhantomData<fn(Request) -> Response>,
}

impl<Request, Response> fmt::Debug for Operation<Request, Response> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.row.fmt(f)
    }
}

/// An operation without its types: the endpoint's row, and what the `OpenAPI` document says about it.
#[derive(Clone, Copy, Debug)]
pub struct OperationRow {
    pub endpoint: Endpoint,
    /// The `operationId`, which names it in generated clients and in the examples.
    pub id: &'static str,
    pub group: Group,
    pub summary: &'static str,
    /// What a caller has to know beyond the summary and the access, in sentences.
    pub note: &'static str,
    /// The schema of the request's body.
    pub request: Option<Shape>,
    /// The status of a successful response.
    pub status: u16,
    /// The schema of a successful response's body.
    pub response: Option<Shape>,
    /// The error codes beyond those that follow from the endpoint's row.
    pub errors: &'static [ErrorCode],
    pub headers: &'static [Header],
    /// Whether a successful response has the path of the created resource as `Location`.
    pub located: bool,
}

/// A header that a request may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    IfMatch,
    IdempotencyKey,
}

/// Declares operations as constants, and lists their rows in `ROWS`. The doc comment of an operation is its summary.
macro_rules! operations {
    ($(#[doc = $summary:literal] $name:ident($group:ident, $id:literal): $request:ty => $response:ty = $operation:expr;)*) => {
        $(
            #[doc = $summary]
            pub const $name: $crate::endpoints::Operation<$request, $response> =
                $operation.described($crate::openapi::Group::$group, $id, $summary.trim_ascii());
        )*

        pub(super) const ROWS: &[&$crate::endpoints::OperationRow] = &[$(&$name.row),*];
    };
}
pub(super) use operations;

pub(super) const fn get(path: &'static str, access: Access) -> Operation<(), ()> {
    Operation::new(Method::Get, path, access)
}

pub(super) const fn post(path: &'static str, access: Access) -> Operation<(), ()> {
    Operation::new(Method::Post, path, access)
}

pub(super) const fn patch(path: &'static str, access: Access) -> Operation<(), ()> {
    Operation::new(Method::Patch, path, access)
}

pub(super) const fn delete(path: &'static str, access: Access) -> Operation<(), ()> {
    Operation::new(Method::Delete, path, access)
}

impl Operation<(), ()> {
    /// An operation without bodies, which responds with 200, or 204 to `DELETE`.
    const fn new(method: Method, path: &'static str, access: Access) -> Self {
        let endpoint = Endpoint { method, path, access, body: Body::None, query: &[] };
        let status = if matches!(method, Method::Delete) { 204 } else { 200 };
        let (request, response) = (None, None);
        let (errors, headers): (&[ErrorCode], &[Header]) = (&[], &[]);
        let row = OperationRow {
            endpoint,
            id: "",
            group: Group::Discovery,
            summary: "",
            note: "",
            request,
            status,
            response,
            errors,
            headers,
            located: false,
        };
        Self::of(row)
    }
}

impl<Request, Response> Operation<Request, Response> {
    const fn of(row: OperationRow) -> Self {
        Self { row, types: PhantomData }
    }

    /// The path, with a name in braces for each segment that varies.
    #[must_use]
    pub const fn path(&self) -> &'static str {
        self.row.endpoint.path
    }

    pub(super) const fn described(self, group: Group, id: &'static str, summary: &'static str) -> Self {
        Self::of(OperationRow { id, group, summary, ..self.row })
    }

    /// Accepts a JSON body of type `T`.
    pub(super) const fn takes<T: JsonSchema>(self) -> Operation<T, Response> {
        self.takes_shape(Shape::Of(SchemaGenerator::subschema_for::<T>))
    }

    /// Accepts a JSON body of type `T`, which the document describes by `shape`.
    pub(super) const fn takes_shape<T>(self, shape: Shape) -> Operation<T, Response> {
        let endpoint = Endpoint { body: Body::Json, ..self.row.endpoint };
        Operation::of(OperationRow { endpoint, request: Some(shape), ..self.row })
    }

    /// Accepts the body as a form too.
    pub(super) const fn or_form(self) -> Self {
        let endpoint = Endpoint { body: Body::JsonOrForm, ..self.row.endpoint };
        Self::of(OperationRow { endpoint, ..self.row })
    }

    /// Responds with a body of type `T`.
    pub(super) const fn returns<T: JsonSchema>(self, status: u16) -> Operation<Request, T> {
        self.returns_shape(status, Shape::Of(SchemaGenerator::subschema_for::<T>))
    }

    /// Responds with a body of type `T`, which the document describes by `shape`.
    pub(super) const fn returns_shape<T>(self, status: u16, shape: Shape) -> Operation<Request, T> {
        Operation::of(OperationRow { status, response: Some(shape), ..self.row })
    }

    /// Responds without a body.
    pub(super) const fn returns_nothing(self, status: u16) -> Self {
        Self::of(OperationRow { status, ..self.row })
    }

    pub(super) const fn query(self, query: &'static [&'static str]) -> Self {
        let endpoint = Endpoint { query, ..self.row.endpoint };
        Self::of(OperationRow { endpoint, ..self.row })
    }

    pub(super) const fn fails(self, errors: &'static [ErrorCode]) -> Self {
        Self::of(OperationRow { errors, ..self.row })
    }

    pub(super) const fn headers(self, headers: &'static [Header]) -> Self {
        Self::of(OperationRow { headers, ..self.row })
    }

    /// Adds sentences to the description.
    pub(super) const fn note(self, note: &'static str) -> Self {
        Self::of(OperationRow { note, ..self.row })
    }

    /// Responds with the path of the created resource as `Location`.
    pub(super) const fn located(self) -> Self {
        Self::of(OperationRow { located: true, ..self.row })
    }
}
