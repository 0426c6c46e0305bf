//! The database server that this node uses. After a failover the former primary may still respond. A node that has seen
//! its successor ignores it.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::sync::{Notify, watch};

/// The identity of a database server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Generated when the cluster was created. Standbys share it with their primary.
    pub system: String,
    /// The timeline of the write-ahead log that it writes or replays. Each promotion begins the next one.
    pub timeline: u32,
}

impl Identity {
    /// Parses an identity; `None`: the timeline is not a hexadecimal number.
    #[must_use]
    pub fn parse(system: &str, timeline: &str) -> Option<Self> {
        Some(Self { system: system.to_owned(), timeline: u32::from_str_radix(timeline, 16).ok()? })
    }
}

/// The error for a server that another one was promoted over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormerPrimary;

/// The newest server that this node has seen, shared by all its connections.
#[derive(Debug, Default)]
pub struct Servers {
    newest: Mutex<Option<NewestServer>>,
    changed: Notify,
    /// The server that was last compared with the recorded one.
    compared: watch::Sender<Option<ComparedServer>>,
    /// Whether this node serves requests. While it starts, it may look at a restored database.
    is_serving: AtomicBool,
}

#[derive(Debug)]
struct ComparedServer {
    identity: Identity,
    /// Whether it looks restored from a backup.
    is_fenced: bool,
}

/// The error for a server that looks restored from a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the database looks restored from a backup")]
pub struct Fenced;

/// How far the newest server was compared with the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// No server was compared yet.
    NotBegun,
    /// Another server was compared before this one.
    Pending,
    Done,
}

#[derive(Debug)]
struct NewestServer {
    identity: Identity,
    first_seen: Instant,
    /// Whether this node used another server before.
    is_successor: bool,
}

impl Servers {
    /// Records the server that responded. Fails if a server on a later timeline was seen before.
    pub fn record(&self, identity: &Identity) -> Result<(), FormerPrimary> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = newest.as_ref()
            && known.identity.system == identity.system
        {
            if identity.timeline < known.identity.timeline {
                return Err(FormerPrimary);
            }
            if identity.timeline == known.identity.timeline {
                return Ok(());
            }
            tracing::warn!(timeline = identity.timeline, "Another database server was promoted; using it");
        }
        let is_successor = newest.is_some();
        if is_successor {
            self.changed.notify_one();
        }
        *newest = Some(NewestServer { identity: identity.clone(), first_seen: Instant::now(), is_successor });
        Ok(())
    }

    /// Records that this server was compared with the recorded one, and whether it looks restored.
    pub fn record_comparison(&self, identity: Identity, is_fenced: bool) {
        self.compared.send_replace(Some(ComparedServer { identity, is_fenced }));
    }

    /// Records that this node serves requests from now on.
    pub fn begin_serving(&self) {
        self.is_serving.store(true, Ordering::Relaxed);
    }

    /// Returns how far the newest server was compared.
    #[must_use]
    pub fn comparison(&self) -> Comparison {
        self.comparison_with(self.compared.borrow().as_ref())
    }

    /// Waits until the newest server was compared. Does not wait for the first comparison, before which a node serves no
    /// requests. Fails if the server looks restored, and this node serves requests.
    pub async fn until_compared(&self) -> Result<(), Fenced> {
        let mut compared = self.compared.subscribe();
        let decided = compared.wait_for(|server| self.comparison_with(server.as_ref()) != Comparison::Pending).await;
        // The sender lives as long as this, so there is a decision.
        let is_fenced = decided.is_ok_and(|server| server.as_ref().is_some_and(|server| server.is_fenced));
        if is_fenced && self.is_serving.load(Ordering::Relaxed) { Err(Fenced) } else { Ok(()) }
    }

    fn comparison_with(&self, compared: Option<&ComparedServer>) -> Comparison {
        let Some(compared) = compared else { return Comparison::NotBegun };
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.as_ref().is_some_and(|known| known.identity == compared.identity) {
            Comparison::Done
        } else {
            Comparison::Pending
        }
    }

    /// Returns when the newest server first responded; `None`: this node has used no other.
    #[must_use]
    pub fn changed_at(&self) -> Option<Instant> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.as_ref().filter(|known| known.is_successor).map(|known| known.first_seen)
    }

    /// Waits until a different server has responded.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether a connection that was opened at this moment leads to the newest server.
    #[must_use]
    pub fn is_current(&self, connected_at: Instant) -> bool {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        // The connection that saw the server first is replaced too, because another one may have been opened at the
        // same time.
        newest.as_ref().is_none_or(|known| connected_at >= known.first_seen)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    fn on(timeline: u32) -> Identity {
        Identity { system: "7".into(), timeline }
    }

    #[test]
    fn a_lower_timeline_than_seen_before_is_refused_rv_10() {
        let servers = Servers::default();
        assert_eq!(servers.record(&on(1)), Ok(()));
        let before = Instant::now();
        assert!(servers.is_current(before));
        assert_eq!(servers.changed_at(), None);
        assert_eq!(servers.record(&on(2)), Ok(()));
        assert!(servers.changed_at().is_some_and(|at| at >= before));
        assert!(!servers.is_current(before));
        assert!(servers.is_current(Instant::now()));
        assert_eq!(servers.record(&on(1)), Err(FormerPrimary));
        assert_eq!(servers.record(&on(2)), Ok(()));
    }

    #[tokio::test]
    async fn connections_wait_while_another_server_is_not_compared_rv_26() {
        let servers = Servers::default();
        assert_eq!(servers.record(&on(1)), Ok(()));
        assert_eq!(servers.comparison(), Comparison::NotBegun);
        assert_eq!(servers.until_compared().await, Ok(()));
        servers.record_comparison(on(1), false);
        assert_eq!(servers.comparison(), Comparison::Done);
        assert_eq!(servers.record(&on(2)), Ok(()));
        assert_eq!(servers.comparison(), Comparison::Pending);
        let mut waiting = std::pin::pin!(servers.until_compared());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        servers.record_comparison(on(1), false);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        servers.record_comparison(on(2), false);
        assert_eq!(futures_util::poll!(&mut waiting), Poll::Ready(Ok(())));
        assert_eq!(servers.comparison(), Comparison::Done);
    }

    #[tokio::test]
    async fn a_wait_that_ends_at_a_restored_database_gets_no_connection_rv_26() {
        let servers = Servers::default();
        assert_eq!(servers.record(&on(1)), Ok(()));
        servers.record_comparison(on(1), false);
        servers.begin_serving();
        assert_eq!(servers.record(&on(2)), Ok(()));
        let mut waiting = std::pin::pin!(servers.until_compared());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        servers.record_comparison(on(2), true);
        assert_eq!(futures_util::poll!(&mut waiting), Poll::Ready(Err(Fenced)));
        assert_eq!(servers.until_compared().await, Err(Fenced));
        servers.record_comparison(on(2), false);
        assert_eq!(servers.until_compared().await, Ok(()));
    }

    #[test]
    fn timelines_are_hexadecimal() {
        assert_eq!(Identity::parse("7", "0000001A"), Some(on(26)));
        assert_eq!(Identity::parse("7", "x"), None);
    }
}
