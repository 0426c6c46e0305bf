//! Looking at an account: who it is, its sessions, CLI tokens and events.

use serde::Serialize;
use serde_json::json;
use service_api::{
    Timestamp,
    audit_events::{AuditEvent, EventName},
    cli_tokens::{ListedCliToken, Status, StatusFilter},
    ids::UserId,
    instant,
    sessions::SessionPage,
    workspaces::Workspace,
};
use service_rules::{lifetimes, rotation, signing::later};

use super::{SupportError, SupportOperator, find_user, network_of};
use crate::{
    app::App,
    database::Connection,
    flows::{
        account::export::{self, DownloadBody},
        sessions,
        sign_in::browser_session,
    },
    store::{self, audit_events::AuditEventQuery, cli_tokens::CliTokenQuery, grants::GrantQuery, users::StoredUser},
};

/// The most rows that one call returns.
const MAX_ROWS: i64 = 1_000;

/// An account, as `serviced admin user find` prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundUser {
    pub id: UserId,
    pub email: String,
    pub disabled: bool,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
}

/// An account with what belongs to it, as `serviced admin user show` prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownUser {
    #[serde(flatten)]
    pub user: FoundUser,
    /// When the account is erased, if its user or an operator requested that.
    #[serde(skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub erased_on: Option<Timestamp>,
    /// When the user last signed in, if the audit log still has the event.
    #[serde(skip_serializing_if = "Option::is_none", with = "instant::WrittenIfAny")]
    pub last_sign_in_at: Option<Timestamp>,
    pub workspaces: Vec<Workspace>,
    /// Sessions of apps and of the command line that are valid.
    pub sessions: i64,
    /// Browsers that the user is signed in with.
    pub browsers: i64,
    /// CLI tokens that are valid.
    pub cli_tokens: usize,
}

/// A user whose account an operator looks at. The event that records it is written first, and what was read is returned only
/// once it is committed.
struct Viewing {
    db: Connection,
    user_id: UserId,
    now: Timestamp,
}

impl Viewing {
    async fn begin(app: &App, operator: &SupportOperator, whom: &str, viewed: &str) -> Result<Self, SupportError> {
        let now = app.clock.now();
        let db = app.database.begin().await?;
        let user_id = match find_user(app, &db, whom).await {
            Err(SupportError::NotFound) => return Err(operator.record_not_found(db, now, viewed).await?),
            found => found?,
        };
        // The user cannot read it: an operator may look into an abuse.
        let event = operator.event(EventName::SupportViewed, now, json!({ "viewed": viewed }))?;
        event.subject(user_id).insert(&db).await?;
        Ok(Self { db, user_id, now })
    }

    async fn find(&self) -> Result<FoundUser, SupportError> {
        let found = store::users::find(&self.db, self.user_id).await?;
        let StoredUser { email, disabled, created_at, .. } = found.ok_or(SupportError::NotFound)?;
        Ok(FoundUser { id: self.user_id, email, disabled, created_at })
    }

    async fn show(&self) -> Result<ShownUser, SupportError> {
        let (db, user_id, now) = (&self.db, self.user_id, self.now);
        let workspaces = store::workspaces::list_by_user(db, user_id, None, None, MAX_ROWS).await?;
        let sessions = store::grants::count_by_user(db, user_id, now, rotation::idle_since(now)).await?;
        let browsers =
            store::browser_sessions::count_by_user(db, user_id, now, browser_session::idle_since(now)).await?;
        let cli_tokens = self.cli_tokens(StatusFilter::Only(Status::Active)).await?.len();
        let signed_in = AuditEventQuery {
            event: Some(EventName::SignInSucceeded),
            since: None,
            until: None,
            before: None,
            limit: 1,
        };
        let signed_in = store::audit_events::list_by_user(db, user_id, &signed_in).await?;
        let last_sign_in_at = signed_in.first().map(|stored| stored.event.at);
        let erased_on = store::account_deletions::find(db, user_id).await?.map(|deletion| deletion.due_at);
        Ok(ShownUser {
            user: self.find().await?,
            erased_on,
            last_sign_in_at,
            workspaces,
            sessions,
            browsers,
            cli_tokens,
        })
    }

    async fn sessions(&self) -> Result<SessionPage, SupportError> {
        let (db, user_id, now) = (&self.db, self.user_id, self.now);
        let query = GrantQuery { now, used_after: rotation::idle_since(now), before: None, limit: MAX_ROWS };
        let mut data = store::grants::list_by_user(db, user_id, &query).await?;
        for session in &mut data {
            session.created_from = network_of(&session.created_from);
            session.last_used_from = network_of(&session.last_used_from);
        }
        Ok(SessionPage { data, browsers: sessions::list_browsers(db, user_id, now).await?, next_cursor: None })
    }

    async fn cli_tokens(&self, status: StatusFilter) -> Result<Vec<ListedCliToken>, SupportError> {
        let dead_since = later(self.now, -lifetimes::CLI_TOKEN_LISTED);
        let query = CliTokenQuery { now: self.now, dead_since, status, before: None, limit: MAX_ROWS };
        let mut tokens = store::cli_tokens::list_by_user(&self.db, self.user_id, &query).await?;
        for token in &mut tokens {
            token.last_used_from = token.last_used_from.as_deref().map(network_of);
        }
        Ok(tokens)
    }

    /// The events as they are stored: with networks, and without personal details.
    async fn events(&self, limit: u16) -> Result<Vec<AuditEvent>, SupportError> {
        let query = AuditEventQuery { event: None, since: None, until: None, before: None, limit: limit.into() };
        let stored = store::audit_events::list_by_user(&self.db, self.user_id, &query).await?;
        Ok(stored.into_iter().map(|stored| stored.event).collect())
    }

    /// Returns what was read, once the event is committed.
    async fn end<T>(self, read: T) -> Result<T, SupportError> {
        self.db.commit().await?;
        Ok(read)
    }
}

/// Finds an account by an email address, or by the ID of a user, a session or a CLI token.
pub async fn find(app: &App, operator: &SupportOperator, whom: &str) -> Result<FoundUser, SupportError> {
    let viewing = Viewing::begin(app, operator, whom, "user").await?;
    let found = viewing.find().await?;
    viewing.end(found).await
}

/// Shows an account: its state, its workspaces, and how many sessions and tokens it has.
pub async fn show(app: &App, operator: &SupportOperator, whom: &str) -> Result<ShownUser, SupportError> {
    let viewing = Viewing::begin(app, operator, whom, "account").await?;
    let shown = viewing.show().await?;
    viewing.end(shown).await
}

/// Lists the valid sessions of a user, and the browsers that the user is signed in with.
pub async fn sessions(app: &App, operator: &SupportOperator, whom: &str) -> Result<SessionPage, SupportError> {
    let viewing = Viewing::begin(app, operator, whom, "sessions").await?;
    let sessions = viewing.sessions().await?;
    viewing.end(sessions).await
}

/// Lists the CLI tokens of a user, also those that are no longer valid and that the user still sees.
pub async fn cli_tokens(
    app: &App,
    operator: &SupportOperator,
    whom: &str,
) -> Result<Vec<ListedCliToken>, SupportError> {
    let viewing = Viewing::begin(app, operator, whom, "cli tokens").await?;
    let tokens = viewing.cli_tokens(StatusFilter::All).await?;
    viewing.end(tokens).await
}

/// Begins to write what is stored about a user, as the user could export it. The event is committed before anything is read.
pub async fn export(app: &App, operator: &SupportOperator, whom: &str) -> Result<(UserId, DownloadBody), SupportError> {
    let viewing = Viewing::begin(app, operator, whom, "export").await?;
    let user_id = viewing.user_id;
    viewing.end(()).await?;
    Ok((user_id, export::write_for_operator(app, user_id)?))
}

/// Lists the newest audit events of a user.
pub async fn events(
    app: &App,
    operator: &SupportOperator,
    whom: &str,
    limit: u16,
) -> Result<Vec<AuditEvent>, SupportError> {
    let viewing = Viewing::begin(app, operator, whom, "events").await?;
    let events = viewing.events(limit).await?;
    viewing.end(events).await
}
