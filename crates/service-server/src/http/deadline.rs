//! Deadlines of a connection that cost a request no timer.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper::rt::{self, Timer};
use tokio::time::{Instant, Sleep, sleep_until};

/// A deadline that moves with every request. Its timer is set again only when it fires, because that takes a lock which all
/// connections share.
pub(super) struct MovingDeadline {
    /// `None`: there is nothing to wait for.
    at: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl MovingDeadline {
    pub(super) fn new(limit: Duration) -> Self {
        let timer = Box::pin(sleep_until(Instant::now() + limit));
        Self { at: Some(timer.deadline()), timer }
    }

    pub(super) fn set(&mut self, at: Instant) {
        self.at = Some(at);
        if at < self.timer.deadline() {
            self.timer.as_mut().reset(at);
        }
    }

    pub(super) fn is_set(&self) -> bool {
        self.at.is_some()
    }

    pub(super) fn clear(&mut self) {
        self.at = None;
    }

    /// Whether the deadline has passed. If not, the task is woken when it does.
    pub(super) fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let Some(at) = self.at else { return false };
        while self.timer.as_mut().poll(context).is_ready() {
            if self.timer.deadline() >= at {
                return true;
            }
            self.timer.as_mut().reset(at);
        }
        false
    }
}

/// A timer that never fires: a connection has timeouts of its own. hyper is told of a timeout for heads all the same, because only then
/// does it look after a response whether the next request is there already.
pub(super) struct NoTimer;

struct Never;

impl Timer for NoTimer {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Never)
    }

    fn sleep_until(&self, _: std::time::Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Never)
    }
}

impl rt::Sleep for Never {}

impl Future for Never {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}
