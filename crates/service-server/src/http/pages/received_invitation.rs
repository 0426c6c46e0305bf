//! An invitation as pages show it to the user who received it.

use service_api::workspaces::ReceivedInvitation;

use crate::http::pages::{Moments, When};

/// An invitation that waits for a decision.
pub(super) struct InvitationShown {
    pub(super) id: String,
    pub(super) workspace: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) role: String,
    pub(super) until: When,
}

impl InvitationShown {
    pub(super) fn of(moments: Moments<'_>, invitation: &ReceivedInvitation) -> Self {
        Self {
            id: invitation.id.to_string(),
            workspace: invitation.workspace_name.clone(),
            from: invitation.invited_by.clone(),
            to: invitation.email.clone(),
            role: moments.t.role(invitation.role).to_string(),
            until: moments.of(invitation.expires_at),
        }
    }
}
