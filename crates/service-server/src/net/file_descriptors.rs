//! The limit on open files: raised at the start, with a reserve for everything except public connections.

use anyhow::ensure;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;

/// Connections of the internal listener. Health checks must work whatever happens at the public listener.
pub const MAX_OPS_CONNECTIONS: usize = 64;
/// Connections of the support listener, if it is on. One network address may hold 16 of them.
pub const MAX_SUPPORT_CONNECTIONS: usize = 256;
/// File descriptors for mail, requests to other hosts (112), listeners, log, timers and files read at the start.
const OTHER_DESCRIPTORS: usize = 128;
/// The service does not start with fewer public connections.
const MIN_PUBLIC_CONNECTIONS: usize = 64;

/// Raises the soft limit to the hard limit. Returns how many connections the public listener may hold: the configured
/// number, or what the limit allows.
pub fn raise_limit(config: &Config) -> anyhow::Result<usize> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.current.is_some() && limit.maximum.is_none() {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(error = error.to_string(), "Could not raise the limit on open files");
        }
    }
    let descriptors =
        getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
    let connections = available(descriptors, config);
    ensure!(
        connections >= MIN_PUBLIC_CONNECTIONS.min(config.http.connections),
        "the limit on open files is {descriptors}, which leaves {connections} for connections: raise it (ulimit -n, LimitNOFILE)"
    );
    if connections < config.http.connections {
        tracing::warn!(
            descriptors,
            connections,
            "The limit on open files is too low for http.connections; the node accepts fewer connections"
        );
    }
    Ok(connections)
}

fn available(descriptors: usize, config: &Config) -> usize {
    let database = &config.database;
    let pools = database.credential_connections + database.content_connections + database.background_connections;
    // One connection reads the revocations, one listens, and some are opened while others are still closing.
    let support = config.support.as_ref().map_or(0, |_| MAX_SUPPORT_CONNECTIONS);
    let kept = pools * 2 + 8 + MAX_OPS_CONNECTIONS + support + OTHER_DESCRIPTORS;
    config.http.connections.min(descriptors.saturating_sub(kept))
}
