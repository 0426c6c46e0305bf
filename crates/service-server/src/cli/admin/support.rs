//! `serviced admin` for operators who help a user: the account, one session, limits on sign-in, waiting mail.

use std::{
    fs::{File, OpenOptions},
    future::poll_fn,
    io::Write as _,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::Context as _;
use clap::Subcommand;
use serde::Serialize;
use service_api::{Timestamp, audit_events::AuditEvent, ids::UserId, sessions::SessionPage};

use super::parse_address;
use crate::{
    app::App,
    cli::{output::say, progress::show_while},
    flows::support::{
        SupportError, SupportOperator,
        limits::{self, LimitedBy, ShownLimit},
        mails::{self, Resent, ShownMail},
        sessions,
        users::{self, ShownUser},
    },
};

/// What a command prints for programs.
#[derive(clap::Args)]
pub(crate) struct OutputOptions {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// A command that looks at the account of a user.
#[derive(clap::Args)]
pub(crate) struct UserOptions {
    /// Email address, or the ID of a user, a session (grant_…) or a CLI token (clit_…)
    whom: String,
    #[command(flatten)]
    output: OutputOptions,
}

#[derive(Subcommand)]
pub(crate) enum SessionCommand {
    /// Revoke a session (grant_…), a browser (sess_…) or a CLI token (clit_…), and what it made in the last 31 days
    Revoke {
        id: String,
        #[command(flatten)]
        output: OutputOptions,
    },
}

#[derive(Subcommand)]
pub(crate) enum LimitCommand {
    /// Show how much of the limits on sign-in is used
    Show(LimitOptions),
    /// Forget what was counted for an address, and with --from in the networks around it; not for known devices
    Reset(LimitOptions),
}

#[derive(clap::Args)]
pub(crate) struct LimitOptions {
    /// Email address or network address
    whom: String,
    /// Network address that the user signs in from, whose limits count too
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    #[command(flatten)]
    output: OutputOptions,
}

#[derive(Subcommand)]
pub(crate) enum OutboxCommand {
    /// List mail that waits to be sent, the newest first; never its text
    List {
        /// Only mail to this address
        #[arg(long, value_name = "ADDRESS")]
        to: Option<String>,
        /// How many
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        limit: u16,
        #[command(flatten)]
        output: OutputOptions,
    },
    /// Send waiting mail at once, instead of at its next attempt
    Resend {
        /// ID of a mail, as `list` shows it
        #[arg(required_unless_present = "all")]
        id: Option<String>,
        /// Send all of it
        #[arg(long, conflicts_with = "id")]
        all: bool,
        #[command(flatten)]
        output: OutputOptions,
    },
}

impl OutputOptions {
    /// Prints the value as JSON, or the text that describes it.
    fn print<T: Serialize>(&self, value: &T, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        say(&if self.json { serde_json::to_string(value)? } else { text() });
        Ok(())
    }
}

pub(super) async fn find(app: &App, operator: &SupportOperator, options: &UserOptions) -> anyhow::Result<()> {
    let found = users::find(app, operator, &options.whom).await.map_err(or_no_user)?;
    let state = if found.disabled { "disabled" } else { "enabled" };
    options.output.print(&found, || format!("{}  {state}  {}  since {:.0}", found.id, found.email, found.created_at))
}

pub(super) async fn show(app: &App, operator: &SupportOperator, options: &UserOptions) -> anyhow::Result<()> {
    let shown = users::show(app, operator, &options.whom).await.map_err(or_no_user)?;
    options.output.print(&shown, || account_text(&shown))
}

fn account_text(shown: &ShownUser) -> String {
    let user = &shown.user;
    let mut lines = vec![
        format!("User          {}", user.id),
        format!("Email         {}", user.email),
        format!("State         {}", describe_state(shown)),
        format!("Created       {:.0}", user.created_at),
        format!("Last sign-in  {}", when(shown.last_sign_in_at, "none recorded")),
        format!("Sessions      {}, and {} browsers", shown.sessions, shown.browsers),
        format!("CLI tokens    {}", shown.cli_tokens),
    ];
    lines.extend(
        shown.workspaces.iter().map(|workspace| {
            format!("Workspace     {}  {}  {}", workspace.id, workspace.role.as_str(), workspace.name)
        }),
    );
    lines.join("\n")
}

fn describe_state(shown: &ShownUser) -> String {
    match shown.erased_on {
        Some(erased_on) => format!("closed: will be erased after {erased_on:.0}"),
        None if shown.user.disabled => "disabled: sign-in is refused".to_owned(),
        None => "enabled".to_owned(),
    }
}

pub(super) async fn list_sessions(app: &App, operator: &SupportOperator, options: &UserOptions) -> anyhow::Result<()> {
    let page = users::sessions(app, operator, &options.whom).await.map_err(or_no_user)?;
    options.output.print(&page, || sessions_text(&page))
}

fn sessions_text(page: &SessionPage) -> String {
    let sessions = page.data.iter().map(|session| {
        let (id, client, from) = (session.id, &session.client.name, &session.last_used_from);
        format!(
            "{id}  {client}  {}  since {:.0}  used {:.0} from {from}",
            session.scopes, session.created_at, session.last_used_at
        )
    });
    let browsers = page.browsers.iter().map(|browser| {
        format!("{}  browser  since {:.0}  used {:.0}", browser.id, browser.signed_in_at, browser.last_used_at)
    });
    or_none(sessions.chain(browsers), "The user has no valid session.")
}

pub(super) async fn list_tokens(app: &App, operator: &SupportOperator, options: &UserOptions) -> anyhow::Result<()> {
    let tokens = users::cli_tokens(app, operator, &options.whom).await.map_err(or_no_user)?;
    options.output.print(&tokens, || {
        let lines = tokens.iter().map(|token| {
            let space = token.workspace_id.map_or_else(|| "personal".to_owned(), |id| id.to_string());
            let state = match token.revoked_at {
                Some(at) => format!("revoked {at:.0}"),
                None => format!("until {:.0}", token.expires_at),
            };
            let used = when(token.last_used_at, "never");
            format!("{}  …{}  {}  {}  {space}  {state}  used {used}", token.id, token.hint, token.name, token.scopes)
        });
        or_none(lines, "The user has no CLI token.")
    })
}

pub(super) async fn list_events(
    app: &App,
    operator: &SupportOperator,
    options: &UserOptions,
    limit: u16,
) -> anyhow::Result<()> {
    let events = users::events(app, operator, &options.whom, limit).await.map_err(or_no_user)?;
    options.output.print(&events, || or_none(events.iter().map(event_text), "The audit log has no event of the user."))
}

/// An export that was written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenExport<'a> {
    user_id: UserId,
    file: &'a Path,
    bytes: u64,
}

pub(super) async fn export(
    app: &App,
    operator: &SupportOperator,
    options: &UserOptions,
    to: &Path,
) -> anyhow::Result<()> {
    // Opened first: reading the account is an event in the audit log, and what is read must have a place.
    let place = || format!("could not write {}", to.display());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).with_context(place)?;
    let bytes = AtomicU64::new(0);
    let writing = write_export(app, operator, &options.whom, &mut file, &bytes);
    let written = show_while(writing, || format!("{} bytes", bytes.load(Ordering::Relaxed))).await;
    let user_id = match written {
        Ok(user_id) => user_id,
        Err(error) => {
            drop(file);
            drop(std::fs::remove_file(to));
            return Err(error);
        }
    };
    let written = WrittenExport { user_id, file: to, bytes: bytes.into_inner() };
    options.output.print(&written, || {
        format!("Wrote what is stored about {user_id} to {}: {} bytes.", to.display(), written.bytes)
    })
}

async fn write_export(
    app: &App,
    operator: &SupportOperator,
    whom: &str,
    file: &mut File,
    bytes: &AtomicU64,
) -> anyhow::Result<UserId> {
    let (user_id, mut body) = users::export(app, operator, whom).await.map_err(or_no_user)?;
    while let Some(piece) = poll_fn(|context| body.pieces.poll_next(context)).await {
        let piece = piece.context("could not read everything; nothing was written")?;
        file.write_all(&piece)?;
        bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
    file.sync_all()?;
    Ok(user_id)
}

fn event_text(event: &AuditEvent) -> String {
    let about = [event.subject.as_deref(), event.client_id.as_deref(), event.address.as_deref()];
    let about = about.into_iter().flatten().collect::<Vec<_>>().join("  ");
    let reason = event.details.get("reason").and_then(|reason| reason.as_str()).unwrap_or_default();
    format!("{:.0}  {}  {about}  {reason}", event.at, event.event).trim_end().to_owned()
}

pub(super) async fn session(app: &App, operator: &SupportOperator, command: &SessionCommand) -> anyhow::Result<()> {
    let SessionCommand::Revoke { id, output } = command;
    let done = sessions::revoke(app, operator, id).await.map_err(|error| match error {
        SupportError::NotFound => anyhow::anyhow!("{id} was not found, or is revoked already"),
        SupportError::NotAName(_) => {
            anyhow::anyhow!("{id} is not the ID of a session (grant_…), a browser (sess_…) or a CLI token (clit_…)")
        }
        error => error.into(),
    })?;
    output.print(&done, || {
        let mut lines = vec![format!("Revoked {id}. Nodes reject its tokens within a second.")];
        lines.extend(done.revoked_too.iter().map(|id| format!("Revoked too, because it made it: {id}")));
        lines.extend(done.kept.iter().map(|id| format!("Still valid, made more than 31 days ago: {id}")));
        lines.join("\n")
    })
}

pub(super) async fn limit(app: &App, operator: &SupportOperator, command: &LimitCommand) -> anyhow::Result<()> {
    let (LimitCommand::Show(options) | LimitCommand::Reset(options)) = command;
    let whose = LimitedBy::parse(&options.whom, options.from).map_err(|error| match error {
        SupportError::FromWithNetwork => anyhow::anyhow!("--from is for email addresses"),
        error => error.into(),
    })?;
    if let LimitCommand::Reset(_) = command {
        let done = limits::reset(app, operator, &whose).await?;
        return options.output.print(&done, || {
            "Reset. With --from, the networks around that address are reset too, for all users there. Not included: limits \
             of devices that the user signed in on before, and the minute between two codes."
                .to_owned()
        });
    }
    let shown = limits::show(app, operator, &whose).await?;
    options.output.print(&shown, || or_none(shown.iter().map(limit_text), "There are no limits."))
}

fn limit_text(shown: &ShownLimit) -> String {
    let network = shown.network.as_ref().map_or_else(String::new, |network| format!(" of {network}"));
    let wait = match shown.state.retry_after {
        Some(seconds) => format!("REACHED, open again in {seconds} s"),
        None => "open".to_owned(),
    };
    format!("{}{network}  {:.0} % used  {wait}", shown.limit, shown.state.used * 100.0)
}

pub(super) async fn mail(app: &App, operator: &SupportOperator, command: &OutboxCommand) -> anyhow::Result<()> {
    match command {
        OutboxCommand::List { to, limit, output } => {
            let to = to.as_deref().map(parse_address).transpose()?;
            let shown = mails::list(app, operator, to.as_ref(), *limit).await?;
            output.print(&shown, || or_none(shown.iter().map(mail_text), "No mail waits."))
        }
        OutboxCommand::Resend { id, output, .. } => {
            let which = Resent::parse(id.as_deref())?;
            let resent = mails::resend(app, operator, &which).await.map_err(|error| match error {
                SupportError::NotFound => anyhow::anyhow!("no such mail waits: it was sent, or was too old"),
                error => error.into(),
            })?;
            output.print(&resent, || {
                format!("Mails that are sent within a second, if the mail server answers: {}", resent.mails)
            })
        }
    }
}

fn mail_text(mail: &ShownMail) -> String {
    let ShownMail { id, kind, to, attempts, next_attempt_at, drop_at } = mail;
    format!("{id}  {kind}  to {to}  attempts: {attempts}, next {next_attempt_at:.0}, until {drop_at:.0}")
}

fn when(at: Option<Timestamp>, never: &str) -> String {
    at.map_or_else(|| never.to_owned(), |at| format!("{at:.0}"))
}

fn or_none(lines: impl Iterator<Item = String>, none: &str) -> String {
    let text = lines.collect::<Vec<_>>().join("\n");
    if text.is_empty() { none.to_owned() } else { text }
}

fn or_no_user(error: SupportError) -> anyhow::Error {
    match error {
        SupportError::NotFound => anyhow::anyhow!("user not found"),
        error => error.into(),
    }
}
