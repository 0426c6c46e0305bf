//! The responses to refused requests about contents and workspaces.

use axum::http::header;
use service_api::errors::ErrorCode::*;
use service_rules::contents::InvalidContent;

use crate::{
    flows::{contents::ContentError, workspaces::WorkspaceError},
    http::errors::{ApiError, MalformedRequest, UnknownField, api::sign_in_too_old, error},
};

impl From<ContentError> for ApiError {
    fn from(refusal: ContentError) -> Self {
        match refusal {
            ContentError::NotFound => error(NotFound, "Not found in this workspace. Check the ID and `workspaceId`."),
            ContentError::Invalid(invalid) => invalid_content(invalid),
            ContentError::Space(refusal) => refusal.into(),
            ContentError::PreconditionFailed => {
                error(PreconditionFailed, "It has changed since you read it. Read it again, then retry.")
            }
            ContentError::CountQuotaExceeded => {
                error(Conflict, "This workspace has reached its limit of 10,000 of these. Delete some you don't need.")
            }
            ContentError::ByteQuotaExceeded => error(
                Conflict,
                "This workspace has reached its limit of 512 MB. Delete content you don't need, or use another workspace.",
            ),
            ContentError::IdempotencyKeyReused => {
                error(Conflict, "This Idempotency-Key was used for another request. Use a new one.")
            }
            ContentError::InvalidCursor(refusal) => refusal.into(),
            ContentError::Database(broken) => broken.into(),
            ContentError::Defect(broken) => broken.into(),
        }
    }
}

fn invalid_content(invalid: InvalidContent) -> ApiError {
    match invalid {
        InvalidContent::UnknownField { name, known } => {
            MalformedRequest::UnknownField(UnknownField { name, known: Some(known) }).into()
        }
        InvalidContent::Field { field, message } => invalid_field(&field, &message),
        InvalidContent::Credential { field, .. } => {
            let text = format!(
                "The field {field} contains a token of this service. Remove it, and revoke the token if anyone else saw it."
            );
            error(CredentialInContent, text).with_fields(&field, "contains a token")
        }
    }
}

fn invalid_field(field: &str, message: &str) -> ApiError {
    error(ValidationFailed, format!("The field {field} {message}.")).with_fields(field, message)
}

impl From<WorkspaceError> for ApiError {
    fn from(refusal: WorkspaceError) -> Self {
        match refusal {
            WorkspaceError::Space(refusal) => refusal.into(),
            WorkspaceError::SignInTooOld(step_up) => sign_in_too_old(step_up),
            WorkspaceError::SessionRevoked => error(InvalidToken, "This session was revoked. Sign in again.")
                .with(header::WWW_AUTHENTICATE, "Bearer error=\"invalid_token\""),
            WorkspaceError::MemberNotFound => error(NotFound, "Member not found in this workspace."),
            WorkspaceError::InvitationNotFound => error(NotFound, "Invitation not found in this workspace."),
            WorkspaceError::CredentialNotFound => {
                error(NotFound, "Credential not found in this workspace. It may have expired or been revoked.")
            }
            WorkspaceError::NotInvited => {
                error(NotFound, "Invitation not found. It may have expired or been revoked. Ask for a new one.")
            }
            WorkspaceError::NotBlocked => error(
                NotFound,
                "You haven't blocked this workspace. List those you have with GET /v1/blocked-workspaces.",
            ),
            WorkspaceError::TooManyBlocked => {
                error(Conflict, "You've blocked 1,000 workspaces. Unblock one before you block another.")
            }
            WorkspaceError::InvalidName(wrong) => invalid_field("name", &wrong.message()),
            WorkspaceError::InvalidAddress => invalid_field("email", "is not a valid email address"),
            WorkspaceError::LastOwner => error(
                Conflict,
                "A workspace needs an owner. Make another member an owner first, or delete the workspace.",
            ),
            WorkspaceError::LastBreakGlass => error(
                Conflict,
                "Single sign-on is required here, and this is the last owner who could sign in without it. Add another \
                 break-glass owner to the connection first.",
            ),
            WorkspaceError::NoOwnPasskey => error(
                Conflict,
                "Require a passkey for your own account first, on the account page under Security. Otherwise you'd lose access, too.",
            ),
            WorkspaceError::TooManyWorkspaces => {
                error(Conflict, "You're in 100 workspaces, which is the limit. Leave one first.")
            }
            WorkspaceError::Limited(limited) => limited.into(),
            WorkspaceError::InvalidCursor(refusal) => refusal.into(),
            WorkspaceError::Database(broken) => broken.into(),
            WorkspaceError::Defect(broken) => broken.into(),
        }
    }
}
