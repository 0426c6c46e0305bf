//! Asking others into a workspace, by e-mail: whoever signs in with that address is in.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    ids::{Id as _, InvitationId, UserId},
    page::Page,
    workspaces::{Invitation, Invite, Role},
};
use service_rules::{Timestamp, email::Address, lifetimes, limits::Rate, signing::later, space::Right};

use crate::{
    app::App,
    cursor::List,
    database::Connection,
    failure::Failure,
    flows::{
        Asker,
        limit::Limit,
        workspaces::{Caller, MOST, Refusal, read},
    },
    letters::Letter,
    mint,
    store::{self, deletions::Thing, invitations::New},
};

/// Invitations accepted at one sign-in; further ones at the next.
const AT_ONCE: i64 = 10;
/// Invitations to one address, whoever sends them.
const PER_ADDRESS: Rate = Rate { burst: 5, per_hour: 1 };
/// Invitations that one user sends: each is a mail to somebody who may not want it.
const INVITATIONS: Rate = Rate { burst: 50, per_hour: 50 };

pub async fn invite(app: &App, caller: &Caller<'_>, id: &str, invite: &Invite) -> Result<Invitation, Failure<Refusal>> {
    let now = app.clock.now();
    let address = Address::parse(&invite.email).map_err(|_| Failure::Refused(Refusal::Address))?;
    let (role, expires_at) = (invite.role.unwrap_or(Role::Member), later(now, lifetimes::INVITATION));
    let db = app.database.begin().await?;
    let (workspace_id, _) = caller.lock(&db, id, Right::Own).await?;
    let whom = caller.credential.user_id.to_string();
    let limit = Limit { policy: "invitations-user", whom: whom.as_bytes() };
    let to_address = Limit { policy: "invitations-address", whom: address.as_str().as_bytes() };
    for (limit, rate) in [(limit, INVITATIONS), (to_address, PER_ADDRESS)] {
        if let Some(limited) = limit.take_at_rate(app, &db, rate, now).await? {
            return Err(Failure::Refused(Refusal::Limited(limited)));
        }
    }
    let id: InvitationId = mint::id(now)?;
    let invited_by = caller.credential.user_id;
    let new = New { id, workspace_id, address: &address, role, invited_by, now, expires_at };
    store::invitations::replace(&db, &new).await?;
    caller
        .record(&db, workspace_id, (EventName::MemberInvited, now), json!({ "invitation": id, "role": role }))
        .await?;
    let workspace = read(&db, invited_by, workspace_id).await?;
    let inviter = store::users::find(&db, invited_by).await?.map(|user| user.email).unwrap_or_default();
    let letter = Letter::Invitation {
        to: address.as_str().to_owned(),
        workspace: workspace.name,
        invited_by: inviter,
        expires_at,
    };
    letter.post(&app.vault, &db, now, expires_at).await?;
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(Invitation { id, email: address.as_str().to_owned(), role, created_at: now, expires_at })
}

pub async fn list(
    app: &App,
    caller: &Caller<'_>,
    id: &str,
    (limit, cursor): (u16, Option<&str>),
) -> Result<Page<Invitation>, Failure<Refusal>> {
    let list = List { vault: &app.vault, of: &[b"invitations", id.as_bytes()], limit };
    let after = list.behind(cursor).map_err(|foreign| Failure::Refused(foreign.into()))?;
    let db = app.database.connect().await?;
    let (id, _) = caller.enter(&db, id, Right::Own).await?;
    let data = store::invitations::list(&db, id, app.clock.now(), after, list.rows()).await?;
    Ok(list.page(data, |invitation| invitation.id.uuid()))
}

pub async fn revoke(app: &App, caller: &Caller<'_>, id: &str, invitation: &str) -> Result<(), Failure<Refusal>> {
    let now = app.clock.now();
    let invitation: InvitationId = invitation.parse().map_err(|_| Failure::Refused(Refusal::NotFound))?;
    let db = app.database.begin().await?;
    let (id, _) = caller.enter(&db, id, Right::Own).await?;
    let thing = Thing { space_id: id.uuid(), kind: InvitationId::KIND, id: invitation.uuid() };
    if store::invitations::delete(&db, id, invitation).await? {
        store::deletions::insert(&db, thing, now).await?;
        caller.record(&db, id, (EventName::InvitationRevoked, now), json!({ "invitation": invitation })).await?;
    } else if !store::deletions::touch(&db, thing).await? {
        return Err(Failure::Refused(Refusal::NotFound));
    }
    Ok(db.commit().await?)
}

/// Lets somebody into the workspaces that they were asked into: they have just proved that the address is theirs.
pub async fn accept(
    db: &Connection,
    asker: &Asker,
    address: &Address,
    user_id: UserId,
    now: Timestamp,
) -> anyhow::Result<()> {
    let room = MOST - store::workspaces::count_by_user(db, user_id).await?;
    let taken = store::invitations::take(db, address, now, room.clamp(0, AT_ONCE)).await?;
    if taken.is_empty() {
        return Ok(());
    }
    let workspaces: Vec<_> = taken.iter().map(|(id, _)| *id).collect();
    store::invitations::delete_by_address(db, address, &workspaces).await?;
    for (workspace_id, role) in taken {
        if store::memberships::join(db, user_id, workspace_id, role, now).await? {
            let mut event = asker.event(EventName::MemberJoined, now, json!({ "role": role }))?;
            event.user_id = Some(user_id);
            event.workspace_id = Some(workspace_id);
            store::audit_events::insert(db, &event).await?;
        }
    }
    Ok(())
}
