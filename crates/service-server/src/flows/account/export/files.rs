//! The files of an export: what each one holds, and its pages.
//!
//! What the API lists is read by the flows that list it, so that a file shows what the API shows. What no list shows is read from the
//! store. A page is read on a connection of its own and holds none afterwards.

use serde::Serialize;
use service_api::{
    account_exports::AccountExport,
    cli_tokens::StatusFilter,
    contents::Kind,
    ids::{BrowserSessionId, Id as _},
    page::Page,
    sessions::SignedInBrowser,
};
use service_rules::{Timestamp, rotation, space::Space, user_agent::UserAgent};
use uuid::Uuid;

use super::view;
use crate::{
    app::App,
    flows::{
        Actor,
        audit::events::{self, EventQuery},
        bounces,
        contents::{self, Collection, deleted},
        oauth::consents,
        passkeys, sessions,
        sign_in::{browser_session, email_key::email_key},
        tokens::cli_tokens,
        workspaces::{self, received_invitations},
    },
    pagination::PageRequest,
    store::{
        self,
        browser_sessions::{BrowserSessionQuery, ListedBrowser},
        personal_data::{self, AccountData},
        personal_sign_ins::{self, LiveAt},
    },
};

/// The most entries on one page.
const ENTRIES_PER_PAGE: u16 = 250;
/// The bytes of contents on one page, as the database counts them. One content can be larger.
const BYTES_PER_PAGE: i64 = 250_000;
/// The most codes of one address in an export. An address gets far fewer in the minutes for which they are stored.
const MAX_CODES: i64 = 1_000;

/// A file of an export.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExportFile {
    pub(super) name: &'static str,
    /// What it holds, for its reader.
    pub(super) about: &'static str,
    holds: Holds,
}

#[derive(Clone, Copy, Debug)]
enum Holds {
    Account,
    Sessions,
    EndedSessions,
    Browsers,
    Devices,
    Codes,
    SignInReports,
    Identities,
    Passkeys,
    CliTokens,
    Apps,
    OwnClients,
    Confirmations,
    Workspaces,
    Memberships,
    ReceivedInvitations,
    SentInvitations,
    BlockedWorkspaces,
    Exports,
    Contents(Kind),
    DeletedContents(Kind),
    AuditEvents,
}

const fn file(name: &'static str, holds: Holds, about: &'static str) -> ExportFile {
    ExportFile { name, about, holds }
}

/// The files in the order in which they are written. `index.json` follows them.
pub(super) const FILES: [ExportFile; 30] = [
    file(
        "account.json",
        Holds::Account,
        "Your account: its email address, your name, and how you last signed in through your company.",
    ),
    file("sessions.json", Holds::Sessions, "Sessions that are signed in, as the API lists them."),
    file("ended-sessions.json", Holds::EndedSessions, "Sessions that have ended and are not deleted yet."),
    file("browsers.json", Holds::Browsers, "Browsers in which you are signed in."),
    file(
        "devices.json",
        Holds::Devices,
        "Browsers and commands on which you have signed in before. Their secrets are not stored.",
    ),
    file(
        "codes.json",
        Holds::Codes,
        "Sign-in codes that were sent to you in the last minutes. The codes are not stored.",
    ),
    file("sign-in-reports.json", Holds::SignInReports, "Sign-ins that you were mailed about in the last 7 days."),
    file("identities.json", Holds::Identities, "How identity providers of companies name you."),
    file(
        "passkeys.json",
        Holds::Passkeys,
        "Passkeys, as the API lists them. Their private keys are on your devices only.",
    ),
    file(
        "cli-tokens.json",
        Holds::CliTokens,
        "CLI tokens, as the API lists them. The tokens themselves are not stored.",
    ),
    file("apps.json", Holds::Apps, "Apps that have access to your account, as the API lists them."),
    file("own-clients.json", Holds::OwnClients, "What you agreed to for clients of this service."),
    file("confirmations.json", Holds::Confirmations, "Deletions that an app asked you to confirm in the last minutes."),
    file("workspaces.json", Holds::Workspaces, "Workspaces that you are a member of, as the API lists them."),
    file(
        "memberships.json",
        Holds::Memberships,
        "Since when you are a member of workspaces, and memberships that have ended.",
    ),
    file("received-invitations.json", Holds::ReceivedInvitations, "Invitations to you, as the API lists them."),
    file("sent-invitations.json", Holds::SentInvitations, "Invitations that you sent and that were not accepted yet."),
    file(
        "blocked-workspaces.json",
        Holds::BlockedWorkspaces,
        "Workspaces whose invitations you blocked, as the API lists them.",
    ),
    file("account-exports.json", Holds::Exports, "Exports of your data that you started in the last hour."),
    file(
        "contents/projects.json",
        Holds::Contents(Kind::Project),
        "Projects in your personal space, as the API lists them.",
    ),
    file("contents/packs.json", Holds::Contents(Kind::Pack), "Packs in your personal space, as the API lists them."),
    file(
        "contents/playbooks.json",
        Holds::Contents(Kind::Playbook),
        "Playbooks in your personal space, as the API lists them.",
    ),
    file("contents/cases.json", Holds::Contents(Kind::Case), "Cases in your personal space, as the API lists them."),
    file(
        "contents/records.json",
        Holds::Contents(Kind::Record),
        "Records in your personal space, as the API lists them.",
    ),
    file(
        "deleted/projects.json",
        Holds::DeletedContents(Kind::Project),
        "Projects that you can still restore, in full.",
    ),
    file("deleted/packs.json", Holds::DeletedContents(Kind::Pack), "Packs that you can still restore, in full."),
    file(
        "deleted/playbooks.json",
        Holds::DeletedContents(Kind::Playbook),
        "Playbooks that you can still restore, in full.",
    ),
    file("deleted/cases.json", Holds::DeletedContents(Kind::Case), "Cases that you can still restore, in full."),
    file("deleted/records.json", Holds::DeletedContents(Kind::Record), "Records that you can still restore, in full."),
    file(
        "audit-events.json",
        Holds::AuditEvents,
        "What happened to your account, as the API lists it, the latest first.",
    ),
];

/// Entries of a file, written as JSON.
#[derive(Default)]
pub(super) struct WrittenPage {
    /// The entries, with a comma and a line end between two.
    pub(super) json: Vec<u8>,
    pub(super) entries: u32,
    /// Where the next page begins. `None`: this is the last one.
    pub(super) next: Option<String>,
}

impl ExportFile {
    /// Whether it holds one object rather than a list.
    pub(super) const fn is_object(&self) -> bool {
        matches!(self.holds, Holds::Account)
    }

    /// Reads the page of the file that begins at a cursor.
    pub(super) async fn page(&self, app: &App, actor: &Actor<'_>, cursor: Option<&str>) -> anyhow::Result<WrittenPage> {
        let page = PageRequest { limit: ENTRIES_PER_PAGE, cursor };
        match self.holds {
            Holds::Sessions => {
                let found = sessions::list(app, actor, page).await?;
                write(&found.data, found.next_cursor)
            }
            Holds::Passkeys => write_page(passkeys::list(app, actor).await?),
            Holds::CliTokens => {
                let listed = cli_tokens::list(app, actor.user_id, StatusFilter::All, page.limit, cursor);
                write_page(listed.await?)
            }
            Holds::Apps => write_page(consents::list(app, actor.user_id, page.limit, cursor).await?),
            Holds::Workspaces => write_page(workspaces::list(app, actor, page).await?),
            Holds::ReceivedInvitations => write_page(received_invitations::list(app, actor, page).await?),
            Holds::BlockedWorkspaces => write_page(received_invitations::list_blocked(app, actor, page).await?),
            Holds::AuditEvents => {
                let query = EventQuery { event: None, about: None, since: None, until: None, page };
                write_page(events::list(app, actor.user_id, Space::Personal, &query).await?)
            }
            Holds::Contents(kind) => {
                let collection = Collection { kind, space: Space::Personal };
                write_page(contents::list(app, actor, collection, page, BYTES_PER_PAGE).await?)
            }
            Holds::DeletedContents(kind) => {
                let collection = Collection { kind, space: Space::Personal };
                write_page(deleted::list_in_full(app, actor, collection, page, BYTES_PER_PAGE).await?)
            }
            _ => self.page_of_store(app, actor, cursor).await,
        }
    }

    /// Reads a page of what no list of the API shows.
    async fn page_of_store(&self, app: &App, actor: &Actor<'_>, cursor: Option<&str>) -> anyhow::Result<WrittenPage> {
        let (user_id, now) = (actor.user_id, app.clock.now());
        let (after, limit) = (cursor.map(str::parse::<Uuid>).transpose()?, i64::from(ENTRIES_PER_PAGE));
        let db = app.database.connect().await?;
        match self.holds {
            Holds::Account => {
                drop(db);
                write(&[account(app, actor).await?], None)
            }
            Holds::EndedSessions => {
                let live = LiveAt { now, used_after: rotation::idle_since(now) };
                let after = after.unwrap_or_default();
                let found = personal_sign_ins::list_ended_sessions(&db, user_id, live, after, limit).await?;
                write_after(&found, |session| session.id.uuid())
            }
            Holds::Browsers => {
                let seen_since = browser_session::idle_since(now);
                let before = after.map(BrowserSessionId::from);
                let query = BrowserSessionQuery { now, seen_since, before, limit };
                let found = store::browser_sessions::list_by_user(&db, user_id, &query).await?;
                let found: Vec<_> = found.iter().map(BrowserData::of).collect();
                write_after(&found, |browser| browser.listed.id.uuid())
            }
            Holds::Devices => write(&personal_sign_ins::list_devices(&db, user_id).await?, None),
            Holds::SignInReports => write(&personal_sign_ins::list_sign_in_reports(&db, user_id).await?, None),
            Holds::Identities => write(&personal_sign_ins::list_identities(&db, user_id).await?, None),
            Holds::OwnClients => write(&personal_data::list_own_clients(&db, user_id).await?, None),
            Holds::Confirmations => write(&personal_data::list_confirmations(&db, user_id).await?, None),
            Holds::Exports => {
                let found = store::account_exports::list_by_user(&db, user_id, now).await?;
                let found: Vec<_> = found.iter().map(|export| ExportData::of(export, now)).collect();
                write(&found, None)
            }
            Holds::Memberships => {
                let found = personal_data::list_memberships(&db, user_id, after.unwrap_or_default(), limit).await?;
                write_after(&found, |membership| membership.workspace_id.uuid())
            }
            Holds::SentInvitations => {
                let found =
                    personal_data::list_sent_invitations(&db, user_id, after.unwrap_or_default(), limit).await?;
                write_after(&found, |invitation| invitation.id.uuid())
            }
            Holds::Codes => {
                let address = store::users::find_address(&db, user_id).await?;
                let address = address.ok_or_else(|| anyhow::anyhow!("the user does not exist"))?;
                let email = email_key(app, &db, &address).await?;
                write(&personal_sign_ins::list_codes(&db, email, MAX_CODES).await?, None)
            }
            _ => anyhow::bail!("{} is read elsewhere", self.name),
        }
    }
}

async fn account(app: &App, actor: &Actor<'_>) -> anyhow::Result<AccountData> {
    let user_id = actor.user_id;
    let db = app.database.connect().await?;
    let user = store::users::find(&db, user_id).await?.ok_or_else(|| anyhow::anyhow!("the user does not exist"))?;
    let address = store::users::find_address(&db, user_id).await?;
    let email_verified_at = match &address {
        Some(address) => personal_data::find_email_verified_at(&db, email_key(app, &db, address).await?).await?,
        None => None,
    };
    Ok(AccountData {
        id: user_id,
        created_at: user.created_at,
        email_verified_at,
        mail_suppressed_until: bounces::suppressed_until(app, &db, &user.email).await?,
        email: user.email,
        name: user.name,
        requires_passkey: user.requires_passkey,
        passkey_removal_due_at: store::passkey_recoveries::find(&db, user_id).await?,
        address_change: store::address_changes::find(&db, user_id, app.clock.now()).await?.map(Into::into),
        recovery_codes: store::recovery_codes::find(&db, user_id).await?,
        single_sign_on: personal_data::find_last_connection(&db, user_id).await?,
    })
}

/// A browser as the API lists it, with what the account page shows of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BrowserData {
    #[serde(flatten)]
    listed: SignedInBrowser,
    /// The browser and the system that the user signed in with.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_in_from: Option<String>,
}

impl BrowserData {
    fn of(browser: &ListedBrowser) -> Self {
        let ListedBrowser { id, signed_in_at, last_seen_at, origin } = *browser;
        Self {
            listed: SignedInBrowser { id, signed_in_at, last_used_at: last_seen_at },
            agent: (origin.agent != UserAgent::default()).then(|| origin.agent.to_stored()),
            signed_in_from: origin.address.map(|address| address.to_string()),
        }
    }
}

/// An export as the API shows it, with the session that started it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportData {
    #[serde(flatten)]
    shown: AccountExport,
    started_by: String,
}

impl ExportData {
    fn of(export: &store::account_exports::StoredExport, now: Timestamp) -> Self {
        Self { shown: view(export, now), started_by: export.session_id.clone() }
    }
}

fn write_page<T: Serialize>(page: Page<T>) -> anyhow::Result<WrittenPage> {
    write(&page.data, page.next_cursor)
}

/// Writes a page of rows in the order of their ids, the last of which is where the next page begins.
fn write_after<T: Serialize>(rows: &[T], id: impl Fn(&T) -> Uuid) -> anyhow::Result<WrittenPage> {
    let is_full = rows.len() >= usize::from(ENTRIES_PER_PAGE);
    write(rows, rows.last().filter(|_| is_full).map(|last| id(last).to_string()))
}

fn write<T: Serialize>(entries: &[T], next: Option<String>) -> anyhow::Result<WrittenPage> {
    let mut json = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        if place > 0 {
            json.extend_from_slice(b",\n");
        }
        serde_json::to_writer(&mut json, entry)?;
    }
    Ok(WrittenPage { json, entries: u32::try_from(entries.len())?, next })
}
