//! What the refusals look like of everything done to workspaces and what lives in them.

use service_api::errors::ErrorCode::*;
use service_rules::contents::Invalid;

use crate::{
    cursor::Foreign,
    flows::{self, contents::Refusal},
    http::error::{ApiError, error},
};

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => error(NotFound, "There is no such thing in this space; check its id and workspaceId."),
            Refusal::Invalid(Invalid::Unknown) => error(
                InvalidRequest,
                "The body has a field that is not known here; see the documentation of this kind.",
            ),
            Refusal::Invalid(Invalid::Field { field, message }) => {
                error(ValidationFailed, format!("The field {field} {message}.")).with_fields(&field, &message)
            }
            Refusal::Invalid(Invalid::Credential { field, .. }) => {
                let text = format!(
                    "The field {field} holds a credential of this service; take it out, and revoke it if others saw it."
                );
                error(CredentialInContent, text).with_fields(&field, "holds a credential")
            }
            Refusal::Space(refusal) => refusal.into(),
            Refusal::Stale => {
                error(PreconditionFailed, "It was changed since you read it; read it again, and send your change anew.")
            }
            Refusal::Full => error(Conflict, "This space has 10,000 of these; delete some that are not needed first."),
            Refusal::KeyUsed => error(Conflict, "This Idempotency-Key was used for another request; use a new one."),
            Refusal::Cursor => Foreign.into(),
        }
    }
}

impl From<flows::workspaces::Refusal> for ApiError {
    fn from(refusal: flows::workspaces::Refusal) -> Self {
        use flows::workspaces::Refusal;
        let invalid = |field: &str, message: &str| {
            error(ValidationFailed, format!("The field {field} {message}.")).with_fields(field, message)
        };
        match refusal {
            Refusal::Space(refusal) => refusal.into(),
            Refusal::NotFound => error(NotFound, "There is no such member or invitation in this workspace."),
            Refusal::Name => invalid("name", "is not a text of 1 to 100 characters on one line"),
            Refusal::Address => invalid("email", "is not an e-mail address"),
            Refusal::LastOwner => {
                error(Conflict, "A workspace needs an owner; make somebody else one first, or delete the workspace.")
            }
            Refusal::Limited(limited) => limited.into(),
            Refusal::TooMany => error(Conflict, "You are in 100 workspaces; leave one that you do not need first."),
            Refusal::Cursor => Foreign.into(),
        }
    }
}
