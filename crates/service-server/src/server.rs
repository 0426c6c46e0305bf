//! Starting and stopping a node: checks, listeners, background tasks and graceful shutdown.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    clock::Clock,
    config::Config,
    database::{self, migrations},
    flows::{
        audit::{partitions, sealing},
        operations::check_root_keys,
        rotate_signing_keys,
    },
    http::{
        connection::{self, Closing, Peer, Serves},
        edge::Edge,
        ops, support,
    },
    net::{
        file_descriptors,
        server_tls::{self, ServerTls},
    },
    node_limits::network_places::{Holder, NetworkPlaces},
    tasks::{
        domain_checks, heartbeat, housekeeping, mailer, measurements,
        revocation_feed::{self, Follower},
        sso_revocations,
        supervisor::{Progress, Supervisor, TaskEnded},
        trace_export,
    },
};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;
/// The wait before a node looks again for its database when it starts.
const RETRY_START_AFTER: Duration = Duration::from_millis(500);
/// How long connections without a request stay open after the listener was closed.
const LAST_REQUESTS: Duration = Duration::from_millis(500);

/// A running server. It runs until [`Server::stop`], or until one of its tasks ends by itself.
pub struct Server {
    pub app: App,
    pub address: SocketAddr,
    pub ops_address: SocketAddr,
    /// The address of the support listener, if it is on.
    pub support_address: Option<SocketAddr>,
    /// The connection limit of a public listener.
    connections: usize,
    tasks: Supervisor,
}

impl Server {
    /// Starts a server. Waits until its database can be reached; meanwhile only the internal listener answers, and says that
    /// the node is not ready. Fails on an outdated schema, as a database superuser, with a wrong root key or password, or on
    /// an address in use.
    pub async fn start(config: Config, clock: Clock) -> anyhow::Result<Self> {
        let connections = file_descriptors::raise_limit(&config)?;
        let app = App::new(config, clock)?;
        if let Some(support) = &app.config.support {
            let tls = server_tls::read(&support.files)?;
            app.support_tls.get_or_init(|| Arc::new(ServerTls::new(tls, &app.leaving)));
        }
        let public = bind(app.config.http.listen)?;
        let ops_listener = bind(app.config.http.ops_listen)?.listen(BACKLOG)?;
        let support = app.config.support.as_ref().map(|support| bind(support.listen)).transpose()?;
        let (address, ops_address) = (public.local_addr()?, ops_listener.local_addr()?);
        let support_address = support.as_ref().map(TcpSocket::local_addr).transpose()?;
        tracing::info!(%ops_address, "Starting");
        let internal = BoundListener {
            listener: ops_listener,
            served: ops::router(&app),
            connections: file_descriptors::MAX_OPS_CONNECTIONS,
            is_public: false,
            tls: None,
        };
        let tasks = Supervisor::new(app.clone());
        let mut server = Self { tasks, app: app.clone(), address, ops_address, support_address, connections };
        server.spawn("internal_listener", |app, progress| accept(app, internal, progress));
        let follower = prepare_when_reachable(&app).await?;

        let listener = public.listen(BACKLOG).with_context(|| format!("cannot listen on {address}"))?;
        let public = BoundListener { listener, served: Edge::new(&app)?, connections, is_public: true, tls: None };
        server.spawn("public_listener", |app, progress| accept(app, public, progress));
        if let (Some(socket), Some(tls)) = (support, app.support_tls.get()) {
            let support = BoundListener {
                listener: socket.listen(BACKLOG)?,
                served: support::router(&app),
                connections: file_descriptors::MAX_SUPPORT_CONNECTIONS,
                is_public: true,
                tls: Some(tls.clone()),
            };
            server.spawn("support_listener", |app, progress| accept(app, support, progress));
        }
        server.spawn("mailer", mailer::run);
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
        server.spawn("measurements", measurements::run);
        if app.traces.is_some() {
            server.spawn("trace_export", trace_export::run);
        }
        app.servers.begin_serving();
        app.started.cancel();
        Ok(server)
    }

    /// Serves requests at a second address too, for a host name that has two. It has a connection limit of its own.
    pub fn listen_also_on(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        let (listener, served) = (bind(address)?.listen(BACKLOG)?, Edge::new(&self.app)?);
        let second = BoundListener { listener, served, connections: self.connections, is_public: true, tls: None };
        self.spawn("second_listener", |app, progress| accept(app, second, progress));
        Ok(())
    }

    /// Starts a task beside those that every server has. If it ends before the server stops, the server stops.
    pub fn spawn<F>(&mut self, name: &'static str, task: impl FnOnce(App, Progress) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let app = self.app.clone();
        self.tasks.spawn(name, |progress| task(app, progress));
    }

    /// Runs until `told_to_stop` is ready or a task ends by itself. Told to stop, it first is not ready for
    /// `http.lame_duck_seconds`. Then it stops accepting requests, finishes running ones, and stops all tasks.
    ///
    /// # Errors
    /// The task that ended by itself.
    pub async fn run_until(self, told_to_stop: impl Future<Output = ()>) -> Result<(), TaskEnded> {
        let app = self.app.clone();
        tokio::select! {
            () = told_to_stop => {
                let lame_duck = app.config.http.lame_duck;
                tracing::info!(lame_duck_seconds = lame_duck.as_secs_f64(), "Stopping");
                app.leaving.cancel();
                app.stop.run_until_cancelled(tokio::time::sleep(lame_duck)).await;
            }
            () = app.stop.cancelled() => tracing::info!("Stopping"),
        }
        self.end().await
    }

    /// Stops accepting requests, finishes running ones, and stops all tasks.
    pub async fn stop(self) {
        // What a task that ended has to say is in the log.
        drop(self.end().await);
    }

    /// Stops all tasks. What is left of the time for running requests, the last spans have.
    async fn end(self) -> Result<(), TaskEnded> {
        let until = Instant::now() + self.app.config.http.drain;
        let ended = self.tasks.stop().await;
        trace_export::finish(&self.app, until).await;
        ended
    }
}

/// Prepares the node as soon as its database can be reached. Any other failure is final.
async fn prepare_when_reachable(app: &App) -> anyhow::Result<Follower> {
    let mut said = String::new();
    loop {
        let error = match prepare(app).await {
            Ok(follower) => return Ok(follower),
            Err(error) if matches!(error.downcast_ref(), Some(database::Error::Unavailable(_))) => format!("{error:#}"),
            Err(error) => return Err(error),
        };
        if error != said {
            tracing::warn!(error, "The database is not available; this node waits for it");
            said = error;
        }
        tokio::time::sleep(RETRY_START_AFTER).await;
    }
}

/// Checks the database, and reads what a node must know before it serves requests. Can be repeated.
async fn prepare(app: &App) -> anyhow::Result<Follower> {
    let settings = &app.config.database;
    migrations::check(settings).await?;
    migrations::check_role(settings).await?;
    migrations::check_durability(settings).await?;
    check_root_keys::check(app).await?;
    if let Err(error) = heartbeat::beat(app).await {
        // The node starts, is not ready, and recovers by itself.
        tracing::warn!(error = format!("{error:#}"), "This node's heartbeat was not confirmed");
    }
    rotate_signing_keys::authenticate_again(app).await.context("cannot authenticate the signing keys")?;
    rotate_signing_keys::rotate_if_due(app).await.context("cannot create a signing key")?;
    app.reload_signing_keys().await.context("cannot read the signing keys")?;
    anyhow::ensure!(
        app.signing_keys.can_sign(),
        "no signing key can be opened: secrets.root_keys lacks the root key that sealed them"
    );
    sealing::check_numbering(app).await.context("cannot check the audit log")?;
    if let Err(error) = partitions::keep(app).await {
        tracing::warn!(error = format!("{error:#}"), "Could not create or drop a partition of audit events");
    }
    Follower::start(app).await.context("cannot read the revocations")
}

/// Takes an address. Until the socket listens, connections to it are refused.
fn bind(address: SocketAddr) -> anyhow::Result<TcpSocket> {
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        io::Result::Ok(socket)
    };
    open().with_context(|| format!("cannot listen on {address}"))
}

/// A listener, what it serves, and its connection limit.
struct BoundListener<S> {
    listener: TcpListener,
    served: S,
    connections: usize,
    /// Whether connections are limited by network.
    is_public: bool,
    /// `Some`: clients need a certificate.
    tls: Option<Arc<ServerTls>>,
}

/// How long a client certificate counts that was valid when its connection began.
const MAX_CERTIFIED: Duration = Duration::from_secs(600);

/// Serves a connection to its end. After this time, it is closed with the next response.
async fn closing_after(time: Duration, closing: &CancellationToken, serving: impl Future<Output = ()>) {
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => return,
        () = tokio::time::sleep(time) => closing.cancel(),
    }
    serving.await;
}

/// Returns the holder of a connection's slot.
fn holder(app: &App, peer: SocketAddr) -> Holder {
    let address = peer.ip().to_canonical();
    let is_proxy = app.config.http.trusted_proxies.iter().any(|network| network.contains(&address));
    if is_proxy { Holder::TrustedProxy } else { Holder::Caller(address) }
}

/// Accepts connections until the node stops.
async fn accept<S: Serves>(app: App, bound: BoundListener<S>, progress: Progress) {
    let BoundListener { listener, served, connections, is_public, tls } = bound;
    let room = Arc::new(Semaphore::new(connections));
    let by_network = NetworkPlaces::new(connections, app.config.limits.raised_networks.clone());
    let acceptor = Acceptor { app, served, by_network, is_public, tls, finishing: CancellationToken::new() };
    let app = &acceptor.app;
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
                acceptor.serve(stream, peer, permit);
            }
            Err(error) => {
                tracing::warn!(error = error.to_string(), "Could not accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    acceptor.finish(listener, &room, connections).await;
}

/// A connection that was accepted.
struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
}

/// Does the handshake of a connection, and serves it.
async fn serve_tls(app: &App, tls: &ServerTls, accepted: Accepted, served: impl Serves, when_idle: CancellationToken) {
    match tls.accept(accepted.stream).await {
        Ok(client) => {
            let peer = Peer { address: accepted.peer, certificate: Some(client.certificate) };
            let with_response = client.closing.child_token();
            let closing = Closing { with_response: with_response.clone(), when_idle };
            let serving = connection::serve(client.stream, peer, served, closing);
            closing_after(MAX_CERTIFIED, &with_response, serving).await;
        }
        Err(error) => {
            app.metrics.support_handshakes_failed.inc();
            tracing::debug!(error = format!("{error:#}"), "A TLS handshake failed");
        }
    }
}

/// Serves the connections of a listener.
struct Acceptor<S> {
    app: App,
    served: S,
    by_network: NetworkPlaces,
    /// Whether connections are limited by network.
    is_public: bool,
    /// `Some`: clients need a certificate.
    tls: Option<Arc<ServerTls>>,
    /// Cancelled when connections close that serve no request.
    finishing: CancellationToken,
}

impl<S: Serves> Acceptor<S> {
    /// Serves a connection, unless its network has its share already.
    fn serve<P: Send + 'static>(&self, stream: TcpStream, peer: SocketAddr, permit: P) {
        let holder = match (&self.tls, self.is_public) {
            // A proxy cannot stand between: it has no certificate of the client.
            (Some(_), _) => Holder::Caller(peer.ip().to_canonical()),
            (None, true) => holder(&self.app, peer),
            (None, false) => Holder::TrustedProxy,
        };
        let Some(place) = self.by_network.take(holder, 1) else {
            self.app.metrics.connections_refused.inc();
            return;
        };
        // Responses are small, so they are sent without delay.
        drop(stream.set_nodelay(true));
        let (app, served, tls) = (self.app.clone(), self.served.clone(), self.tls.clone());
        let when_idle = self.finishing.child_token();
        tokio::spawn(async move {
            match tls {
                None => {
                    let closing = Closing { with_response: app.leaving.clone(), when_idle };
                    connection::serve(stream, Peer { address: peer, certificate: None }, served, closing).await;
                }
                // Boxed, because it takes much more room, which other connections would take, too.
                Some(tls) => Box::pin(serve_tls(&app, &tls, Accepted { stream, peer }, served, when_idle)).await,
            }
            // In this order: the connection that gets the permit finds a place.
            drop(place);
            drop(permit);
        });
    }

    /// Closes the listener, and waits for running requests. After a lame duck, a client that connected just before gets its
    /// response, too.
    async fn finish(self, listener: TcpListener, room: &Arc<Semaphore>, connections: usize) {
        if let Ok(listener) = listener.into_std() {
            // It does not block, so this ends when no more connections wait.
            while let Ok(permit) = room.clone().try_acquire_owned()
                && let Ok((stream, peer)) = listener.accept()
                && let Ok(()) = stream.set_nonblocking(true)
                && let Ok(stream) = TcpStream::from_std(stream)
            {
                self.serve(stream, peer, permit);
            }
        }
        let http = &self.app.config.http;
        tokio::time::sleep(LAST_REQUESTS.min(http.lame_duck)).await;
        self.finishing.cancel();
        // Each connection holds a permit, so this waits for all of them.
        let all = room.acquire_many(u32::try_from(connections).unwrap_or(u32::MAX));
        if tokio::time::timeout(http.drain, all).await.is_err() {
            tracing::warn!("Some requests did not finish in time");
        }
    }
}
