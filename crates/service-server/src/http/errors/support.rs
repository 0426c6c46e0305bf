//! Responses of the support listener: which error code and which sentence each error of a call becomes.

use service_api::errors::ErrorCode::*;

use crate::{
    flows::support::{SupportError, clients::SupportClientError},
    http::errors::{ApiError, error},
};

/// All refusals of an assertion are one response: the log tells the operator which it was.
impl From<SupportClientError> for ApiError {
    fn from(refusal: SupportClientError) -> Self {
        match refusal {
            SupportClientError::Nothing
            | SupportClientError::Unknown
            | SupportClientError::Revoked
            | SupportClientError::Assertion(_) => error(
                InvalidClient,
                "Client authentication failed. Send client_id, client_assertion_type and a new client_assertion, signed \
                 with a key of a support client, for support.url, and valid for 60 seconds at most. The log of the node \
                 says what was wrong.",
            ),
            SupportClientError::Limited(limited) => limited.into(),
            SupportClientError::Database(broken) => broken.into(),
        }
    }
}

/// The response to a call that found or changed nothing. `field` names what was looked for.
pub(in crate::http) fn support(failure: SupportError, field: &str) -> ApiError {
    match failure {
        SupportError::NotAName(_) if field == "id" => {
            invalid_field(field, "must be the ID of a session (grant_…), a browser (sess_…) or a CLI token (clit_…)")
        }
        SupportError::NotAName(_) => {
            invalid_field(field, "must be an email address, or the ID of a user, a session or a CLI token")
        }
        SupportError::NotLimited(_) => invalid_field(field, "must be an email address or a network address"),
        SupportError::FromWithNetwork => {
            invalid_field("from", "is for email addresses: leave it out, or send an email address as whom")
        }
        SupportError::NotAMail(_) => invalid_field(field, "must be a mail ID (mail_…)"),
        SupportError::NotFound => error(
            NotFound,
            "Not found, or no longer there. Check the address or ID, and look for it with another call.",
        ),
        SupportError::Database(broken) => broken.into(),
        SupportError::Defect(broken) => broken.into(),
    }
}

pub(in crate::http) fn invalid_field(field: &str, message: &str) -> ApiError {
    error(ValidationFailed, format!("The field {field} {message}.")).with_fields(field, message)
}

/// The operator or the reason is not what the audit log records.
pub(in crate::http) fn not_a_line(field: &str) -> ApiError {
    invalid_field(field, "must be one line of plain text, at most 64 characters for operator and 200 for reason")
}

pub(in crate::http) fn unknown_call() -> ApiError {
    error(NotFound, "Call not found. docs/operating.md lists those of the support listener.")
}

pub(in crate::http) fn not_post() -> ApiError {
    error(MethodNotAllowed, "Every call of the support listener is a POST with a JSON body.")
}
