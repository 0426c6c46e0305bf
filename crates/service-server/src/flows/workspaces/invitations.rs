//! Inviting users to a workspace by email. How the invited user answers is in `received_invitations`.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{Id as _, InvitationId},
    page::Page,
    workspaces::{Invitation, Invite, Role},
};
use service_rules::{
    email::Address,
    lifetimes,
    limits::{Limited, Rate},
    signing::later,
    space::Right,
};

use crate::{
    app::App,
    crypto::random,
    flows::{
        Actor,
        rate_limit::Limit,
        sign_in::{email_key::email_key, step_up},
        workspaces::{WorkspaceError, access},
    },
    mail::Email,
    pagination::{List, PageRequest},
    store::{self, deletions::ContentKey, invitations::NewInvitation},
};

/// Invitations of one user to one address.
const INVITATIONS_PER_USER_AND_ADDRESS: Rate = Rate { burst: 5, per_hour: 1 };
/// Invitations mailed to one address, from all senders. Twice what one user may send, so that no single user blocks the mails
/// of others. An invitation that is not mailed is shown after the next sign-in.
const INVITATION_MAILS_PER_ADDRESS: Rate = Rate { burst: 10, per_hour: 2 };
/// Invitations of one user that are not answered yet. When a session that sent them is compromised, they are all revoked in
/// one transaction.
const MAX_PENDING_INVITATIONS_PER_USER: i64 = 200;
const HOUR_SECONDS: u32 = 3_600;
/// Invitations that one user sends. Each is a mail that its recipient may not want.
const INVITATIONS_PER_USER: Rate = Rate { burst: 50, per_hour: 50 };

/// An invitation of a workspace, as a request names both.
#[derive(Clone, Copy, Debug)]
pub struct InvitationPath<'a> {
    pub workspace_id: &'a str,
    pub invitation_id: &'a str,
}

/// Invites a user by email. Inviting the same address again within ten minutes, for the same role, finds the invitation and
/// sends no second email; later it replaces the invitation.
pub async fn invite(app: &App, actor: &Actor<'_>, id: &str, invite: &Invite) -> Result<Invitation, WorkspaceError> {
    let now = app.clock.now();
    if invite.role == Some(Role::Owner) {
        step_up::require_recent_sign_in(app, actor).await?;
    }
    let address = Address::parse(&invite.email).map_err(|_| WorkspaceError::InvalidAddress)?;
    let (role, expires_at) = (invite.role.unwrap_or(Role::Member), later(now, lifetimes::INVITATION));
    let db = app.database.begin().await?;
    let workspace_id = access::lock(app, &db, actor, id, Right::Own).await?;
    access::lock_own_session(&db, actor).await?;
    let session = actor.basis.to_string();
    let whom = actor.user_id.to_string();
    let limit = Limit { policy: "invitations-user", whom: whom.as_bytes() };
    // Only the actor's own invitations are limited: whether others invite this address stays unknown to them.
    let to_whom = format!("{whom} {}", address.as_str());
    let to_address = Limit { policy: "invitations-user-address", whom: to_whom.as_bytes() };
    for (limit, rate) in [(limit, INVITATIONS_PER_USER), (to_address, INVITATIONS_PER_USER_AND_ADDRESS)] {
        if let Some(limited) = limit.take_at_rate(app, &db, rate, now).await? {
            return Err(limited.into());
        }
    }
    let invited_by = actor.user_id;
    if store::sent_invitations::count(&db, invited_by, now).await? >= MAX_PENDING_INVITATIONS_PER_USER {
        let quota = u32::try_from(MAX_PENDING_INVITATIONS_PER_USER).unwrap_or(u32::MAX);
        let limited =
            Limited { policy: "invitations-waiting", quota, window_seconds: HOUR_SECONDS, retry_after: HOUR_SECONDS };
        return Err(limited.into());
    }
    let id: InvitationId = random::id_in(workspace_id.shard(), now)?;
    let email = email_key(app, &db, &address).await?;
    let new = NewInvitation { id, workspace_id, email, role, invited_by, made_by: &session, now, expires_at };
    let since = later(now, -lifetimes::REPEATED_INVITATION);
    if let Some(existing) = store::invitations::replace(&db, &new, since).await? {
        db.commit().await?;
        return Ok(existing);
    }
    let details = json!({ "invitation": id, "role": role, "madeBy": session });
    actor.event(EventName::MemberInvited, now, details)?.in_workspace(workspace_id).insert(&db).await?;
    let workspace = access::read(&db, actor, workspace_id).await?;
    let inviter = store::users::find(&db, invited_by).await?.map(|user| user.email).unwrap_or_default();
    let mail = Email::Invitation {
        to: address.as_str().to_owned(),
        workspace: workspace.name,
        invited_by: inviter,
        expires_at,
        language: actor.meta.language,
    };
    // If the invited user blocks the workspace, or was invited too often lately, the same row is written but never sent. So the
    // response and the work do not tell the actor which it was.
    let blocked = store::blocked_workspaces::blocks_address(&db, email, workspace_id).await?;
    // Blocked invitations do not count against the mails of other workspaces.
    let whose = if blocked { format!("{} {workspace_id}", address.as_str()) } else { address.as_str().to_owned() };
    let mails = Limit { policy: "invitation-mails-address", whom: whose.as_bytes() };
    let silent = mails.take_at_rate(app, &db, INVITATION_MAILS_PER_ADDRESS, now).await?.is_some() || blocked;
    mail.enqueue(&app.root_keys, &db, now, if silent { now } else { expires_at }).await?;
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(Invitation { id, email: address.as_str().to_owned(), role, created_at: now, expires_at })
}

/// Lists the pending invitations of a workspace.
pub async fn list(
    app: &App,
    actor: &Actor<'_>,
    id: &str,
    page: PageRequest<'_>,
) -> Result<Page<Invitation>, WorkspaceError> {
    let list = List { root_keys: &app.root_keys, of: &[b"invitations", id.as_bytes()], limit: page.limit };
    let after = list.behind(page.cursor)?;
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, id, Right::Own).await?;
    let data = store::invitations::list(&db, id, app.clock.now(), after, list.rows()).await?;
    Ok(list.page(data, |invitation| invitation.id.uuid()))
}

/// Finds a pending invitation of a workspace.
pub async fn find(app: &App, actor: &Actor<'_>, path: InvitationPath<'_>) -> Result<Invitation, WorkspaceError> {
    let invitation: InvitationId = path.invitation_id.parse().map_err(|_| WorkspaceError::InvitationNotFound)?;
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, path.workspace_id, Right::Own).await?;
    let found = store::invitations::find(&db, id, invitation, app.clock.now()).await?;
    found.ok_or(WorkspaceError::InvitationNotFound)
}

/// Revokes an invitation. Revoking it again changes nothing.
pub async fn revoke(app: &App, actor: &Actor<'_>, path: InvitationPath<'_>) -> Result<(), WorkspaceError> {
    let now = app.clock.now();
    let invitation: InvitationId = path.invitation_id.parse().map_err(|_| WorkspaceError::InvitationNotFound)?;
    let db = app.database.begin().await?;
    let id = access::enter(app, &db, actor, path.workspace_id, Right::Own).await?;
    let thing = ContentKey { space_id: id.uuid(), kind: InvitationId::KIND, id: invitation.uuid() };
    if store::invitations::delete(&db, id, invitation).await? {
        store::deletions::insert(&db, thing, now).await?;
        let details = json!({ "invitation": invitation });
        actor.event(EventName::InvitationRevoked, now, details)?.in_workspace(id).insert(&db).await?;
    } else if !store::deletions::touch(&db, thing).await? {
        return Err(WorkspaceError::InvitationNotFound);
    }
    Ok(db.commit().await?)
}
