//! Requiring a passkey from the members of a workspace, so that a mailbox alone does not open it.
//!
//! 1. An owner who signed in recently, and whose own account requires a passkey, requires it. Single sign-on is not enough for that: when
//!    it is turned off, no owner would be left who gets in.
//! 2. From then on a member enters only if the member's account requires a passkey (`flows/account/passkey_requirement.rs`), or the
//!    member's company requires single sign-on. Others are kept out, with every session and token. Nothing is revoked. They can still
//!    read the name of the workspace, and leave it. They create no CLI token and no MCP token for it: it would work as soon as the
//!    account requires a passkey.
//! 3. A node that has cached a role keeps a member out a minute later at most. Every change is checked in its own transaction.
//! 4. If no owner gets in any more, an operator lifts the requirement.

use serde_json::json;
use service_api::{audit_events::EventName, ids::WorkspaceId, workspaces::Workspace};
use service_rules::space::Right;

use crate::{
    app::App,
    flows::{
        Actor,
        operator::Operator,
        sign_in::step_up::{self, RecentSignIn},
        workspaces::{WorkspaceError, access},
    },
    store,
};

/// Requires a passkey from the members of a workspace, or no longer does. If nothing changes, nothing is recorded.
pub async fn set(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    id: &str,
    required: bool,
) -> Result<Workspace, WorkspaceError> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    // The account does not stop requiring a passkey before this ends.
    store::users::lock(&db, actor.user_id).await?;
    let id = access::lock(app, &db, actor, id, Right::Own).await?;
    access::lock_session(&db, actor).await?;
    if required && !step_up::keeps_codes_out(app, &db, actor.user_id).await? {
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

/// Lifts the requirement of a workspace in which no owner gets in any more; `false`: it requires no passkey.
pub async fn lift(app: &App, operator: &Operator, id: WorkspaceId) -> anyhow::Result<bool> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    if !store::workspaces::update_passkey_requirement(&db, id, false).await? {
        return Ok(false);
    }
    let event = operator.event(EventName::WorkspacePasskeyNotRequired, now, json!({}))?;
    event.in_workspace(id).insert(&db).await?;
    db.commit().await?;
    Ok(true)
}
