//! Workspaces: making and naming them, and who is in them.
//!
//! Whoever changes who is in a workspace holds its row, so that its last owner cannot be lost to two changes at once.

use serde_json::{Value, json};
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{Id as _, UserId, WorkspaceId},
    page::Page,
    workspaces::{ChangeRole, MAX_NAME, Member, Role, Workspace},
};
use service_rules::{
    Timestamp,
    credential::Credential,
    limits::Limited,
    revocation::Subject,
    space::{self, Place, Reach, Requested, Right},
};

use crate::{
    app::App,
    cursor::{Foreign, List},
    database::Connection,
    failure::Failure,
    flows::{Asker, end_access::EndingTransaction},
    mint,
    store::{self, grants::Which},
};

/// Workspaces that one user may be in.
pub(super) const MOST: i64 = 100;

#[derive(Debug)]
pub enum Refusal {
    Space(space::Refusal),
    /// No such member or invitation.
    NotFound,
    Name,
    Address,
    /// Nobody would be left who could let others in.
    LastOwner,
    TooMany,
    Limited(Limited),
    Cursor,
}

impl From<Foreign> for Refusal {
    fn from(_: Foreign) -> Self {
        Self::Cursor
    }
}

/// Who asks, and with what.
pub struct Caller<'a> {
    pub credential: &'a Credential,
    pub asker: &'a Asker,
}

impl Caller<'_> {
    /// The caller's role in a workspace, if it allows this.
    pub(super) async fn enter(
        &self,
        db: &Connection,
        id: &str,
        right: Right,
    ) -> Result<(WorkspaceId, Role), Failure<Refusal>> {
        let refuse = |refusal| Failure::Refused(Refusal::Space(refusal));
        let id: WorkspaceId = id.parse().map_err(|_| refuse(space::Refusal::NotFound))?;
        space::choose(Requested::Workspace(id), self.credential.reach).map_err(refuse)?;
        let role = store::memberships::find_role(db, self.credential.user_id, id).await?;
        Ok((id, space::judge(role, right).map_err(refuse)?))
    }

    /// The same while nobody else changes who is in the workspace: what was found true stays so until the end.
    pub(super) async fn lock(
        &self,
        db: &Connection,
        id: &str,
        right: Right,
    ) -> Result<(WorkspaceId, Role), Failure<Refusal>> {
        let (workspace_id, _) = self.enter(db, id, right).await?;
        store::workspaces::lock(db, workspace_id).await?;
        self.enter(db, id, right).await
    }

    /// Records what this caller did in a workspace.
    pub(super) async fn record(
        &self,
        db: &Connection,
        id: WorkspaceId,
        (name, now): (EventName, Timestamp),
        details: Value,
    ) -> anyhow::Result<()> {
        let mut event = self.asker.event(name, now, details)?;
        event.user_id = Some(self.credential.user_id);
        event.client_id = Some(&self.credential.client_id);
        event.workspace_id = Some(id);
        Ok(store::audit_events::insert(db, &event).await?)
    }
}

fn check_name(name: &str) -> Result<&str, Failure<Refusal>> {
    let name = name.trim();
    let plain = !name.is_empty() && name.chars().count() <= MAX_NAME && name.chars().all(|c| !c.is_control());
    if plain { Ok(name) } else { Err(Failure::Refused(Refusal::Name)) }
}

pub async fn create(app: &App, caller: &Caller<'_>, name: &str) -> Result<Workspace, Failure<Refusal>> {
    let now = app.clock.now();
    let name = check_name(name)?;
    // What is bound to one space makes no other.
    if let Reach::Only(_) = caller.credential.reach {
        return Err(Failure::Refused(Refusal::Space(space::Refusal::Mismatch)));
    }
    let user_id = caller.credential.user_id;
    let db = app.database.begin().await?;
    store::users::lock(&db, user_id).await?;
    if store::workspaces::count_by_user(&db, user_id).await? >= MOST {
        return Err(Failure::Refused(Refusal::TooMany));
    }
    let id: WorkspaceId = mint::id(now)?;
    store::workspaces::insert(&db, id, name, now).await?;
    store::memberships::insert(&db, user_id, id, Role::Owner, now).await?;
    caller.record(&db, id, (EventName::WorkspaceCreated, now), json!({})).await?;
    db.commit().await?;
    Ok(Workspace { id, name: name.to_owned(), role: Role::Owner, created_at: now })
}

pub async fn list(
    app: &App,
    caller: &Caller<'_>,
    limit: u16,
    cursor: Option<&str>,
) -> Result<Page<Workspace>, Failure<Refusal>> {
    let user_id = caller.credential.user_id;
    let owner = user_id.to_string();
    let list = List { vault: &app.vault, of: &[b"workspaces", owner.as_bytes()], limit };
    let after = list.behind(cursor).map_err(|foreign| Failure::Refused(foreign.into()))?;
    let only = match caller.credential.reach {
        Reach::Anywhere(_) => None,
        Reach::Only(Place::Workspace(id)) => Some(id),
        Reach::Only(Place::Personal) => return Ok(Page { data: Vec::new(), next_cursor: None }),
    };
    let db = app.database.connect().await?;
    let data = store::workspaces::list_by_user(&db, user_id, only, after, list.rows()).await?;
    Ok(list.page(data, |workspace| workspace.id.uuid()))
}

pub async fn find(app: &App, caller: &Caller<'_>, id: &str) -> Result<Workspace, Failure<Refusal>> {
    let db = app.database.connect().await?;
    let (id, _) = caller.enter(&db, id, Right::Read).await?;
    read(&db, caller.credential.user_id, id).await
}

pub(super) async fn read(db: &Connection, user_id: UserId, id: WorkspaceId) -> Result<Workspace, Failure<Refusal>> {
    let found = store::workspaces::list_by_user(db, user_id, Some(id), None, 1).await?;
    found.into_iter().next().ok_or(Failure::Refused(Refusal::Space(space::Refusal::NotFound)))
}

pub async fn rename(app: &App, caller: &Caller<'_>, id: &str, name: &str) -> Result<Workspace, Failure<Refusal>> {
    let now = app.clock.now();
    let name = check_name(name)?;
    let db = app.database.begin().await?;
    let (id, _) = caller.enter(&db, id, Right::Own).await?;
    store::workspaces::update_name(&db, id, name).await?;
    caller.record(&db, id, (EventName::WorkspaceRenamed, now), json!({})).await?;
    let renamed = read(&db, caller.credential.user_id, id).await?;
    db.commit().await?;
    Ok(renamed)
}

/// Deletes a workspace for everybody in it; their tokens for it end.
pub async fn delete(app: &App, caller: &Caller<'_>, id: &str) -> Result<(), Failure<Refusal>> {
    let now = app.clock.now();
    let mut transaction = EndingTransaction::begin(app, now).await?;
    if let Ok(id) = id.parse()
        && store::workspaces::was_deleted_under(transaction.db(), id, caller.credential.user_id).await?
    {
        // Whose first answer was lost asks again; this commit is confirmed only if that one is.
        store::workspaces::touch(transaction.db(), id).await?;
        return Ok(transaction.commit().await?);
    }
    let (id, _) = caller.lock(transaction.db(), id, Right::Own).await?;
    store::workspaces::mark_deleted(transaction.db(), id, now).await?;
    store::invitations::delete_by_workspace(transaction.db(), id).await?;
    store::memberships::mark_all_ended(transaction.db(), id, now).await?;
    store::cli_tokens::mark_revoked_for(transaction.db(), id, Reason::WorkspaceRemoved, now).await?;
    transaction.end(Subject::Workspace(id), Reason::WorkspaceRemoved).await?;
    caller.record(transaction.db(), id, (EventName::WorkspaceDeleted, now), json!({})).await?;
    Ok(transaction.commit().await?)
}

pub async fn members(
    app: &App,
    caller: &Caller<'_>,
    id: &str,
    (limit, cursor): (u16, Option<&str>),
) -> Result<Page<Member>, Failure<Refusal>> {
    let list = List { vault: &app.vault, of: &[b"members", id.as_bytes()], limit };
    let after = list.behind(cursor).map_err(|foreign| Failure::Refused(foreign.into()))?;
    let db = app.database.connect().await?;
    let (id, _) = caller.enter(&db, id, Right::Read).await?;
    let data = store::memberships::list_members(&db, id, after, list.rows()).await?;
    Ok(list.page(data, |member| member.user_id.uuid()))
}

/// Gives a member another role.
pub async fn change_role(
    app: &App,
    caller: &Caller<'_>,
    (id, member): (&str, &str),
    change: &ChangeRole,
) -> Result<Member, Failure<Refusal>> {
    let now = app.clock.now();
    let member: UserId = member.parse().map_err(|_| Failure::Refused(Refusal::NotFound))?;
    let db = app.database.begin().await?;
    let (id, _) = caller.lock(&db, id, Right::Own).await?;
    let role = store::memberships::find_role(&db, member, id).await?;
    let role = role.ok_or(Failure::Refused(Refusal::NotFound))?;
    check_owner_left(&db, id, role, change.role == Role::Owner).await?;
    store::memberships::update_role(&db, member, id, change.role).await?;
    if change.role != Role::Owner {
        store::invitations::delete_by_member(&db, id, member).await?;
    }
    let details = json!({ "member": member, "role": change.role });
    caller.record(&db, id, (EventName::RoleChanged, now), details).await?;
    let changed = store::memberships::find_member(&db, id, member).await?;
    let changed = changed.ok_or(Failure::Refused(Refusal::NotFound))?;
    db.commit().await?;
    Ok(changed)
}

async fn check_owner_left(db: &Connection, id: WorkspaceId, role: Role, stays: bool) -> Result<(), Failure<Refusal>> {
    if role == Role::Owner && !stays && store::memberships::count_owners(db, id).await? <= 1 {
        return Err(Failure::Refused(Refusal::LastOwner));
    }
    Ok(())
}

/// Takes a member out, or lets one go: owners others, everybody themselves. Their tokens for the workspace end.
pub async fn remove_member(app: &App, caller: &Caller<'_>, id: &str, member: &str) -> Result<(), Failure<Refusal>> {
    let now = app.clock.now();
    let member: UserId = member.parse().map_err(|_| Failure::Refused(Refusal::NotFound))?;
    let itself = member == caller.credential.user_id;
    let mut transaction = EndingTransaction::begin(app, now).await?;
    store::users::lock(transaction.db(), member).await?;
    if itself
        && let Ok(id) = id.parse()
        && store::memberships::touch_ended(transaction.db(), member, id).await?
    {
        // Whoever has left has left; see deleting.
        return Ok(transaction.commit().await?);
    }
    let (id, _) = caller.lock(transaction.db(), id, if itself { Right::Read } else { Right::Own }).await?;
    let Some(role) = store::memberships::find_role(transaction.db(), member, id).await? else {
        let gone = store::memberships::touch_ended(transaction.db(), member, id).await?;
        return if gone { Ok(transaction.commit().await?) } else { Err(Failure::Refused(Refusal::NotFound)) };
    };
    check_owner_left(transaction.db(), id, role, false).await?;
    store::memberships::mark_ended(transaction.db(), member, id, now).await?;
    store::invitations::delete_by_member(transaction.db(), id, member).await?;
    let because = Reason::WorkspaceRemoved;
    transaction.end_grants_of(member, Which::For(id), because).await?;
    store::cli_tokens::mark_all_revoked(transaction.db(), member, Some(id), because, now).await?;
    transaction.end(Subject::Membership(member, id), because).await?;
    caller.record(transaction.db(), id, (EventName::MemberRemoved, now), json!({ "member": member })).await?;
    Ok(transaction.commit().await?)
}
