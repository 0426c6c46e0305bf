//! Responses about connections and domains: which error code and which sentence each error becomes.

use axum::http::header;
use service_api::errors::ErrorCode::*;
use service_rules::domains::DomainError;

use crate::{
    flows::sso::{
        connection_error::ConnectionError,
        connections::MAX_CONNECTIONS,
        domains::{DomainClaimError, MAX_DOMAINS},
    },
    http::errors::{ApiError, error},
};

impl From<ConnectionError> for ApiError {
    fn from(refusal: ConnectionError) -> Self {
        match refusal {
            ConnectionError::Workspace(refusal) => refusal.into(),
            ConnectionError::NotFound => error(
                NotFound,
                "Connection not found in this workspace. List them with GET /v1/workspaces/{workspaceId}/connections.",
            ),
            ConnectionError::InvalidField(refusal) => refusal.into(),
            ConnectionError::TooMany => error(
                Conflict,
                format!("The workspace has {MAX_CONNECTIONS} connections, which is the limit. Delete one first."),
            ),
            ConnectionError::NotTried => error(
                Conflict,
                "The connection hasn't been tried since it was changed. Sign in through it once in the workspace's settings, \
                 then enable it.",
            ),
            ConnectionError::NotEnabled => {
                error(Conflict, "The connection isn't enabled. Enable it before you require it.")
            }
            ConnectionError::NoBreakGlass => error(
                Conflict,
                "If the provider fails, no one could sign in. Name at least one owner in breakGlass first.",
            ),
            ConnectionError::Database(broken) => broken.into(),
            ConnectionError::Defect(broken) => broken.into(),
        }
    }
}

impl From<DomainClaimError> for ApiError {
    fn from(refusal: DomainClaimError) -> Self {
        match refusal {
            DomainClaimError::Workspace(refusal) => refusal.into(),
            DomainClaimError::Connection(refusal) => refusal.into(),
            DomainClaimError::Invalid(refusal) => refusal.into(),
            DomainClaimError::NotFound => error(NotFound, "The workspace doesn't claim this domain. Add it first."),
            DomainClaimError::AlreadyClaimed => {
                error(Conflict, "The workspace already claims this domain. Add its DNS record, then verify it.")
            }
            DomainClaimError::TooMany => error(
                Conflict,
                format!("The workspace has {MAX_DOMAINS} domains, which is the limit. Remove one first."),
            ),
            DomainClaimError::VerifiedElsewhere { domain, record } => error(
                Conflict,
                format!(
                    "Another workspace has verified {domain}, and its TXT record is still there. If the domain is yours, \
                     remove the record {record} and verify again."
                ),
            ),
            DomainClaimError::DnsUnanswered => error(
                TemporarilyUnavailable,
                "DNS didn't answer for this domain. Nothing was changed. Check its name servers, or try again later.",
            )
            .with(header::RETRY_AFTER, "60"),
            DomainClaimError::Limited(limited) => limited.into(),
            DomainClaimError::Database(broken) => broken.into(),
            DomainClaimError::Defect(broken) => broken.into(),
        }
    }
}

impl From<DomainError> for ApiError {
    fn from(refusal: DomainError) -> Self {
        let message = match refusal {
            DomainError::Invalid => "must be a domain such as acme.example, without a protocol, path or address",
            DomainError::IpAddress => "must be a domain such as acme.example. IP addresses can't be verified",
            DomainError::SingleLabel => "must have at least two parts, such as acme.example",
            DomainError::PublicSuffix => {
                "is a public suffix, under which many organizations have domains. Use your own domain"
            }
            DomainError::PublicMail => "belongs to a public mail provider. Use your organization's own domain",
        };
        error(ValidationFailed, format!("The field domain {message}.")).with_fields("domain", message)
    }
}
