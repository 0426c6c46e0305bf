//! Requiring a passkey of the members of a workspace, so that no one enters it with a code from a mailbox.
//!
//! 1. An owner who signed in recently requires it. Codes open no session of that owner: else the owner would be kept out, too.
//! 2. From then on a member enters only while codes open none of theirs either (`flows/account/passkey_requirement.rs`), or their company
//!    requires single sign-on. Others are kept out, with every session and token, until they require a passkey. Nothing is revoked.
//!    They can still read the name of the workspace, and leave it.
//! 3. A node that has cached a role keeps a member out a minute later at most. Every change is checked in its own transaction.

use serde_json::json;
use service_api::{audit_events::EventName, workspaces::Workspace};
use service_rules::space::Right;

use crate::{
    app::App,
    flows::{
        Actor,
        sign_in::step_up::{self, RecentSignIn},
        workspaces::{WorkspaceError, access},
    },
    store,
};

/// Requires a passkey of the members of a workspace, or no longer does. If nothing changes, nothing is recorded.
pub async fn set(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    id: &str,
    required: bool,
) -> Result<Workspace, WorkspaceError> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    let id = access::lock(app, &db, actor, id, Right::Own).await?;
    access::lock_session(&db, actor).await?;
    if required && !step_up::is_closed_to_codes(app, &db, actor.user_id).await? {
        return Err(WorkspaceError::NoOwnPasskey);
    }
    if store::workspaces::update_passkey_requirement(&db, id, required).await? {
        let event = if required { EventName::WorkspacePasskeyRequired } else { EventName::WorkspacePasskeyNotRequired };
        actor.event(event, now, json!({}))?.in_workspace(id).insert(&db).await?;
    } else {
        // The row is written also without a change, so that a repeated request is confirmed only if the first one was.
        store::workspaces::touch(&db, id).await?;
    }
    let changed = access::read(&db, actor, id).await?;
    db.commit().await?;
    Ok(changed)
}
