//! Starting and stopping: listeners, background work, and an orderly end.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};

use crate::{
    app::App,
    clock::Clock,
    config::Config,
    flows::{audit_months, rotate_signing_keys, seal_audit},
    housekeeping,
    http::{connection, ops, router},
    mailer, migrations, revocation_feed,
};

/// A server that runs; it goes on until [`Server::stop`].
pub struct Server {
    pub app: App,
    pub address: SocketAddr,
    pub ops_address: SocketAddr,
    tasks: JoinSet<()>,
}

impl Server {
    /// Refuses to start on an old schema, as a superuser of the database, with a wrong root key, or on an address that is taken.
    pub async fn start(config: Config, clock: Clock) -> anyhow::Result<Self> {
        migrations::check(&config.database).await?;
        migrations::check_role(&config.database).await?;
        let app = App::new(config, clock)?;
        let transport = mailer::transport(&app.config.mail)?;
        rotate_signing_keys::rotate_if_due(&app).await.context("cannot make a signing key")?;
        app.reload_signing_keys().await.context("cannot read the signing keys")?;
        anyhow::ensure!(
            app.signing_keys.can_sign(),
            "no signing key opens: secrets.root_keys lacks the key that sealed them"
        );
        seal_audit::check_numbering(&app).await.context("cannot look at the record of what happened")?;
        if let Err(error) = audit_months::keep(&app).await {
            tracing::warn!(error = format!("{error:#}"), "Could not begin or drop a month of audit events");
        }
        let position = revocation_feed::begin(&app).await.context("cannot read the revocations")?;

        let listener = listen(app.config.http.listen).await?;
        let ops_listener = listen(app.config.http.ops_listen).await?;
        let (address, ops_address) = (listener.local_addr()?, ops_listener.local_addr()?);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(app.clone(), listener, router::router(&app)));
        tasks.spawn(accept(app.clone(), ops_listener, ops::router(&app)));
        tasks.spawn(mailer::run(app.clone(), transport, app.stop.clone()));
        tasks.spawn(housekeeping::follow_signing_keys(app.clone(), app.stop.clone()));
        tasks.spawn(revocation_feed::follow(app.clone(), position, app.stop.clone()));
        tasks.spawn(revocation_feed::listen(app.clone(), app.stop.clone()));
        tasks.spawn(revocation_feed::ring(app.clone(), app.stop.clone()));
        tasks.spawn(housekeeping::note_uses(app.clone(), app.stop.clone()));
        tasks.spawn(housekeeping::seal_audit(app.clone(), app.stop.clone()));
        tasks.spawn(housekeeping::clean(app.clone(), app.stop.clone()));
        Ok(Self { app, address, ops_address, tasks })
    }

    /// Takes no more requests, finishes those it has begun, and ends.
    pub async fn stop(mut self) {
        self.app.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

async fn accept(app: App, listener: TcpListener, router: Router) {
    let room = Arc::new(Semaphore::new(app.config.http.connections));
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
                // Answers are small and wait for nothing: they leave at once.
                drop(stream.set_nodelay(true));
                let serving = connection::serve(stream, peer, router.clone(), graceful.watcher());
                tokio::spawn(async move {
                    serving.await;
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
