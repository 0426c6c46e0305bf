//! The CLI tokens and apps of members that can access a workspace: owners list and revoke them.
//!
//! Only credentials that are bound to the workspace are listed. A session of a first-party client belongs to its user and
//! gives access to every space of theirs; an owner ends its access by removing the member.
//!
//! Revoking:
//! 1. Check that the actor owns the workspace, and that the credential is bound to it.
//! 2. Lock the member, revoke the credential, and withdraw the consent by which the app would connect again.
//! 3. Record it for the member and for the workspace, without the owner's network address, and mail the member.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{CliTokenId, GrantId, Id as _, UserId, WorkspaceId},
    page::Page,
    workspaces::Member,
};
use service_rules::{clients::ClientKind, lifetimes, rotation, signing::later, space::Right};

use crate::{
    app::App,
    database::Connection,
    flows::{
        Actor,
        revocation::RevocationTransaction,
        workspaces::{WorkspaceError, access},
    },
    mail::{Email, RevokedCredential},
    pagination::{List, PageRequest},
    store::{
        self, audit_events::NewAuditEvent, cli_tokens::StoredCliToken, grants::StoredGrant,
        workspace_credentials::CredentialQuery,
    },
};

pub use crate::store::workspace_credentials::{BoundCliToken, BoundCredentials, BoundSession};

/// Members whose credentials a page lists.
const MEMBERS_PER_PAGE: u16 = 50;
/// Credentials of either kind that a page of all members lists for each.
const CREDENTIALS_PER_MEMBER: i64 = 5;
/// Credentials of either kind that the page of one member lists.
const CREDENTIALS_OF_MEMBER: i64 = 200;

/// A member with credentials for the workspace.
pub struct MemberCredentials {
    pub member: Member,
    pub credentials: BoundCredentials,
}

/// A credential of a workspace, as a request names both.
#[derive(Clone, Copy, Debug)]
pub struct CredentialPath<'a> {
    pub workspace_id: &'a str,
    pub credential_id: &'a str,
}

/// Lists the credentials of members page by page, each page with those of up to 50 members. Members without credentials are
/// left out, so a page can be empty although another one follows.
pub async fn list(
    app: &App,
    actor: &Actor<'_>,
    id: &str,
    cursor: Option<&str>,
) -> Result<Page<MemberCredentials>, WorkspaceError> {
    let page = PageRequest { limit: MEMBERS_PER_PAGE, cursor };
    let list = List { root_keys: &app.root_keys, of: &[b"credentials", id.as_bytes()], limit: page.limit };
    let after = list.behind(page.cursor)?;
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, id, Right::Own).await?;
    let members = store::members::list(&db, id, after, list.rows()).await?;
    let Page { data, next_cursor } = list.page(members, |member| member.user_id.uuid());
    Ok(Page { data: with_credentials(app, &db, id, data, CREDENTIALS_PER_MEMBER).await?, next_cursor })
}

/// Lists the credentials of one member.
pub async fn list_of_member(
    app: &App,
    actor: &Actor<'_>,
    id: &str,
    member: &str,
) -> Result<Vec<MemberCredentials>, WorkspaceError> {
    let member: UserId = member.parse().map_err(|_| WorkspaceError::MemberNotFound)?;
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, id, Right::Own).await?;
    let member = store::members::find(&db, id, member).await?.ok_or(WorkspaceError::MemberNotFound)?;
    with_credentials(app, &db, id, vec![member], CREDENTIALS_OF_MEMBER).await
}

async fn with_credentials(
    app: &App,
    db: &Connection,
    workspace_id: WorkspaceId,
    members: Vec<Member>,
    limit: i64,
) -> Result<Vec<MemberCredentials>, WorkspaceError> {
    let now = app.clock.now();
    let users: Vec<_> = members.iter().map(|member| member.user_id).collect();
    let query = CredentialQuery {
        workspace_id,
        users: &users,
        now,
        used_after: rotation::idle_since(now),
        epoch: app.revocations.epoch()?,
        limit,
    };
    let mut found = store::workspace_credentials::list(db, &query).await?;
    let with_some = members.into_iter().filter_map(|member| {
        let credentials = found.remove(&member.user_id)?;
        Some(MemberCredentials { member, credentials })
    });
    Ok(with_some.collect())
}

/// A credential of a member for the workspace, as an owner is asked about it.
pub struct NamedCredential {
    pub name: String,
    /// The email address of the member who has it.
    pub email: String,
    pub is_app: bool,
    /// Whether it is the actor's own.
    pub is_own: bool,
}

/// Finds a credential of a member that is bound to the workspace and not revoked.
pub async fn find(app: &App, actor: &Actor<'_>, path: CredentialPath<'_>) -> Result<NamedCredential, WorkspaceError> {
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, path.workspace_id, Right::Own).await?;
    match find_bound(&db, id, path.credential_id).await? {
        Bound::CliToken(token) if token.found.ended.is_none() && !token.found.workspace_left => {
            let email = store::users::find(&db, token.user_id).await?.map(|user| user.email).unwrap_or_default();
            let is_own = token.user_id == actor.user_id;
            Ok(NamedCredential { name: token.name.into_string(), email, is_app: false, is_own })
        }
        Bound::Session(grant) if grant.facts.ended.is_none() && !grant.facts.workspace_left => {
            let is_own = grant.user_id == actor.user_id;
            let name = grant.client.name.as_str().to_owned();
            Ok(NamedCredential { name, email: grant.user_email, is_app: true, is_own })
        }
        Bound::CliToken(_) | Bound::Session(_) => Err(WorkspaceError::CredentialNotFound),
    }
}

/// A credential that is bound to a workspace, live or not.
enum Bound {
    CliToken(Box<StoredCliToken>),
    Session(Box<StoredGrant>),
}

async fn find_bound(db: &Connection, id: WorkspaceId, credential: &str) -> Result<Bound, WorkspaceError> {
    let found = if let Ok(token) = credential.parse::<CliTokenId>() {
        let token = store::cli_tokens::find(db, token).await?;
        let token = token.filter(|token| token.found.workspace_id == Some(id));
        token.map(|token| Bound::CliToken(Box::new(token)))
    } else {
        let grant: GrantId = credential.parse().map_err(|_| WorkspaceError::CredentialNotFound)?;
        let grant = store::grants::find(db, grant).await?;
        let is_bound =
            |grant: &StoredGrant| grant.workspace_id == Some(id) && grant.client.kind != ClientKind::FirstParty;
        grant.filter(is_bound).map(|grant| Bound::Session(Box::new(grant)))
    };
    found.ok_or(WorkspaceError::CredentialNotFound)
}

/// Revokes a credential that is bound to the workspace. Revoking it again changes nothing.
pub async fn revoke(app: &App, actor: &Actor<'_>, path: CredentialPath<'_>) -> Result<(), WorkspaceError> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let id = access::enter(app, transaction.db(), actor, path.workspace_id, Right::Own).await?;
    let revocation = OwnerRevocation { app, actor, workspace_id: id };
    match find_bound(transaction.db(), id, path.credential_id).await? {
        Bound::CliToken(token) => revocation.cli_token(&mut transaction, &token).await?,
        Bound::Session(grant) => revocation.session(&mut transaction, &grant).await?,
    }
    transaction.commit().await?;
    app.mail_waiting.notify_one();
    Ok(())
}

/// The revocation of a member's credential by an owner.
struct OwnerRevocation<'a> {
    app: &'a App,
    actor: &'a Actor<'a>,
    workspace_id: WorkspaceId,
}

impl OwnerRevocation<'_> {
    async fn cli_token(
        &self,
        transaction: &mut RevocationTransaction<'_>,
        token: &StoredCliToken,
    ) -> Result<(), WorkspaceError> {
        store::users::lock(transaction.db(), token.user_id).await?;
        if !transaction.revoke_cli_token(token.id, Reason::RevokedByAdmin).await? {
            return Ok(());
        }
        let event = self.event(transaction, EventName::CliTokenRevoked, token.user_id)?;
        event.subject(token.id).insert(transaction.db()).await?;
        let credential = RevokedCredential::CliToken(token.name.as_str().to_owned());
        self.tell(transaction, token.user_id, credential).await
    }

    async fn session(
        &self,
        transaction: &mut RevocationTransaction<'_>,
        grant: &StoredGrant,
    ) -> Result<(), WorkspaceError> {
        let (user_id, client_id) = (grant.user_id, &grant.client.id);
        store::users::lock(transaction.db(), user_id).await?;
        if !transaction.revoke_grant(grant.id, Reason::RevokedByAdmin).await? {
            return Ok(());
        }
        let event = self.event(transaction, EventName::SessionEnded, user_id)?;
        event.client(client_id).subject(grant.id).insert(transaction.db()).await?;
        let db = transaction.db();
        if store::consents::delete_in_workspace(db, user_id, client_id, self.workspace_id).await? > 0 {
            let event = self.event(transaction, EventName::ConsentWithdrawn, user_id)?;
            event.client(client_id).insert(db).await?;
        }
        self.tell(transaction, user_id, RevokedCredential::App).await
    }

    /// An event about the member, who reads it too. It names the owner by id, and not the owner's network address.
    fn event<'e>(
        &self,
        transaction: &RevocationTransaction<'_>,
        name: EventName,
        user_id: UserId,
    ) -> anyhow::Result<NewAuditEvent<'e>> {
        let event = self.actor.meta.event(name, transaction.now(), json!({ "by": self.actor.user_id }))?;
        Ok(event.user(user_id).in_workspace(self.workspace_id).without_address())
    }

    /// Mails the member, unless the owner revoked an own credential.
    async fn tell(
        &self,
        transaction: &RevocationTransaction<'_>,
        user_id: UserId,
        credential: RevokedCredential,
    ) -> Result<(), WorkspaceError> {
        if user_id == self.actor.user_id {
            return Ok(());
        }
        let (db, now) = (transaction.db(), transaction.now());
        let Some(member) = store::users::find(db, user_id).await? else { return Ok(()) };
        let owner = store::users::find(db, self.actor.user_id).await?.map(|user| user.email).unwrap_or_default();
        let workspace = access::read(db, self.actor, self.workspace_id).await?.name;
        let mail = Email::CredentialRevoked { to: member.email, credential, workspace, owner, revoked_at: now };
        Ok(mail.enqueue(&self.app.root_keys, db, now, later(now, lifetimes::WARNING)).await?)
    }
}
