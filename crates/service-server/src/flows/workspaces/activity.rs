//! The audit events of a workspace, for the page of its owners.

use std::collections::{BTreeMap, BTreeSet};

use service_api::{
    audit_events::AuditEvent,
    ids::{InvitationId, UserId},
    page::Page,
};
use service_rules::{
    email::Address,
    space::{Right, Space},
};

use crate::{
    app::App,
    database::Connection,
    flows::{
        Actor,
        audit::{
            events::{self, AuditQueryError, EventQuery},
            named_events::{EventNames, EventsOf, NamedEvent},
        },
        sign_in::email_key::email_key,
        workspaces::{WorkspaceError, access},
    },
    store,
};

/// An event of a workspace, and the users in it.
pub struct WorkspaceEvent {
    pub named: NamedEvent,
    /// The email address of the user whom the event is about.
    pub user: Option<String>,
    /// The email address of the member who was changed or removed.
    pub member: Option<String>,
    /// The email address of the owner who did it to another member.
    pub by: Option<String>,
    /// The email address that was invited, while the invitation is stored. Whether it was declined makes no difference.
    pub invited: Option<String>,
}

impl From<AuditQueryError> for WorkspaceError {
    fn from(error: AuditQueryError) -> Self {
        match error {
            AuditQueryError::InvalidCursor(error) => error.into(),
            AuditQueryError::Database(error) => error.into(),
            AuditQueryError::Defect(error) => error.into(),
        }
    }
}

/// Lists the events of a workspace that the actor owns, the newest first. With `email`, only those about the user with this
/// address: there are none if it belongs to no user.
pub async fn list(
    app: &App,
    actor: &Actor<'_>,
    id: &str,
    email: Option<&Address>,
    query: EventQuery<'_>,
) -> Result<Page<WorkspaceEvent>, WorkspaceError> {
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, id, Right::Own).await?;
    let about = match email {
        None => None,
        Some(email) => match store::emails::find_user(&db, email_key(app, &db, email).await?).await? {
            Some(account) => Some(account.user_id),
            None => return Ok(Page { data: Vec::new(), next_cursor: None }),
        },
    };
    let found = events::list(app, actor.user_id, Space::Workspace(id), &EventQuery { about, ..query }).await?;
    let emails = emails_in(&db, &found.data).await?;
    let invited: Vec<_> = found.data.iter().filter_map(invitation_in).collect();
    let invited = store::invitations::find_addresses(&db, id, &invited).await?;
    let email = |id: Option<UserId>| id.and_then(|id| emails.get(&id).cloned());
    let mut names = EventNames::new(&db, EventsOf::Workspace(id), BTreeMap::new());
    let mut data = Vec::with_capacity(found.data.len());
    for event in found.data {
        let (user, member, by) = (event.user_id, user_in(&event, "member"), user_in(&event, "by"));
        let invited = invitation_in(&event).and_then(|id| invited.get(&id).cloned());
        let named = names.name(event).await?;
        data.push(WorkspaceEvent { named, user: email(user), member: email(member), by: email(by), invited });
    }
    Ok(Page { data, next_cursor: found.next_cursor })
}

/// The user whom a detail of an event names.
fn user_in(event: &AuditEvent, detail: &str) -> Option<UserId> {
    event.details.get(detail)?.as_str()?.parse().ok()
}

/// The invitation that an event is about.
fn invitation_in(event: &AuditEvent) -> Option<InvitationId> {
    event.details.get("invitation")?.as_str()?.parse().ok()
}

/// Returns the email addresses of all users whom events name.
async fn emails_in(db: &Connection, events: &[AuditEvent]) -> Result<BTreeMap<UserId, String>, WorkspaceError> {
    let named = |event: &AuditEvent| [event.user_id, user_in(event, "member"), user_in(event, "by")];
    let ids: BTreeSet<_> = events.iter().flat_map(named).flatten().collect();
    let users = store::users::find_several(db, &ids.into_iter().collect::<Vec<_>>()).await?;
    Ok(users.into_iter().map(|(id, user)| (id, user.email)).collect())
}
