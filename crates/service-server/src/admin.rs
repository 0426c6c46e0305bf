//! `serviced admin`: what an operator does to users, members, workspaces, clients and everybody.

use clap::Subcommand;
use service_api::ids::WorkspaceId;
use service_rules::email::Address;
use service_server::{
    app::App,
    flows::{clients, end_access, seal_audit, verify_audit},
    migrations, store,
};

use crate::{say, say_error};

#[derive(Subcommand)]
pub(crate) enum Admin {
    /// Accounts, by their e-mail address
    #[command(subcommand)]
    User(User),
    /// Who is in a workspace
    #[command(subcommand)]
    Member(Member),
    /// Workspaces, by their id
    #[command(subcommand)]
    Workspace(Workspace),
    /// Apps and services that people or other services use
    #[command(subcommand)]
    Client(Client),
    /// The record of what happened
    #[command(subcommand)]
    Audit(Audit),
    /// The moment before which no session counts
    #[command(subcommand)]
    Epoch(Epoch),
}

#[derive(Subcommand)]
pub(crate) enum User {
    /// End all sessions and tokens, and allow no new ones
    Disable { address: String },
    /// Allow signing in again
    Enable { address: String },
    /// End all sessions; signing in again is allowed
    SignOut { address: String },
}

#[derive(Subcommand)]
pub(crate) enum Member {
    /// Take a user out of a workspace
    Remove { address: String, workspace: String },
}

#[derive(Subcommand)]
pub(crate) enum Workspace {
    /// Delete a workspace for all its members
    Delete { workspace: String },
}

#[derive(Subcommand)]
pub(crate) enum Client {
    /// Make a client; its secret, if it has one, is shown once
    Create {
        /// What people are shown
        name: String,
        /// Where answers to it may go, an https address; may be given several times
        #[arg(long = "redirect-uri", value_name = "URI")]
        redirect_uris: Vec<String>,
        /// It can keep a secret, and proves itself by it
        #[arg(long, conflicts_with = "jwks")]
        secret: bool,
        /// It proves itself by signing: the file with its public keys
        #[arg(long, value_name = "FILE")]
        jwks: Option<std::path::PathBuf>,
        /// It may ask at /oauth/introspect what any token is worth
        #[arg(long)]
        introspect: bool,
    },
    /// List all clients
    List,
    /// Let a client do nothing any more; its sessions go on where they do not need it
    Disable { id: String },
    /// Let a disabled client go on
    Enable { id: String },
    /// Say where answers to a client may go from now on
    SetRedirectUris {
        id: String,
        #[arg(required = true, value_name = "URI")]
        redirect_uris: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum Audit {
    /// Find out whether events were changed, removed, added or moved after they were recorded
    Verify {
        /// The end of the chain as it was noted down before, such as 412:9f3c…; a chain that was cut off lacks it
        #[arg(long, value_name = "NUMBER:MAC")]
        anchor: Option<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum Epoch {
    /// End every session of everybody, as after the database was restored from a backup
    Bump,
}

pub(crate) async fn run(command: &Admin, app: &App) -> anyhow::Result<()> {
    migrations::check(&app.config.database).await?;
    seal_audit::check_numbering(app).await?;
    match command {
        Admin::User(command) => user(command, app).await,
        Admin::Member(Member::Remove { address, workspace }) => {
            let (address, workspace) = (parse_address(address)?, parse_workspace(workspace)?);
            let db = app.database.connect().await?;
            let account = store::emails::find_user(&db, &address).await?;
            drop(db);
            let nobody = || anyhow::anyhow!("there is no such member");
            let user_id = account.ok_or_else(nobody)?.user_id;
            end_access::remove_member(app, user_id, workspace).await?.map_err(|_| nobody())?;
            say(&format!("Removed {user_id} from {workspace}. Their tokens for it end within a second."));
            Ok(())
        }
        Admin::Workspace(Workspace::Delete { workspace }) => {
            let workspace = parse_workspace(workspace)?;
            let deleted = end_access::delete_workspace(app, workspace).await?;
            deleted.map_err(|_| anyhow::anyhow!("there is no such workspace"))?;
            say(&format!("Deleted {workspace}. Tokens for it end within a second."));
            Ok(())
        }
        Admin::Client(command) => client(command, app).await,
        Admin::Audit(Audit::Verify { anchor }) => verify_audit(app, anchor.as_deref()).await,
        Admin::Epoch(Epoch::Bump) => {
            let epoch = end_access::bump_epoch(app).await?;
            say(&format!(
                "Everything from before {epoch:.0} is over: everybody has to sign in again after that moment."
            ));
            Ok(())
        }
    }
}

async fn client(command: &Client, app: &App) -> anyhow::Result<()> {
    match command {
        Client::Create { name, redirect_uris, secret, jwks, introspect } => {
            let read = |path: &std::path::PathBuf| -> anyhow::Result<serde_json::Value> {
                let text = std::fs::read(path).map_err(|_| anyhow::anyhow!("cannot read {}", path.display()))?;
                serde_json::from_slice(&text).map_err(|_| anyhow::anyhow!("{} is not JSON", path.display()))
            };
            let wanted = clients::Wanted {
                name: name.clone(),
                redirect_uris: redirect_uris.clone(),
                with_secret: *secret || (*introspect && jwks.is_none()),
                jwks: jwks.as_ref().map(read).transpose()?,
                may_introspect: *introspect,
            };
            let made = clients::create(app, &wanted).await?;
            say(&format!("client_id: {}", made.id));
            if let Some(secret) = &made.secret {
                say(&format!("client_secret: {}", secret.expose()));
                say("Keep the secret: it is not stored and cannot be shown again.");
            }
        }
        Client::List => {
            for client in clients::list(app).await? {
                let state = if client.disabled { "disabled" } else { "enabled" };
                say(&format!(
                    "{}  {state}  {:?}  {}  {}",
                    client.id,
                    client.kind,
                    client.name,
                    client.redirect_uris.join(" ")
                ));
            }
        }
        Client::Disable { id } => {
            anyhow::ensure!(
                clients::set_disabled(app, id, true).await?,
                "there is no such client that is not disabled yet"
            );
            say(&format!("Disabled {id}. It gets no tokens any more; those it has end within an hour."));
        }
        Client::Enable { id } => {
            anyhow::ensure!(clients::set_disabled(app, id, false).await?, "there is no such client that is disabled");
            say(&format!("Enabled {id}."));
        }
        Client::SetRedirectUris { id, redirect_uris } => {
            anyhow::ensure!(clients::set_redirect_uris(app, id, redirect_uris).await?, "there is no such client");
            say(&format!("Answers to {id} go to these addresses from now on."));
        }
    }
    Ok(())
}

async fn verify_audit(app: &App, anchor: Option<&str>) -> anyhow::Result<()> {
    let report = verify_audit::verify(app, anchor, |seals| say_error(&format!("… {seals} seals"))).await?;
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

async fn user(command: &User, app: &App) -> anyhow::Result<()> {
    match command {
        User::Disable { address } => {
            let disabled = end_access::disable_user(app, &parse_address(address)?).await?;
            let id = disabled.map_err(|_| anyhow::anyhow!("there is no such user that is not disabled yet"))?;
            say(&format!("Disabled {id}. Their tokens end within a second."));
        }
        User::Enable { address } => {
            let enabled = end_access::enable_user(app, &parse_address(address)?).await?;
            let id = enabled.map_err(|_| anyhow::anyhow!("there is no such user that is disabled"))?;
            say(&format!("Enabled {id}. They can sign in again; their old sessions stay ended."));
        }
        User::SignOut { address } => {
            let signed_out = end_access::sign_out_user(app, &parse_address(address)?).await?;
            let id = signed_out.map_err(|_| anyhow::anyhow!("there is no such user"))?;
            say(&format!(
                "Signed {id} out everywhere. Their tokens for automation go on; `user disable` ends those too."
            ));
        }
    }
    Ok(())
}

fn parse_address(text: &str) -> anyhow::Result<Address> {
    Address::parse(text).map_err(|_| anyhow::anyhow!("{text} is not an e-mail address"))
}

fn parse_workspace(text: &str) -> anyhow::Result<WorkspaceId> {
    text.parse().map_err(|_| anyhow::anyhow!("{text} is not the id of a workspace, such as wsp_01h2…"))
}
