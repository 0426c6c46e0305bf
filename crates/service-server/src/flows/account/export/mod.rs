//! Exporting everything that is stored about a user (`/v1/account/exports`, the account page and `service account export`).
//!
//! 1. A user who signed in within the last 15 minutes starts an export. A row says which session may download it, for an hour.
//! 2. The session downloads it. One download of a user runs at a time: under the user's lock it is noted as running, and it renews
//!    the note while it runs.
//! 3. A task reads page after page, on a connection of its own each, and writes a ZIP file into a channel that holds few pieces. It
//!    waits while the client does not read, and holds no connection then. No file is stored.
//! 4. Before each page the session must be live, so revoking it ends the download.
//!
//! Pages are read one after the other, not from one snapshot: a slow client would keep it open. What exists during the whole download
//! is in the file once; what changes meanwhile, as it was before or after.

mod files;
mod stream;

use std::net::Ipv4Addr;

use serde_json::json;
use service_api::{
    account_exports::{AccountExport, ExportProgress, ExportStatus, MAX_DOWNLOADS, MAX_EXPORTS_PER_DAY},
    audit_events::EventName,
    ids::{ExportId, Id as _, UserId},
    scope::{Action, Resource, Scope, Scopes},
};
use service_rules::{
    Timestamp,
    bearer::BearerError,
    lifetimes,
    limits::{Limited, Window},
    signing::later,
};

pub use self::stream::{DownloadBody, Pieces};
use self::{
    files::FILES,
    stream::{Download, Run, STREAM_LEASE_SECONDS},
};
use crate::{
    app::App,
    crypto::random,
    database,
    flows::{
        Actor, RequestMeta,
        account::{AccountError, actor},
        actor::Basis,
        rate_limit::Limit,
        sign_in::{
            browser_session::Browser,
            step_up::{self, RecentSignIn},
        },
    },
    node_limits::network_places::Holder,
    store::{
        self,
        account_exports::{ExportKey, StoredExport, Stream},
        browser_sessions::CookieKey,
    },
};

const EXPORTS_PER_USER: [Window; 1] = [Window { count: MAX_EXPORTS_PER_DAY, seconds: 86_400 }];

/// The resources that `read` stands for: a session that reads all of them downloads an export.
const EXPORTED: [Resource; 9] = [
    Resource::Workspaces,
    Resource::Projects,
    Resource::Packs,
    Resource::Playbooks,
    Resource::Cases,
    Resource::Records,
    Resource::Tokens,
    Resource::Sessions,
    Resource::Audit,
];

/// Why an export was not started or downloaded.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("the session has no such export")]
    NotFound,
    #[error("the session ended while the request ran")]
    SessionEnded,
    #[error(transparent)]
    Bearer(#[from] BearerError),
    #[error("the user started as many exports as they may")]
    Limited(Limited),
    #[error("another download of the user runs")]
    Running,
    #[error("the export was downloaded as often as it may")]
    DownloadedTooOften,
    #[error("as many downloads run as the node, or the network of the user, may have")]
    Busy,
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// Starts an export for the session that the user acts by.
pub async fn start(app: &App, actor: &Actor<'_>, _: RecentSignIn) -> Result<AccountExport, ExportError> {
    let (user_id, now) = (actor.user_id, app.clock.now());
    let db = app.database.begin().await?;
    actor.hold(&db, now).await?.ok_or(ExportError::SessionEnded)?;
    let whom = user_id.uuid();
    let limit = Limit { policy: "account-exports", whom: whom.as_bytes() };
    if let Some(limited) = limit.take_in_windows(app, &db, &EXPORTS_PER_USER, now).await? {
        return Err(ExportError::Limited(limited));
    }
    let (id, session_id) = (random::id_in(user_id.shard(), now)?, actor.basis.to_string());
    let key = ExportKey { id, user_id, session_id: &session_id };
    store::account_exports::insert(&db, &key, now, later(now, lifetimes::ACCOUNT_EXPORT)).await?;
    let details = json!({ "by": session_id });
    actor.event(EventName::AccountExportStarted, now, details)?.subject(id).insert(&db).await?;
    let stored = store::account_exports::find(&db, &key, now).await?.ok_or(ExportError::NotFound)?;
    db.commit().await?;
    app.metrics.exports.started.inc();
    Ok(view(&stored, now))
}

/// Finds an export of the session that the user acts by.
pub async fn find(app: &App, actor: &Actor<'_>, id: &str) -> Result<AccountExport, ExportError> {
    let (session_id, now) = (actor.basis.to_string(), app.clock.now());
    let key = key_of(actor, id, &session_id)?;
    let db = app.database.connect().await?;
    let found = store::account_exports::find(&db, &key, now).await?.ok_or(ExportError::NotFound)?;
    Ok(view(&found, now))
}

/// Begins a download. The body is written while it is read.
pub async fn download(app: &App, actor: &Actor<'_>, id: &str) -> Result<DownloadBody, ExportError> {
    begin(app, actor, id, None).await
}

/// Begins a download for a session, or for the browser with this cookie.
async fn begin(app: &App, actor: &Actor<'_>, id: &str, cookie: Option<CookieKey>) -> Result<DownloadBody, ExportError> {
    let (session_id, now) = (actor.basis.to_string(), app.clock.now());
    let key = key_of(actor, id, &session_id)?;
    let db = app.database.begin().await?;
    if !actor.hold_session(&db).await? {
        return Err(ExportError::SessionEnded);
    }
    let found = store::account_exports::find(&db, &key, now).await?.ok_or(ExportError::NotFound)?;
    check_scopes(actor)?;
    if found.downloads >= i16::try_from(MAX_DOWNLOADS).unwrap_or(i16::MAX) {
        return Err(ExportError::DownloadedTooOften);
    }
    if store::account_exports::is_any_running(&db, actor.user_id, now).await? {
        return Err(ExportError::Running);
    }
    let place = app.downloads.take(Holder::Caller(actor.meta.address), 1).ok_or(ExportError::Busy)?;
    let stream = Stream { id: random::uuid(now)?, until: later(now, STREAM_LEASE_SECONDS) };
    store::account_exports::begin_stream(&db, &key, stream).await?;
    let details = json!({ "by": session_id });
    actor.event(EventName::AccountExportDownloaded, now, details)?.subject(key.id).insert(&db).await?;
    db.commit().await?;
    let run = Run { export_id: key.id, stream_id: stream.id, created_at: found.created_at, cookie };
    Ok(Download::new(app, actor, run, Some(place)).begin())
}

/// Checks that a download could begin, without beginning one.
pub async fn check_download(app: &App, actor: &Actor<'_>, id: &str) -> Result<(), ExportError> {
    find(app, actor, id).await?;
    check_scopes(actor)
}

/// An export has what every scope for reading opens.
fn check_scopes(actor: &Actor<'_>) -> Result<(), ExportError> {
    match lacking(actor.scopes) {
        Some(scope) => Err(BearerError::InsufficientScope(scope).into()),
        None => Ok(()),
    }
}

fn lacking(scopes: Scopes) -> Option<Scope> {
    EXPORTED.iter().map(|resource| Scope::of(Action::Read, *resource)).find(|scope| !scopes.allow(*scope))
}

/// Starts an export for the browser that the user is signed in with.
pub async fn start_from_browser(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
) -> Result<AccountExport, AccountError> {
    let actor = actor(browser, meta)?;
    let sign_in = step_up::require_recent_sign_in(app, &actor).await?;
    start(app, &actor, sign_in).await.map_err(AccountError::from)
}

/// Lists the exports that the browser can download, the latest first.
pub async fn list_for_browser(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
) -> Result<Vec<AccountExport>, AccountError> {
    let (actor, now) = (actor(browser, meta)?, app.clock.now());
    let session_id = actor.basis.to_string();
    let db = app.database.connect().await?;
    let mut found = store::account_exports::list_by_user(&db, actor.user_id, now).await?;
    found.retain(|export| export.session_id == session_id);
    Ok(found.iter().map(|export| view(export, now)).collect())
}

/// Begins a download in the browser that the user is signed in with. It ends when the cookie of the browser is replaced: an attacker
/// may have a copy. After another sign-in the export has to be started again.
pub async fn download_in_browser(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    id: &str,
) -> Result<DownloadBody, AccountError> {
    Ok(begin(app, &actor(browser, meta)?, id, Some(browser.cookie_key())).await?)
}

/// Begins to write the export of a user for an operator, who has recorded why. There is no row to download it by.
pub(in crate::flows) fn write_for_operator(app: &App, user_id: UserId) -> anyhow::Result<DownloadBody> {
    let now = app.clock.now();
    let request_id = random::uuid(now)?.to_string().into();
    let meta = RequestMeta::new(Ipv4Addr::LOCALHOST.into(), request_id, app.audit_keys.clone(), None);
    let run = Run {
        export_id: random::id_in(user_id.shard(), now)?,
        stream_id: random::uuid(now)?,
        created_at: now,
        cookie: None,
    };
    Ok(Download::new(app, &Actor::read_by_operator(user_id, &meta), run, None).begin())
}

fn key_of<'a>(actor: &Actor<'_>, id: &str, session_id: &'a str) -> Result<ExportKey<'a>, ExportError> {
    if let Basis::CliToken(_) | Basis::Operator = actor.basis {
        return Err(ExportError::NotFound);
    }
    let id: ExportId = id.parse().map_err(|_| ExportError::NotFound)?;
    Ok(ExportKey { id, user_id: actor.user_id, session_id })
}

/// An export as the API shows it.
fn view(export: &StoredExport, now: Timestamp) -> AccountExport {
    let is_running = export.stream_until.is_some_and(|until| until > now);
    let status = match export.finished_at {
        _ if is_running => ExportStatus::Running,
        Some(_) => ExportStatus::Finished,
        None => ExportStatus::Ready,
    };
    let written = export.written;
    AccountExport {
        id: export.id,
        status,
        created_at: export.created_at,
        expires_at: export.expires_at,
        downloads_left: MAX_DOWNLOADS.saturating_sub(u32::try_from(export.downloads).unwrap_or_default()),
        progress: ExportProgress {
            files: u32::try_from(written.files).unwrap_or_default(),
            total_files: u32::try_from(FILES.len()).unwrap_or_default() + 1,
            entries: u64::try_from(written.entries).unwrap_or_default(),
            bytes: u64::try_from(written.bytes).unwrap_or_default(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_reads_everything_downloads_an_export() {
        assert_eq!(lacking(Scopes::READ), None);
        let named = Scopes::parse(&EXPORTED.map(|resource| format!("{}:read", resource.as_str())).join(" "));
        assert_eq!(lacking(named), None);
        for narrow in ["", "write", "sessions:read", "projects:read sessions:read audit:read"] {
            assert!(lacking(Scopes::parse(narrow)).is_some(), "{narrow}");
        }
    }
}
