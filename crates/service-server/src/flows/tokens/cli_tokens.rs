//! CLI tokens (`/v1/cli/tokens`): creates, lists, rotates and revokes them.
//!
//! A token never has more scopes, spaces or time than the session that creates it, and its secret is shown once.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    cli_tokens::{CreateCliToken, CreatedCliToken, ListedCliToken, MOST_LIVE, RotateCliToken, StatusFilter},
    errors::Reason,
    ids::{CliTokenId, Id as _, UserId, WorkspaceId},
    oauth::TokenType,
    page::Page,
    scope::{self, Action, Resource, Scope, Scopes, TwoSpellings},
};
use service_rules::{
    Timestamp,
    bearer::BearerError,
    cli_tokens::{self, FieldError},
    credential::{Credential, CredentialKind, UserSessionRequired, check_covers},
    display_name::DisplayName,
    lifetimes,
    limits::Limited,
    revocation::Subject,
    scopes::{self, UnknownScopes},
    signing::later,
    space::{self, Right, SpaceError},
};

use crate::{
    app::App,
    crypto::{digest::sha256, random},
    database::{self, Connection},
    flows::{
        Actor, RequestMeta,
        authenticate::sso_deadline,
        revocation::RevocationTransaction,
        sign_in::step_up::{self, RecentSignIn},
        tokens::issuer::Held,
    },
    mail::Email,
    pagination::{InvalidCursor, List},
    store::{
        self,
        audit_events::NewAuditEvent,
        cli_tokens::{CliTokenQuery, NewCliToken, StoredCliToken},
    },
};

/// Why a CLI token is not created, rotated, revoked or listed.
#[derive(Debug, thiserror::Error)]
pub enum CliTokenError {
    #[error(transparent)]
    InvalidField(#[from] FieldError),
    #[error("scope and scopes differ")]
    ScopesDiffer,
    #[error(transparent)]
    UnknownScopes(#[from] UnknownScopes),
    /// The credential of the request does not allow it.
    #[error(transparent)]
    Bearer(#[from] BearerError),
    #[error("a credential cannot be created for the workspace: {0}")]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error("the user has too many valid tokens")]
    TooMany,
    #[error("the idempotency key was used before")]
    AlreadyCreated,
    #[error("the user has no such token")]
    NotFound,
    /// An expired or revoked token cannot be rotated.
    #[error("the token is no longer valid")]
    Inactive,
    /// A CLI token can revoke itself and no other token.
    #[error(transparent)]
    UserSessionRequired(#[from] UserSessionRequired),
    #[error(transparent)]
    InvalidCursor(#[from] InvalidCursor),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// A token that is to be created.
struct TokenToCreate<'a> {
    name: DisplayName,
    scopes: Scopes,
    workspace_id: Option<WorkspaceId>,
    expires_at: Timestamp,
    idempotency_key: Option<&'a str>,
    maker: Held,
}

pub async fn create(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    request: &CreateCliToken,
    idempotency_key: Option<&str>,
) -> Result<CreatedCliToken, CliTokenError> {
    let now = app.clock.now();
    let name = cli_tokens::check_name(request.name.as_deref(), &app.config.brand.own_names)?;
    let asked = scope::one_spelling(request.scope.as_deref(), request.scopes.as_deref());
    let asked = asked.map_err(|TwoSpellings| CliTokenError::ScopesDiffer)?;
    let scopes = scopes::grant(asked.as_deref())?;
    let workspace_id = actor.workspace(request.workspace_id.as_deref())?;
    let db = app.database.begin().await?;
    let maker = hold(actor, &db, now).await?;
    let expires_at = cli_tokens::choose_expiry(request.expires_in_days, maker.ends_at, now)?;
    let wanted = TokenToCreate { name, scopes, workspace_id, expires_at, idempotency_key, maker };
    let created = actor.create_token(app, &db, &wanted, now).await?;
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(created)
}

/// Locks the user and the session until the transaction ends.
async fn hold(actor: &Actor<'_>, db: &Connection, now: Timestamp) -> Result<Held, CliTokenError> {
    Ok(actor.hold(db, now).await?.ok_or(BearerError::Invalid)?)
}

impl Actor<'_> {
    /// Creates a token in the caller's transaction.
    async fn create_token(
        &self,
        app: &App,
        db: &Connection,
        wanted: &TokenToCreate<'_>,
        now: Timestamp,
    ) -> Result<CreatedCliToken, CliTokenError> {
        check_covers(self.scopes, wanted.scopes)?;
        let user_id = self.user_id;
        if let Some(workspace_id) = wanted.workspace_id {
            space::judge(store::memberships::find_role(db, user_id, workspace_id).await?, Right::Read)?;
            // A token that is created while its user is kept out would work as soon as the account requires a passkey.
            step_up::passkey_rule(app, db, user_id, workspace_id).await?.check()?;
        }
        // A concurrent request of the same user waits for the lock, so the count is right.
        let epoch = app.revocations.epoch()?;
        if store::cli_tokens::count_live(db, user_id, epoch, now).await? >= MOST_LIVE {
            return Err(CliTokenError::TooMany);
        }
        if let Some(limited) = self.count(app, db, now).await? {
            return Err(limited.into());
        }
        let id: CliTokenId = random::id_in(user_id.shard(), now)?;
        let secret = random::cli_token(id)?;
        let new = NewCliToken {
            id,
            user_id,
            client_id: self.client_id,
            name: &wanted.name,
            digest: sha256(secret.expose()),
            hint: &secret.hint(),
            scopes: wanted.scopes,
            workspace_id: wanted.workspace_id,
            created_at: now,
            expires_at: wanted.expires_at,
            idempotency_key: wanted.idempotency_key,
            made_by: &wanted.maker.made_by,
            auth_time: wanted.maker.auth_time,
            connection_id: wanted.maker.connection_id,
        };
        if !store::cli_tokens::insert(db, &new).await? {
            return Err(CliTokenError::AlreadyCreated);
        }
        let event = self.meta.event(EventName::CliTokenCreated, now, json!({ "madeBy": wanted.maker.made_by }))?;
        self.record(db, event, id, wanted.workspace_id).await?;
        self.tell(app, db, &new, now).await?;
        Ok(CreatedCliToken {
            id,
            token_type: TokenType::Bearer,
            expires_in: wanted.expires_at.as_second() - now.as_second(),
            scope: wanted.scopes.to_string(),
            name: wanted.name.as_str().to_owned(),
            workspace_id: wanted.workspace_id,
            created_at: now,
            expires_at: wanted.expires_at,
            hint: secret.hint(),
            access_token: secret,
        })
    }

    async fn tell(&self, app: &App, db: &Connection, new: &NewCliToken<'_>, now: Timestamp) -> anyhow::Result<()> {
        let user = store::users::find(db, new.user_id).await?;
        let user = user.ok_or_else(|| anyhow::anyhow!("a token speaks for a user who does not exist"))?;
        let mail = Email::CliTokenCreated {
            to: user.email,
            name: new.name.as_str().to_owned(),
            hint: new.hint.to_owned(),
            scopes: new.scopes.to_string(),
            made_at: now,
            made_from: self.meta.address.to_string(),
            expires_at: new.expires_at,
            language: self.meta.language,
        };
        mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await
    }

    async fn record<'m>(
        &'m self,
        db: &Connection,
        mut event: NewAuditEvent<'m>,
        id: CliTokenId,
        workspace_id: Option<WorkspaceId>,
    ) -> anyhow::Result<()> {
        event.user_id = Some(self.user_id);
        event.client_id = Some(self.client_id);
        event.workspace_id = workspace_id;
        event.subject = Some(id.to_string());
        Ok(store::audit_events::insert(db, &event).await?)
    }
}

/// A request to rotate a token.
pub struct Rotation<'a> {
    pub id: &'a str,
    pub request: &'a RotateCliToken,
    pub idempotency_key: Option<&'a str>,
}

/// Replaces a token by a new one like it. The old token stays valid for the requested hours.
pub async fn rotate(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    rotation: &Rotation<'_>,
) -> Result<CreatedCliToken, CliTokenError> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let maker = hold(actor, transaction.db(), now).await?;
    let ends_at = maker.ends_at;
    let mut old = find_own(transaction.db(), actor.user_id, rotation.id).await?;
    old.found.sso_until = sso_deadline(transaction.db(), old.connection_id, old.found.sso_until, now).await?;
    cli_tokens::judge(&old.found, now).map_err(|_| CliTokenError::Inactive)?;
    let old_ends_at = cli_tokens::choose_overlap(rotation.request.overlap_hours, old.found.expires_at, now)?;
    let life = old.found.expires_at.as_second() - old.found.created_at.as_second();
    let wanted = TokenToCreate {
        name: old.name.clone(),
        scopes: old.found.scopes,
        workspace_id: old.found.workspace_id,
        expires_at: later(now, life).min(ends_at),
        idempotency_key: rotation.idempotency_key,
        maker,
    };
    let was_alive = if old_ends_at <= now {
        transaction.revoke_cli_token(old.id, Reason::RevokedByUser).await?
    } else {
        store::cli_tokens::mark_expires_at(transaction.db(), old.id, old_ends_at).await?
    };
    if !was_alive || ends_at <= now {
        return Err(CliTokenError::Inactive);
    }
    if old_ends_at > now {
        // It stays valid for a while: nodes that have it cached look it up again.
        transaction.revoke(Subject::CliToken(old.id), Reason::RevokedByUser)?;
    }
    let created = actor.create_token(app, transaction.db(), &wanted, now).await?;
    let event = actor.meta.event(EventName::CliTokenRotated, now, json!({ "by": created.id }))?;
    actor.record(transaction.db(), event, old.id, old.found.workspace_id).await?;
    transaction.commit().await?;
    app.mail_waiting.notify_one();
    Ok(created)
}

/// Revokes a token of the caller. A CLI token can revoke itself, whatever its scopes.
pub async fn revoke(app: &App, meta: &RequestMeta, caller: &Credential, id: &str) -> Result<(), CliTokenError> {
    let itself = matches!(caller.kind, CredentialKind::CliToken(own) if own.to_string() == id);
    if !itself {
        caller.user_session()?;
        caller.check_scope(Scope::of(Action::Write, Resource::Tokens))?;
    }
    revoke_own(app, meta, caller.user_id, id, itself).await
}

/// Revokes a token of this user.
pub async fn revoke_own(
    app: &App,
    meta: &RequestMeta,
    user_id: UserId,
    id: &str,
    itself: bool,
) -> Result<(), CliTokenError> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let token = find_own(transaction.db(), user_id, id).await?;
    if transaction.revoke_cli_token(token.id, Reason::RevokedByUser).await? {
        let mut event = meta.event(EventName::CliTokenRevoked, now, json!({ "itself": itself }))?;
        event.user_id = Some(user_id);
        event.workspace_id = token.found.workspace_id;
        event.subject = Some(token.id.to_string());
        store::audit_events::insert(transaction.db(), &event).await?;
    }
    Ok(transaction.commit().await?)
}

/// Returns a token of this user.
pub(crate) async fn find_own(db: &Connection, user_id: UserId, id: &str) -> Result<StoredCliToken, CliTokenError> {
    let id: CliTokenId = id.parse().map_err(|_| CliTokenError::NotFound)?;
    let token = store::cli_tokens::find(db, id).await?;
    token.filter(|token| token.user_id == user_id).ok_or(CliTokenError::NotFound)
}

/// Lists a user's tokens, the newest first. Expired and revoked ones are listed for a month.
pub async fn list(
    app: &App,
    user_id: UserId,
    status: StatusFilter,
    limit: u16,
    cursor: Option<&str>,
) -> Result<Page<ListedCliToken>, CliTokenError> {
    let now = app.clock.now();
    let owner = user_id.to_string();
    let list = List { root_keys: &app.root_keys, of: &[b"cli tokens", owner.as_bytes()], limit };
    let before = list.behind(cursor)?.map(CliTokenId::from);
    let dead_since = later(now, -lifetimes::CLI_TOKEN_LISTED);
    let listed = CliTokenQuery { now, dead_since, status, before, limit: list.rows() };
    let db = app.database.connect().await?;
    let data = store::cli_tokens::list_by_user(&db, user_id, &listed).await?;
    Ok(list.page(data, |token| token.id.uuid()))
}
