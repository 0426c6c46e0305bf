//! `serviced admin`: administration of users, members, workspaces and clients, and of the whole service.

use clap::Subcommand;
use service_api::ids::WorkspaceId;
use service_rules::email::Address;
use service_server::{
    app::App,
    database::migrations,
    flows::{
        audit::{sealing, verification},
        clients::{self, Operator, blocked_hosts},
        operations::finish_restore::{self, CopiedEvent},
        revocation::{self, RevocationError},
    },
    store,
};

use crate::cli::output::{say, say_error};

#[derive(Subcommand)]
pub(crate) enum AdminCommand {
    /// Accounts, by email address
    #[command(subcommand)]
    User(UserCommand),
    /// Members of a workspace
    #[command(subcommand)]
    Member(MemberCommand),
    /// Workspaces, by their id
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// OAuth clients
    #[command(subcommand)]
    Client(ClientCommand),
    /// The audit log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// A database that was restored from a backup
    #[command(subcommand)]
    Restore(RestoreCommand),
    /// The moment before which no session is valid
    #[command(subcommand)]
    Epoch(EpochCommand),
}

#[derive(Subcommand)]
pub(crate) enum UserCommand {
    /// Disable a user: revoke all sessions and tokens, and refuse sign-in
    Disable { address: String },
    /// Enable a disabled user
    Enable { address: String },
    /// Revoke all sessions and devices of a user, who can sign in again
    SignOut { address: String },
}

#[derive(Subcommand)]
pub(crate) enum MemberCommand {
    /// Remove a user from a workspace
    Remove { address: String, workspace: String },
}

#[derive(Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Delete a workspace for all its members
    Delete { workspace: String },
}

#[derive(Subcommand)]
pub(crate) enum ClientCommand {
    /// Create a client; its secret, if it has one, is shown once
    Create {
        /// The name that users see
        name: String,
        /// A redirect URI, https; can be given several times
        #[arg(long = "redirect-uri", value_name = "URI")]
        redirect_uris: Vec<String>,
        /// The client is confidential, and authenticates with a secret
        #[arg(long, conflicts_with = "jwks")]
        secret: bool,
        /// The client authenticates by signing assertions: the file with its public keys (JWKS)
        #[arg(long, value_name = "FILE")]
        jwks: Option<std::path::PathBuf>,
        /// The client may introspect any token at /oauth/introspect
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
pub(crate) enum AuditCommand {
    /// Check whether audit events were changed, removed, added or moved after they were recorded
    Verify {
        /// The end of the chain as noted before, such as 412:9f3c…; a truncated chain lacks it
        #[arg(long, value_name = "NUMBER:MAC")]
        anchor: Option<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum RestoreCommand {
    /// Revoke what was revoked after the backup, and let nodes serve requests again
    Finish {
        /// Audit events from after the backup, one JSON object per line, to be replayed
        #[arg(long, value_name = "FILE", required_unless_present_any = ["no_audit_copy", "nothing_was_lost"])]
        audit_copy: Option<std::path::PathBuf>,
        /// There is no copy: changes from after the backup have to be repeated by hand
        #[arg(long, conflicts_with = "audit_copy")]
        no_audit_copy: bool,
        /// The database lost nothing, as after an upgrade of PostgreSQL: revoke nothing
        #[arg(long, conflicts_with_all = ["audit_copy", "no_audit_copy"])]
        nothing_was_lost: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum EpochCommand {
    /// Revoke every session of every user
    Bump,
}

pub(crate) async fn run(command: &AdminCommand, app: &App, operator: Option<&str>) -> anyhow::Result<()> {
    migrations::check(&app.config.database).await?;
    sealing::check_numbering(app).await?;
    match command {
        AdminCommand::User(command) => user(command, app).await,
        AdminCommand::Member(MemberCommand::Remove { address, workspace }) => {
            let (address, workspace) = (parse_address(address)?, parse_workspace(workspace)?);
            let db = app.database.connect().await?;
            let account = store::emails::find_user(&db, &address).await?;
            drop(db);
            let user_id = account.ok_or_else(|| anyhow::anyhow!("there is no such member"))?.user_id;
            let removed = revocation::remove_member(app, user_id, workspace).await;
            removed.map_err(|error| or_nothing(error, "there is no such member"))?;
            say(&format!("Removed {user_id} from {workspace}. Their tokens for it end within a second."));
            Ok(())
        }
        AdminCommand::Workspace(WorkspaceCommand::Delete { workspace }) => {
            let workspace = parse_workspace(workspace)?;
            let deleted = revocation::delete_workspace(app, workspace).await;
            deleted.map_err(|error| or_nothing(error, "there is no such workspace"))?;
            say(&format!("Deleted {workspace}. Tokens for it end within a second."));
            Ok(())
        }
        AdminCommand::Client(command) => client(command, app, &operator_named(operator)?).await,
        AdminCommand::Audit(AuditCommand::Verify { anchor }) => verify_audit(app, anchor.as_deref()).await,
        AdminCommand::Restore(RestoreCommand::Finish { audit_copy, nothing_was_lost, .. }) => {
            let copy = audit_copy.as_ref().map(std::fs::read_to_string).transpose();
            let copy = copy.map_err(|error| anyhow::anyhow!("cannot read the copy: {error}"))?.unwrap_or_default();
            let events = finish_restore::read_copy(&copy)?;
            let events = (!nothing_was_lost).then_some(events.as_slice());
            finish_restore(app, &operator_named(operator)?, events).await
        }
        AdminCommand::Epoch(EpochCommand::Bump) => {
            let epoch = revocation::bump_epoch(app).await?;
            say(&format!(
                "Everything from before {epoch:.0} is over: all users have to sign in again after that moment."
            ));
            Ok(())
        }
    }
}

/// Returns the operator's name for the audit log: as given, or that of the system account.
fn operator_named(given: Option<&str>) -> anyhow::Result<Operator> {
    if let Some(name) = given {
        return Operator::new(name).ok_or_else(|| anyhow::anyhow!("--operator is empty, too long, or not plain text"));
    }
    let account =
        ["SUDO_USER", "LOGNAME", "USER"].iter().find_map(|name| Operator::new(std::env::var_os(name)?.to_str()?));
    Ok(account.unwrap_or_default())
}

async fn client(command: &ClientCommand, app: &App, operator: &Operator) -> anyhow::Result<()> {
    match command {
        ClientCommand::Create { .. } => create_client(command, app, operator).await?,
        ClientCommand::List => list_clients(app).await?,
        ClientCommand::Disable { id } => {
            anyhow::ensure!(
                clients::disable(app, operator, id).await?,
                "there is no such client that is not disabled yet"
            );
            say(&format!("Disabled {id}. It gets no tokens any more; those it has are refused within a second."));
        }
        ClientCommand::Enable { id } => {
            anyhow::ensure!(clients::enable(app, operator, id).await?, "there is no such client that is disabled");
            say(&format!("Enabled {id}."));
        }
        ClientCommand::RevokeSessions { id } => {
            let revoked = clients::revoke_sessions(app, operator, id).await?;
            let revoked = revoked.ok_or_else(|| anyhow::anyhow!("there is no such client"))?;
            say(&format!("Revoked {revoked} sessions of {id}. Its tokens are refused within a second."));
        }
        ClientCommand::SetRedirectUris { id, redirect_uris } => {
            anyhow::ensure!(
                clients::set_redirect_uris(app, operator, id, redirect_uris).await?,
                "there is no such client"
            );
            say(&format!("Answers to {id} go to these addresses from now on."));
        }
        ClientCommand::BlockHost { host } => {
            let disabled = blocked_hosts::block(app, operator, host).await?;
            say(&format!("Blocked {host} for self-registered clients. Disabled {disabled} that were there."));
        }
        ClientCommand::UnblockHost { host } => {
            anyhow::ensure!(blocked_hosts::unblock(app, operator, host).await?, "{host} is not blocked");
            say(&format!("Self-registered clients are allowed at {host} again."));
        }
        ClientCommand::BlockedHosts => {
            for (host, by) in blocked_hosts::list(app).await? {
                say(&format!("{host}  blocked by {by}"));
            }
        }
    }
    Ok(())
}

async fn create_client(command: &ClientCommand, app: &App, operator: &Operator) -> anyhow::Result<()> {
    let ClientCommand::Create { name, redirect_uris, secret, jwks, introspect } = command else { return Ok(()) };
    let read = |path: &std::path::PathBuf| -> anyhow::Result<serde_json::Value> {
        let text = std::fs::read(path).map_err(|_| anyhow::anyhow!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).map_err(|_| anyhow::anyhow!("{} is not JSON", path.display()))
    };
    let wanted = clients::ClientToRegister {
        name: name.clone(),
        redirect_uris: redirect_uris.clone(),
        with_secret: *secret || (*introspect && jwks.is_none()),
        jwks: jwks.as_ref().map(read).transpose()?,
        may_introspect: *introspect,
        operator: operator.clone(),
    };
    let made = clients::create(app, &wanted).await?;
    say(&format!("client_id: {}", made.id));
    if let Some(secret) = &made.secret {
        say(&format!("client_secret: {}", secret.expose()));
        say("Keep the secret: it is not stored and cannot be shown again.");
    }
    Ok(())
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
    let finished = finished.ok_or_else(|| anyhow::anyhow!("the database does not look restored: there is no fence"))?;
    for (event, count) in &finished.replayed {
        say(&format!("Replayed {event}: {count}"));
    }
    if let Some(epoch) = finished.epoch {
        say(&format!("Everything from before {epoch:.0} is revoked: all users have to sign in again."));
    }
    say("The restore is finished. Nodes answer again within seconds.");
    Ok(())
}

async fn verify_audit(app: &App, anchor: Option<&str>) -> anyhow::Result<()> {
    let report = verification::verify(app, anchor, |seals| say_error(&format!("… {seals} seals"))).await?;
    for (date, month) in &report.months {
        let kept = format!("{} events under {} seals", month.events, month.seals);
        let state = if month.dropped.is_some() { "no longer kept" } else { &kept };
        say(&format!("{}  {state}", date.strftime("%Y-%m")));
    }
    let problems = report.problems.len();
    for problem in &report.problems {
        say(&format!("WRONG: {problem}"));
    }
    anyhow::ensure!(problems == 0, "the record of what happened is not what it was: {problems} things are wrong");
    match report.youngest {
        None => say("Nothing has been recorded yet."),
        Some(seal) => say(&format!(
            "All as it was, up to seal {} of {:.0}.\nNote down where the database is not: --anchor {}",
            seal.number,
            seal.sealed_at,
            seal.anchor()
        )),
    }
    Ok(())
}

async fn user(command: &UserCommand, app: &App) -> anyhow::Result<()> {
    match command {
        UserCommand::Disable { address } => {
            let disabled = revocation::disable_user(app, &parse_address(address)?).await;
            let id = disabled.map_err(|error| or_nothing(error, "there is no such user that is not disabled yet"))?;
            say(&format!("Disabled {id}. Their tokens end within a second."));
        }
        UserCommand::Enable { address } => {
            let enabled = revocation::enable_user(app, &parse_address(address)?).await;
            let id = enabled.map_err(|error| or_nothing(error, "there is no such user that is disabled"))?;
            say(&format!("Enabled {id}. They can sign in again; their old sessions stay ended."));
        }
        UserCommand::SignOut { address } => {
            let signed_out = revocation::sign_out_user(app, &parse_address(address)?).await;
            let id = signed_out.map_err(|error| or_nothing(error, "there is no such user"))?;
            say(&format!(
                "Signed {id} out everywhere and forgot their devices. Their CLI tokens still work; `user disable` ends those too."
            ));
        }
    }
    Ok(())
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
    text.parse().map_err(|_| anyhow::anyhow!("{text} is not the id of a workspace, such as wsp_01h2…"))
}
