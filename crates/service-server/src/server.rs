//! Starting and stopping a node: checks, listeners, background tasks and graceful shutdown.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::{net::TcpListener, sync::Semaphore};

use crate::{
    app::App,
    clock::Clock,
    config::Config,
    database::migrations,
    flows::{
        audit::{partitions, sealing},
        operations::check_root_keys,
        rotate_signing_keys,
    },
    http::{connection, ops, router},
    net::file_descriptors,
    node_limits::network_places::{Holder, NetworkPlaces},
    tasks::{
        domain_checks, heartbeat, housekeeping, mailer,
        revocation_feed::{self, Follower},
        sso_revocations,
        supervisor::{Progress, Supervisor, TaskEnded},
    },
};

/// A running server. It runs until [`Server::stop`], or until one of its tasks ends by itself.
pub struct Server {
    pub app: App,
    pub address: SocketAddr,
    pub ops_address: SocketAddr,
    tasks: Supervisor,
}

impl Server {
    /// Starts a server. Fails on an outdated schema, as a database superuser, with a wrong root key, or on an address
    /// in use.
    pub async fn start(config: Config, clock: Clock) -> anyhow::Result<Self> {
        let connections = file_descriptors::raise_limit(&config)?;
        migrations::check(&config.database).await?;
        migrations::check_role(&config.database).await?;
        migrations::check_durability(&config.database).await?;
        let app = App::new(config, clock)?;
        check_root_keys::check(&app).await?;
        if let Err(error) = heartbeat::beat(&app).await {
            // The node starts, is not ready, and recovers by itself.
            tracing::warn!(error = format!("{error:#}"), "This node's heartbeat was not confirmed");
        }
        let transport = mailer::transport(&app.config.mail)?;
        rotate_signing_keys::authenticate_again(&app).await.context("cannot authenticate the signing keys")?;
        rotate_signing_keys::rotate_if_due(&app).await.context("cannot create a signing key")?;
        app.reload_signing_keys().await.context("cannot read the signing keys")?;
        anyhow::ensure!(
            app.signing_keys.can_sign(),
            "no signing key can be opened: secrets.root_keys lacks the root key that sealed them"
        );
        sealing::check_numbering(&app).await.context("cannot check the audit log")?;
        if let Err(error) = partitions::keep(&app).await {
            tracing::warn!(error = format!("{error:#}"), "Could not create or drop a partition of audit events");
        }
        let follower = Follower::start(&app).await.context("cannot read the revocations")?;

        let listener = listen(app.config.http.listen).await?;
        let ops_listener = listen(app.config.http.ops_listen).await?;
        let (address, ops_address) = (listener.local_addr()?, ops_listener.local_addr()?);
        let public = BoundListener { listener, router: router::router(&app), connections, is_public: true };
        let router = ops::router(&app);
        let internal = BoundListener {
            listener: ops_listener,
            router,
            connections: file_descriptors::MAX_OPS_CONNECTIONS,
            is_public: false,
        };
        let mut server = Self { tasks: Supervisor::new(app.clone()), app, address, ops_address };
        server.spawn("public_listener", |app, progress| accept(app, public, progress));
        server.spawn("internal_listener", |app, progress| accept(app, internal, progress));
        server.spawn("mailer", |app, progress| mailer::run(app, transport, progress));
        server.spawn("signing_keys", housekeeping::follow_signing_keys);
        server.spawn("revocations", |_, progress| follower.run(progress));
        server.spawn("heartbeat", heartbeat::run);
        server.spawn("revocation_listener", revocation_feed::listen);
        server.spawn("revocation_notifier", revocation_feed::notify_nodes);
        server.spawn("token_uses", housekeeping::record_uses);
        server.spawn("audit_seals", housekeeping::seal_audit);
        server.spawn("cleanup", housekeeping::clean);
        server.spawn("domain_checks", domain_checks::run);
        server.spawn("sso_revocations", sso_revocations::run);
        Ok(server)
    }

    /// Starts a task beside those that every server has. If it ends before the server stops, the server stops.
    pub fn spawn<F>(&mut self, name: &'static str, task: impl FnOnce(App, Progress) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let app = self.app.clone();
        self.tasks.spawn(name, |progress| task(app, progress));
    }

    /// Runs until `told_to_stop` is ready or a task ends by itself. Then it stops accepting requests,
    /// finishes running ones, and stops all tasks.
    ///
    /// # Errors
    /// The task that ended by itself.
    pub async fn run_until(self, told_to_stop: impl Future<Output = ()>) -> Result<(), TaskEnded> {
        tokio::select! {
            () = told_to_stop => {}
            () = self.app.stop.cancelled() => {}
        }
        tracing::info!("Stopping");
        self.tasks.stop().await
    }

    /// Stops accepting requests, finishes running ones, and stops all tasks.
    pub async fn stop(self) {
        // What a task that ended has to say is in the log.
        drop(self.tasks.stop().await);
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// A listener, its router, and its connection limit.
struct BoundListener {
    listener: TcpListener,
    router: Router,
    connections: usize,
    /// Whether connections are limited by network.
    is_public: bool,
}

/// Returns the holder of a connection's slot.
fn holder(app: &App, peer: SocketAddr) -> Holder {
    let address = peer.ip().to_canonical();
    let is_proxy = app.config.http.trusted_proxies.iter().any(|network| network.contains(&address));
    if is_proxy { Holder::TrustedProxy } else { Holder::Caller(address) }
}

/// Accepts connections until the node stops.
async fn accept(app: App, bound: BoundListener, progress: Progress) {
    let BoundListener { listener, router, connections, is_public } = bound;
    let room = Arc::new(Semaphore::new(connections));
    let by_network = NetworkPlaces::new(connections, app.config.limits.raised_networks.clone());
    let graceful = GracefulShutdown::new();
    loop {
        let permit = tokio::select! {
            () = app.stop.cancelled() => break,
            permit = room.clone().acquire_owned() => permit,
        };
        let accepted = tokio::select! {
            () = app.stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                progress.succeeded();
                let holder = if is_public { holder(&app, peer) } else { Holder::TrustedProxy };
                let Some(place) = by_network.take(holder, 1) else {
                    app.metrics.connections_refused.inc();
                    continue;
                };
                // Responses are small, so they are sent without delay.
                drop(stream.set_nodelay(true));
                let serving = connection::serve(stream, peer, router.clone(), graceful.watcher());
                tokio::spawn(async move {
                    serving.await;
                    // In this order: the connection that gets the permit finds a place.
                    drop(place);
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(error = error.to_string(), "Could not accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(app.config.http.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("Some requests did not finish in time");
    }
}
