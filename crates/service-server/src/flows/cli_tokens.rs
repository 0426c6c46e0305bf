//! Tokens for automation (`/v1/cli/tokens`): making, listing, replacing and ending them.
//!
//! A token never has more scopes, space or life than the session that makes it, and its secret is shown once.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    cli_tokens::{CreateCliToken, CreatedCliToken, ListedCliToken, MOST_LIVE, RotateCliToken, StatusFilter},
    errors::Reason,
    ids::{CliTokenId, Id as _, UserId, WorkspaceId},
    oauth::TokenType,
    page::Page,
    scope::{Action, Resource, Scope, Scopes},
};
use service_rules::{
    Timestamp, bearer,
    cli_tokens::{self, Invalid},
    credential::{Credential, Kind},
    lifetimes,
    limits::Limited,
    revocation::Subject,
    scopes,
    signing::later,
};

use crate::{
    app::App,
    cursor::{Foreign, List},
    database::Connection,
    digest::sha256,
    failure::Failure,
    flows::{Asker, end_access::EndingTransaction, maker::Maker},
    letters::Letter,
    mint,
    store::{
        self,
        audit_events::Event,
        cli_tokens::{Listed, NewCliToken, StoredCliToken},
    },
};

#[derive(Debug)]
pub enum Refusal {
    Invalid(Invalid),
    /// None of the scopes exist.
    Scope,
    /// More than the maker has.
    Bearer(bearer::Refusal),
    Workspace,
    Limited(Limited),
    TooMany,
    /// The idempotency key was used before.
    AlreadyMade,
    /// No such token of this user.
    NotFound,
    /// The token that is to be replaced is dead.
    Dead,
    /// A token for automation may end itself and nothing else.
    NotSignedIn,
}

/// What a new token is to be.
struct Wanted<'a> {
    name: String,
    scopes: Scopes,
    workspace_id: Option<WorkspaceId>,
    expires_at: Timestamp,
    idempotency_key: Option<&'a str>,
}

pub async fn create(
    app: &App,
    maker: &Maker<'_>,
    request: &CreateCliToken,
    idempotency_key: Option<&str>,
) -> Result<CreatedCliToken, Failure<Refusal>> {
    let now = app.clock.now();
    let invalid = |invalid| Failure::Refused(Refusal::Invalid(invalid));
    let name = cli_tokens::check_name(request.name.as_deref()).map_err(invalid)?;
    let asked = request.scopes.as_ref().map(|words| words.join(" "));
    let scopes = scopes::grant(asked.as_deref()).map_err(|_| Failure::Refused(Refusal::Scope))?;
    let workspace_id = maker.workspace(request.workspace_id.as_deref()).map_err(invalid)?;
    let db = app.database.begin().await?;
    let ends_at = hold(maker, &db, now).await?;
    let expires_at = cli_tokens::choose_end(request.expires_in_days, ends_at, now).map_err(invalid)?;
    let wanted = Wanted { name, scopes, workspace_id, expires_at, idempotency_key };
    let created = maker.make(app, &db, &wanted, now).await?;
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(created)
}

/// Holds user and session; when the session ends.
async fn hold(maker: &Maker<'_>, db: &Connection, now: Timestamp) -> Result<Timestamp, Failure<Refusal>> {
    maker.hold(db, now).await?.ok_or(Failure::Refused(Refusal::Bearer(bearer::Refusal::Invalid)))
}

impl Maker<'_> {
    /// Makes a token in the caller's transaction.
    async fn make(
        &self,
        app: &App,
        db: &Connection,
        wanted: &Wanted<'_>,
        now: Timestamp,
    ) -> Result<CreatedCliToken, Failure<Refusal>> {
        let refuse = |refusal| Failure::Refused(Refusal::Bearer(refusal));
        self.check_covers(wanted.scopes).map_err(refuse)?;
        let user_id = self.user_id;
        if let Some(workspace_id) = wanted.workspace_id
            && store::memberships::find_role(db, user_id, workspace_id).await?.is_none()
        {
            return Err(Failure::Refused(Refusal::Workspace));
        }
        // Whoever makes another at the same moment waits for the user, so the count is right.
        let epoch = app.revocations.epoch()?;
        if store::cli_tokens::count_live(db, user_id, epoch, now).await? >= MOST_LIVE {
            return Err(Failure::Refused(Refusal::TooMany));
        }
        if let Some(limited) = self.count(app, db, now).await? {
            return Err(Failure::Refused(Refusal::Limited(limited)));
        }
        let id: CliTokenId = mint::id(now)?;
        let secret = mint::cli_token(id)?;
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
        };
        if !store::cli_tokens::insert(db, &new).await? {
            return Err(Failure::Refused(Refusal::AlreadyMade));
        }
        let event = self.asker.event(EventName::CliTokenCreated, now, json!({}))?;
        self.record(db, event, id, wanted.workspace_id).await?;
        self.tell(app, db, &new, now).await?;
        Ok(CreatedCliToken {
            id,
            token_type: TokenType::Bearer,
            expires_in: wanted.expires_at.as_second() - now.as_second(),
            scope: wanted.scopes.to_string(),
            name: wanted.name.clone(),
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
        let letter = Letter::CliTokenCreated {
            to: user.email,
            name: new.name.to_owned(),
            hint: new.hint.to_owned(),
            scopes: new.scopes.to_string(),
            made_at: now,
            made_from: self.asker.address.to_string(),
            expires_at: new.expires_at,
        };
        letter.post(&app.vault, db, now, later(now, lifetimes::WARNING)).await
    }

    async fn record<'m>(
        &'m self,
        db: &Connection,
        mut event: Event<'m>,
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

/// Makes a token like another, which goes on for the hours asked and no longer.
pub async fn rotate(
    app: &App,
    maker: &Maker<'_>,
    id: &str,
    request: &RotateCliToken,
) -> Result<CreatedCliToken, Failure<Refusal>> {
    let now = app.clock.now();
    let mut transaction = EndingTransaction::begin(app, now).await?;
    let ends_at = hold(maker, transaction.db(), now).await?;
    let old = find_own(transaction.db(), maker.user_id, id).await?;
    cli_tokens::judge(&old.found, now).map_err(|_| Failure::Refused(Refusal::Dead))?;
    let invalid = |invalid| Failure::Refused(Refusal::Invalid(invalid));
    let old_ends_at = cli_tokens::choose_overlap(request.overlap_hours, old.found.expires_at, now).map_err(invalid)?;
    let life = old.found.expires_at.as_second() - old.found.created_at.as_second();
    let wanted = Wanted {
        name: old.name.clone(),
        scopes: old.found.scopes,
        workspace_id: old.found.workspace_id,
        expires_at: later(now, life).min(ends_at),
        idempotency_key: None,
    };
    let was_alive = if old_ends_at <= now {
        transaction.end_cli_token(old.id, Reason::RevokedByUser).await?
    } else {
        store::cli_tokens::mark_ends_at(transaction.db(), old.id, old_ends_at).await?
    };
    if !was_alive || ends_at <= now {
        return Err(Failure::Refused(Refusal::Dead));
    }
    if old_ends_at > now {
        // It goes on for a while: whoever remembers it looks it up again.
        transaction.end(Subject::CliToken(old.id), Reason::RevokedByUser).await?;
    }
    let created = maker.make(app, transaction.db(), &wanted, now).await?;
    let event = maker.asker.event(EventName::CliTokenRotated, now, json!({ "by": created.id }))?;
    maker.record(transaction.db(), event, old.id, old.found.workspace_id).await?;
    transaction.commit().await?;
    app.mail_waiting.notify_one();
    Ok(created)
}

/// Ends a token of the caller's; a token for automation can end itself, whatever its scopes.
pub async fn revoke(app: &App, asker: &Asker, caller: &Credential, id: &str) -> Result<(), Failure<Refusal>> {
    let itself = matches!(caller.kind, Kind::CliToken(own) if own.to_string() == id);
    if !itself {
        caller.session().map_err(|_| Failure::Refused(Refusal::NotSignedIn))?;
        let needed = caller.check_scope(Scope::of(Action::Write, Resource::Tokens));
        needed.map_err(|refusal| Failure::Refused(Refusal::Bearer(refusal)))?;
    }
    end_own(app, asker, caller.user_id, id, itself).await
}

/// Ends a token of this user's.
pub async fn end_own(
    app: &App,
    asker: &Asker,
    user_id: UserId,
    id: &str,
    itself: bool,
) -> Result<(), Failure<Refusal>> {
    let now = app.clock.now();
    let mut transaction = EndingTransaction::begin(app, now).await?;
    let token = find_own(transaction.db(), user_id, id).await?;
    if transaction.end_cli_token(token.id, Reason::RevokedByUser).await? {
        let mut event = asker.event(EventName::CliTokenRevoked, now, json!({ "itself": itself }))?;
        event.user_id = Some(user_id);
        event.workspace_id = token.found.workspace_id;
        event.subject = Some(token.id.to_string());
        store::audit_events::insert(transaction.db(), &event).await?;
    }
    Ok(transaction.commit().await?)
}

async fn find_own(db: &Connection, user_id: UserId, id: &str) -> Result<StoredCliToken, Failure<Refusal>> {
    let not_found = || Failure::Refused(Refusal::NotFound);
    let id: CliTokenId = id.parse().map_err(|_| not_found())?;
    let token = store::cli_tokens::find(db, id).await?;
    token.filter(|token| token.user_id == user_id).ok_or_else(not_found)
}

/// A user's tokens, the youngest first; dead ones for a month.
pub async fn list(
    app: &App,
    user_id: UserId,
    status: StatusFilter,
    limit: u16,
    cursor: Option<&str>,
) -> Result<Page<ListedCliToken>, Failure<Foreign>> {
    let now = app.clock.now();
    let owner = user_id.to_string();
    let list = List { vault: &app.vault, of: &[b"cli tokens", owner.as_bytes()], limit };
    let before = list.behind(cursor).map_err(Failure::Refused)?.map(CliTokenId::from);
    let dead_since = later(now, -lifetimes::CLI_TOKEN_LISTED);
    let listed = Listed { now, dead_since, status, before, limit: list.rows() };
    let db = app.database.connect().await?;
    let data = store::cli_tokens::list_by_user(&db, user_id, &listed).await?;
    Ok(list.page(data, |token| token.id.uuid()))
}
