//! `serviced admin`: administration of users, members, workspaces and clients, and of the whole service.

mod support;
mod support_clients;
mod workspaces;

use std::{cell::Cell, path::Path};

use anyhow::Context as _;
use clap::Subcommand;
use service_api::ids::WorkspaceId;
use service_rules::email::Address;

use crate::{
    app::App,
    cli::{output::say, progress::show_while},
    database::migrations,
    flows::{
        account::deletion::by_operator::{self, EraseUserError},
        audit::{
            sealing,
            verification::{self, Position},
        },
        clients::{self, blocked_hosts},
        operations::finish_restore::{self, CopiedEvent},
        operator::Operator,
        revocation::{self, RevocationError},
        sso::connections,
        support::SupportOperator,
    },
    http::errors::api::describe_needed,
};

#[derive(Subcommand)]
pub(crate) enum AdminCommand {
    /// Look at, export, disable, enable, sign out and erase users
    #[command(subcommand)]
    User(UserCommand),
    /// Revoke one session, browser or CLI token
    #[command(subcommand)]
    Session(support::SessionCommand),
    /// Show and reset the limits on sign-in of an email address or a network
    #[command(subcommand)]
    Limit(support::LimitCommand),
    /// List mail that waits, and send it again
    #[command(subcommand)]
    Mail(support::OutboxCommand),
    /// Create, list and revoke clients of the support listener
    #[command(subcommand)]
    SupportClient(support_clients::SupportClientCommand),
    /// Remove members of a workspace
    #[command(subcommand)]
    Member(MemberCommand),
    /// Delete workspaces, and stop their passkey requirement, by ID
    #[command(subcommand)]
    Workspace(workspaces::WorkspaceCommand),
    /// Create, list, disable and block OAuth clients
    #[command(subcommand)]
    Client(ClientCommand),
    /// List and disable connections of workspaces to identity providers
    #[command(subcommand)]
    Connection(ConnectionCommand),
    /// Verify the audit log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Finish the restore of a database from a backup
    #[command(subcommand)]
    Restore(RestoreCommand),
    /// Revoke every session of every user at once
    #[command(subcommand)]
    Epoch(EpochCommand),
}

#[derive(Subcommand)]
pub(crate) enum UserCommand {
    /// Find a user by email address, or by the ID of a session or token that a log names
    Find(support::UserOptions),
    /// Show the state of an account, its workspaces, and how many sessions and tokens it has
    Show(support::UserOptions),
    /// List the valid sessions of a user
    Sessions(support::UserOptions),
    /// List the CLI tokens of a user, also revoked and expired ones
    Tokens(support::UserOptions),
    /// List the newest audit events of a user
    Events {
        #[command(flatten)]
        options: support::UserOptions,
        /// How many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        limit: u16,
    },
    /// Write everything that is stored about a user to a ZIP file, as the user could export it
    Export {
        #[command(flatten)]
        options: support::UserOptions,
        /// File to write; it must not exist
        #[arg(long, value_name = "FILE")]
        to: std::path::PathBuf,
    },
    /// Disable a user: revoke all sessions and tokens, and refuse sign-in
    Disable { address: String },
    /// Enable a disabled user
    Enable { address: String },
    /// Revoke all sessions of a user and forget their devices; the user can sign in again
    SignOut { address: String },
    /// Close an account, and erase it after 24 hours
    Erase {
        address: String,
        /// Stop an erasure that an operator requested; the account stays disabled
        #[arg(long)]
        stop: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum MemberCommand {
    /// Remove a user from a workspace
    Remove { address: String, workspace: String },
}

#[derive(Subcommand)]
pub(crate) enum ClientCommand {
    /// Create a client; its secret, if it has one, is shown once
    Create {
        /// Name that users see
        name: String,
        /// Redirect URI, https (repeatable)
        #[arg(long = "redirect-uri", value_name = "URI")]
        redirect_uris: Vec<String>,
        /// Create a secret, with which the client authenticates
        #[arg(long, conflicts_with = "jwks")]
        secret: bool,
        /// File with the public keys (JWKS) of a client that authenticates with signed assertions
        #[arg(long, value_name = "FILE")]
        jwks: Option<std::path::PathBuf>,
        /// Allow the client to introspect any token at /oauth/introspect
        #[arg(long)]
        introspect: bool,
    },
    /// List all clients
    List,
    /// Disable a client, and revoke its access tokens
    Disable { id: String },
    /// Enable a disabled client
    Enable { id: String },
    /// Revoke every session of a client; its users can sign in again. CLI tokens stay valid
    RevokeSessions { id: String },
    /// Refuse self-registered clients at a host and its subdomains, and disable existing ones
    BlockHost { host: String },
    /// Allow self-registered clients at a host again; disabled ones stay disabled
    UnblockHost { host: String },
    /// List blocked hosts
    BlockedHosts,
    /// Replace the redirect URIs of a client
    SetRedirectUris {
        id: String,
        #[arg(required = true, value_name = "URI")]
        redirect_uris: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum ConnectionCommand {
    /// List the connections of a workspace, by its ID
    List { workspace: String },
    /// Disable a connection: users of its domains sign in by email code again
    Disable { id: String },
}

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Check whether audit events were changed, removed, added or moved after they were recorded
    Verify {
        /// Anchor that an earlier run printed, such as 412:9f3c…; a truncated chain no longer contains it
        #[arg(long, value_name = "NUMBER:MAC")]
        anchor: Option<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum RestoreCommand {
    /// Revoke all sessions and tokens, replay changes from after the backup, and let nodes serve requests again
    Finish {
        /// File with the audit events from after the backup, one JSON object per line, to replay
        #[arg(long, value_name = "FILE", required_unless_present_any = ["no_audit_copy", "nothing_was_lost"])]
        audit_copy: Option<std::path::PathBuf>,
        /// Finish without replaying: you repeat the changes from after the backup by hand
        #[arg(long, conflicts_with = "audit_copy")]
        no_audit_copy: bool,
        /// Revoke nothing, because the database lost nothing, as after an upgrade of PostgreSQL
        #[arg(long, conflicts_with_all = ["audit_copy", "no_audit_copy"])]
        nothing_was_lost: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum EpochCommand {
    /// Revoke every session of every user
    Bump,
}

pub(crate) async fn run(command: &AdminCommand, app: &App, operator: Operator) -> anyhow::Result<()> {
    migrations::check(&app.config.database).await?;
    sealing::check_numbering(app).await?;
    match command {
        AdminCommand::User(command) => user(command, app, operator).await,
        AdminCommand::Session(command) => support::session(app, &with_reason(operator)?, command).await,
        AdminCommand::Limit(command) => support::limit(app, &with_reason(operator)?, command).await,
        AdminCommand::Mail(command) => support::mail(app, &with_reason(operator)?, command).await,
        AdminCommand::SupportClient(command) => support_clients::run(app, operator, command).await,
        AdminCommand::Member(MemberCommand::Remove { address, workspace }) => {
            let (address, workspace) = (parse_address(address)?, parse_workspace(workspace)?);
            let db = app.database.connect().await?;
            let found = revocation::find_user(app, &db, &address).await;
            let user_id = found.map_err(|error| or_nothing(error, "member not found"))?;
            drop(db);
            let removed = revocation::remove_member(app, &operator, user_id, workspace).await;
            removed.map_err(|error| or_nothing(error, "member not found"))?;
            say(&format!("Removed {user_id} from {workspace}. Nodes reject their tokens for it within a second."));
            Ok(())
        }
        AdminCommand::Workspace(command) => workspaces::run(command, app, &operator).await,
        AdminCommand::Client(command) => client(command, app, &operator).await,
        AdminCommand::Connection(command) => connection(command, app, &operator).await,
        AdminCommand::Audit(AuditCommand::Verify { anchor }) => verify_audit(app, anchor.as_deref()).await,
        AdminCommand::Restore(RestoreCommand::Finish { audit_copy, nothing_was_lost, .. }) => {
            let copy = audit_copy.as_ref().map(std::fs::read_to_string).transpose();
            let copy = copy.map_err(|error| anyhow::anyhow!("cannot read the copy: {error}"))?.unwrap_or_default();
            let events = finish_restore::read_copy(&copy)?;
            let events = (!nothing_was_lost).then_some(events.as_slice());
            finish_restore(app, &operator, events).await
        }
        AdminCommand::Epoch(EpochCommand::Bump) => {
            let epoch = revocation::bump_epoch(app, &operator).await?;
            say(&format!(
                "Revoked every session from before {epoch:.0}. All users have to sign in again after that time."
            ));
            Ok(())
        }
    }
}

/// Returns the operator for the audit log: named as given, or as the system account, with the reason that was given.
pub(crate) fn operator(name: Option<&str>, reason: Option<&str>) -> anyhow::Result<Operator> {
    let operator = match name {
        Some(name) => Operator::new(name).context("--operator is empty, too long, or not plain text")?,
        None => ["SUDO_USER", "LOGNAME", "USER"]
            .iter()
            .find_map(|name| Operator::new(std::env::var_os(name)?.to_str()?))
            .unwrap_or_default(),
    };
    match reason {
        Some(reason) => operator.because(reason).context("--reason is empty, too long, or not plain text"),
        None => Ok(operator),
    }
}

/// Commands that look at users, or change what they did not ask for, need a reason.
fn with_reason(operator: Operator) -> anyhow::Result<SupportOperator> {
    SupportOperator::new(operator)
        .context("this command needs --reason, such as --reason \"ticket 4711\": the audit log records it")
}

async fn client(command: &ClientCommand, app: &App, operator: &Operator) -> anyhow::Result<()> {
    match command {
        ClientCommand::Create { .. } => create_client(command, app, operator).await?,
        ClientCommand::List => list_clients(app).await?,
        ClientCommand::Disable { id } => {
            anyhow::ensure!(clients::disable(app, operator, id).await?, "client not found, or already disabled");
            say(&format!("Disabled {id}. It gets no new tokens, and nodes reject its tokens within a second."));
        }
        ClientCommand::Enable { id } => {
            anyhow::ensure!(clients::enable(app, operator, id).await?, "client not found, or not disabled");
            say(&format!("Enabled {id}."));
        }
        ClientCommand::RevokeSessions { id } => {
            let revoked = clients::revoke_sessions(app, operator, id).await?;
            let revoked = revoked.ok_or_else(|| anyhow::anyhow!("client not found"))?;
            say(&format!("Revoked {revoked} sessions of {id}. Nodes reject its tokens within a second."));
        }
        ClientCommand::SetRedirectUris { id, redirect_uris } => {
            anyhow::ensure!(clients::set_redirect_uris(app, operator, id, redirect_uris).await?, "client not found");
            say(&format!("Replaced the redirect URIs of {id}."));
        }
        ClientCommand::BlockHost { host } => {
            let disabled = blocked_hosts::block(app, operator, host).await?;
            say(&format!("Blocked {host} for self-registered clients, and disabled {disabled} existing ones."));
        }
        ClientCommand::UnblockHost { host } => {
            anyhow::ensure!(blocked_hosts::unblock(app, operator, host).await?, "{host} is not blocked");
            say(&format!("Unblocked {host}. Self-registered clients can use it again."));
        }
        ClientCommand::BlockedHosts => {
            for (host, by) in blocked_hosts::list(app).await? {
                say(&format!("{host}  blocked by {by}"));
            }
        }
    }
    Ok(())
}

async fn connection(command: &ConnectionCommand, app: &App, operator: &Operator) -> anyhow::Result<()> {
    match command {
        ConnectionCommand::List { workspace } => {
            for connection in connections::list_for_operator(app, parse_workspace(workspace)?).await? {
                let state = match (connection.enabled, connection.required) {
                    (_, true) => "required",
                    (true, false) => "enabled",
                    (false, false) => "disabled",
                };
                say(&format!("{}  {state}  {}  {}", connection.id, connection.name, connection.issuer));
            }
        }
        ConnectionCommand::Disable { id } => {
            let id = id.parse().map_err(|_| anyhow::anyhow!("{id} is not a connection ID, such as conn_01h2…"))?;
            let disabled = connections::disable(app, operator, id).await?;
            anyhow::ensure!(disabled, "connection not found, or not enabled");
            say(&format!("Disabled {id}. Users of its domains sign in by email code."));
        }
    }
    Ok(())
}

async fn create_client(command: &ClientCommand, app: &App, operator: &Operator) -> anyhow::Result<()> {
    let ClientCommand::Create { name, redirect_uris, secret, jwks, introspect } = command else { return Ok(()) };
    let wanted = clients::ClientToRegister {
        name: name.clone(),
        redirect_uris: redirect_uris.clone(),
        with_secret: *secret || (*introspect && jwks.is_none()),
        jwks: jwks.as_deref().map(read_json).transpose()?,
        may_introspect: *introspect,
        operator: operator.clone(),
    };
    let made = clients::create(app, &wanted).await?;
    say(&format!("client_id: {}", made.id));
    if let Some(secret) = &made.secret {
        say(&format!("client_secret: {}", secret.expose()));
        say("Store the secret now: it cannot be shown again.");
    }
    Ok(())
}

/// Reads a file of public keys.
fn read_json(path: &Path) -> anyhow::Result<serde_json::Value> {
    let text = std::fs::read(path).map_err(|_| anyhow::anyhow!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).map_err(|_| anyhow::anyhow!("{} is not JSON", path.display()))
}

async fn list_clients(app: &App) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let page = clients::list(app, after.as_deref()).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.id.clone());
        for client in &page {
            let state = if client.disabled { "disabled" } else { "enabled" };
            let redirect_uris = client.redirect_uris.join(" ");
            say(&format!("{}  {state}  {:?}  {}  {redirect_uris}", client.id, client.kind, client.name));
        }
    }
}

async fn finish_restore(app: &App, operator: &Operator, events: Option<&[CopiedEvent]>) -> anyhow::Result<()> {
    let finished = finish_restore::finish(app, operator, events).await?;
    let finished = finished.ok_or_else(|| anyhow::anyhow!("there is no restore to finish"))?;
    for (event, count) in &finished.replayed {
        say(&format!("Replayed {event}: {count}"));
    }
    if let Some(epoch) = finished.epoch {
        say(&format!("Revoked every session and token from before {epoch:.0}. All users have to sign in again."));
    }
    say("The restore is finished. Nodes serve requests again within seconds.");
    Ok(())
}

async fn verify_audit(app: &App, anchor: Option<&str>) -> anyhow::Result<()> {
    let position = Cell::new(Position::default());
    let verifying = verification::verify(app, anchor, |reached| position.set(reached));
    let report = show_while(verifying, || position.get().to_string()).await?;
    for (date, month) in &report.months {
        let kept = format!("{} events under {} seals", month.events, month.seals);
        let state = if month.dropped.is_some() { "deleted after its retention period" } else { &kept };
        say(&format!("{}  {state}", date.strftime("%Y-%m")));
    }
    let problems = report.problems.len();
    for problem in &report.problems {
        say(&format!("PROBLEM: {problem}"));
    }
    anyhow::ensure!(problems == 0, "the audit log failed verification: {problems} problems");
    match report.youngest {
        None => say("There are no sealed audit events yet."),
        Some(seal) => say(&format!(
            "The audit log is intact up to seal {} of {:.0}.\n\
             Store this outside of the database, for the next run: --anchor {}",
            seal.number,
            seal.sealed_at,
            seal.anchor()
        )),
    }
    Ok(())
}

async fn user(command: &UserCommand, app: &App, operator: Operator) -> anyhow::Result<()> {
    match command {
        UserCommand::Find(options) => support::find(app, &with_reason(operator)?, options).await?,
        UserCommand::Show(options) => support::show(app, &with_reason(operator)?, options).await?,
        UserCommand::Sessions(options) => support::list_sessions(app, &with_reason(operator)?, options).await?,
        UserCommand::Tokens(options) => support::list_tokens(app, &with_reason(operator)?, options).await?,
        UserCommand::Events { options, limit } => {
            support::list_events(app, &with_reason(operator)?, options, *limit).await?;
        }
        UserCommand::Export { options, to } => support::export(app, &with_reason(operator)?, options, to).await?,
        UserCommand::Disable { address } => {
            let disabled = revocation::disable_user(app, &operator, &parse_address(address)?).await;
            let id = disabled
                .map_err(|error| or_nothing(error, "user not found, or already disabled with no erasure pending"))?;
            say(&format!("Disabled {id}. Nodes reject their tokens within a second."));
        }
        UserCommand::Enable { address } => {
            let enabled = revocation::enable_user(app, &operator, &parse_address(address)?).await;
            let id = enabled.map_err(|error| or_nothing(error, "user not found, or not disabled"))?;
            say(&format!("Enabled {id}. They can sign in again. Their old sessions and tokens stay revoked."));
        }
        UserCommand::Erase { address, stop } => erase_user(app, operator, &parse_address(address)?, *stop).await?,
        UserCommand::SignOut { address } => {
            let signed_out = revocation::sign_out_user(app, &operator, &parse_address(address)?).await;
            let id = signed_out.map_err(|error| or_nothing(error, "user not found"))?;
            say(&format!(
                "Signed {id} out everywhere and forgot their devices. Their CLI tokens still work: to revoke them too, use \
                 `user disable`."
            ));
        }
    }
    Ok(())
}

async fn erase_user(app: &App, operator: Operator, address: &Address, stop: bool) -> anyhow::Result<()> {
    let operator = with_reason(operator)?.into_operator();
    if stop {
        let stopped = by_operator::stop_erasure(app, &operator, address).await;
        let nothing = "no erasure by an operator is pending for this user. `user enable` stops a deletion that the user requested";
        let id = stopped.map_err(|error| or_nothing(error, nothing))?;
        say(&format!("Stopped the erasure of {id}. The account stays disabled: to open it, use `user enable`."));
        return Ok(());
    }
    match by_operator::erase_user(app, &operator, address).await {
        Ok((id, due_at)) => {
            say(&format!(
                "Closed {id}. The account will be erased after {due_at:.0}. Until then, `user erase --stop` stops it."
            ));
            Ok(())
        }
        Err(EraseUserError::Needed(workspaces)) => {
            anyhow::bail!("{} `serviced admin workspace delete` deletes a workspace.", describe_needed(&workspaces))
        }
        Err(EraseUserError::NothingToErase) => anyhow::bail!("user not found, or already being erased"),
        Err(error) => Err(error.into()),
    }
}

/// The error of a command, with this text if there was nothing to revoke.
fn or_nothing(error: RevocationError, nothing: &'static str) -> anyhow::Error {
    match error {
        RevocationError::NothingToRevoke => anyhow::anyhow!(nothing),
        error => error.into(),
    }
}

fn parse_address(text: &str) -> anyhow::Result<Address> {
    Address::parse(text).map_err(|_| anyhow::anyhow!("{text} is not an email address"))
}

fn parse_workspace(text: &str) -> anyhow::Result<WorkspaceId> {
    text.parse().map_err(|_| anyhow::anyhow!("{text} is not a workspace ID, such as wsp_01h2…"))
}
