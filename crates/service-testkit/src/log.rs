//! Captures everything that one test logs.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use service_server::telemetry::{WithRequest, log_filter};
use tracing_subscriber::{
    Layer as _,
    fmt::{self, MakeWriter},
    layer::SubscriberExt as _,
    registry,
};

/// The complete log of one test.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    #[must_use]
    pub fn subscriber(&self) -> impl tracing::Subscriber + Send + Sync + use<> {
        // As much as the most talkative setting logs.
        let layer = fmt::layer().event_format(WithRequest::text()).with_writer(self.clone());
        registry().with(log_filter("trace").ok().map(|filter| layer.with_filter(filter)))
    }

    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
