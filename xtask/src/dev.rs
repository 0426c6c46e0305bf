//! `cargo xtask dev`: the whole service on this machine, with one command and no containers.
//!
//! PostgreSQL keeps its data between runs; the mailbox does not. When everything is ready, one line of JSON on standard
//! output contains the addresses. The log goes to standard error.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use jiff::SignedDuration;
use service_api::{
    contents::Kind,
    ids::{Id as _, UserId, WorkspaceId},
    workspaces::Role,
};
use service_rules::{display_name::DisplayName, email::Address, space::Space};
use service_server::{
    app::App,
    clock::Clock,
    crypto::random,
    database::migrations,
    flows::sign_in::email_key::email_key,
    server::Server,
    store::{
        self,
        contents::{NewContent, SpaceOwner},
    },
    telemetry,
};
use service_testkit::{mailbox::Mailbox, postgres::Cluster, server, settings::Settings};
use tokio::signal::unix::{SignalKind, signal};

use crate::{root, say, say_error};

const DEMO_USER: &str = "demo@service.test";

#[derive(clap::Args)]
pub(crate) struct DevOptions {
    /// The port to serve on; 0 for a free one
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Start with an empty database
    #[arg(long)]
    fresh: bool,
}

pub(crate) fn run(options: &DevOptions) -> Result<()> {
    let directory = directory()?;
    if options.fresh && directory.exists() {
        fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    say_error("Starting PostgreSQL …");
    let cluster = Cluster::start_in(&directory)?;
    let root_key = root_key(&directory)?;
    tokio::runtime::Runtime::new()?.block_on(serve(options, &cluster, &root_key))
}

async fn serve(options: &DevOptions, cluster: &Cluster, root_key: &str) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let database = cluster.ensure_database("serviced").await?;
    let mailbox = Mailbox::start().await?;
    let port = if options.port == 0 { free_port()? } else { options.port };
    let base_url = format!("http://127.0.0.1:{port}");
    let mut settings = Settings::complete(&database, &mailbox)?;
    settings.set("base_url", &base_url);
    settings.set("http.listen", &format!("127.0.0.1:{port}"));
    settings.set("secrets.root_keys", &format!("1:{root_key}"));
    settings.set("log.format", "text");
    let config = server::config(&settings)?;

    telemetry::start_log(&config.log)?;
    migrations::migrate(&config.database).await.context(
        "the database in target/dev was made by another version: run `cargo xtask dev --fresh` to start with an empty one",
    )?;
    let server = Server::start(config, Clock::System)
        .await
        .with_context(|| format!("cannot serve on port {port}; choose another with --port"))?;
    make_demo(&server.app).await?;
    say(&serde_json::json!({
        "baseUrl": base_url,
        "opsUrl": format!("http://{}", server.ops_address),
        "mailbox": mailbox.web_url(),
        "database": database,
    })
    .to_string());
    say_error(&format!("Ready. Sign in as {DEMO_USER}; codes arrive at {}. Press Ctrl-C to stop.", mailbox.web_url()));

    let mut interrupt = signal(SignalKind::interrupt())?;
    let told_to_stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        say_error("Stopping …");
    };
    Ok(server.run_until(told_to_stop).await?)
}

/// Creates a user with projects, and a workspace with some more.
async fn make_demo(app: &App) -> Result<()> {
    let now = app.clock.now();
    let address = Address::parse(DEMO_USER).map_err(|_| anyhow::anyhow!("the demo user has no address"))?;
    let db = app.database.begin().await?;
    let email = email_key(app, &db, &address).await?;
    if store::emails::find_user(&db, email).await?.is_some() {
        return Ok(());
    }
    let user_id: UserId = random::id(now)?;
    let workspace_id: WorkspaceId = random::id_in(user_id.shard(), now)?;
    store::emails::claim(&db, email, user_id, now).await?;
    store::users::insert(&db, user_id, &address, now).await?;
    let name = DisplayName::from_stored("Demo workspace".to_owned());
    store::workspaces::insert(&db, workspace_id, &name, now).await?;
    store::memberships::join(&db, user_id, workspace_id, Role::Owner, now).await?;
    let projects = [
        (Space::Personal, "Reading list"),
        (Space::Personal, "Garden"),
        (Space::Workspace(workspace_id), "Website"),
        (Space::Workspace(workspace_id), "Hiring"),
    ];
    for (millisecond, (place, name)) in (0..).zip(projects) {
        // Each has a later time than the one before, so that the list has a fixed order.
        let now = now + SignedDuration::from_millis(millisecond);
        let fields = serde_json::json!({ "name": name });
        let fields = fields.as_object().context("no fields")?;
        let space = SpaceOwner::of(place, user_id);
        let (kind, id, created_by) = (Kind::Project, random::uuid(now)?, user_id);
        store::contents::enter(&db, &[space]).await?;
        store::contents::insert(&db, &NewContent { space, kind, id, fields, created_by, now }).await?;
    }
    db.commit().await?;
    say_error(&format!("Created {DEMO_USER} ({user_id}) and the workspace {workspace_id}."));
    Ok(())
}

/// Returns the data directory: in the build directory, except for root, because PostgreSQL then runs as another
/// account, which may have no access to the checkout.
fn directory() -> Result<PathBuf> {
    let checkout = root().canonicalize()?;
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(checkout.join("target").join("dev"));
    }
    let name: String =
        checkout.display().to_string().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    Ok(std::env::temp_dir().join(format!("service-dev{name}")))
}

/// Returns the root key of earlier runs, because their data must stay readable.
fn root_key(directory: &Path) -> Result<String> {
    use std::io::Write as _;
    let path = directory.join("root-key");
    if let Ok(key) = fs::read_to_string(&path) {
        return Ok(key);
    }
    let key = Settings::random_root_key()?;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?.write_all(key.as_bytes())?;
    Ok(key)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
