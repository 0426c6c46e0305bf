//! The health of issuers: what happened at the last use, written to the database now and then.

use std::sync::{Arc, Mutex, PoisonError};

use quick_cache::sync::Cache;
use service_api::ids::IssuerId;
use service_rules::{Timestamp, signing::later};

use crate::{
    database::{self, Database},
    issuers::{error::IssuerError, trusted_issuer::TrustedIssuer},
    store,
};

/// Seconds between two records of the same kind for one issuer by this node.
const RECORD_INTERVAL: i64 = 60;
const MAX_TRACKED_ISSUERS: usize = 4_096;

/// When this node last recorded the health of each issuer.
pub(super) struct HealthRecords {
    issuers: Cache<IssuerId, Arc<Mutex<LastRecords>>>,
}

#[derive(Default)]
struct LastRecords {
    success_at: Option<Timestamp>,
    error_at: Option<Timestamp>,
}

impl Default for HealthRecords {
    fn default() -> Self {
        Self { issuers: Cache::new(MAX_TRACKED_ISSUERS) }
    }
}

impl HealthRecords {
    /// Records an outcome, at most once a minute. A request does not fail because its outcome cannot be recorded.
    pub(super) async fn record(
        &self,
        database: &Database,
        issuer: &TrustedIssuer,
        failure: Option<IssuerError>,
        now: Timestamp,
    ) {
        let failure = match failure {
            Some(error) if !error.concerns_owner() => return,
            failure => failure,
        };
        if self.is_due(issuer.id, failure.is_some(), now)
            && let Err(error) = write(database, issuer.id, failure, now).await
        {
            tracing::warn!(error = error.to_string(), "The health of an issuer could not be recorded");
        }
    }

    fn is_due(&self, id: IssuerId, failed: bool, now: Timestamp) -> bool {
        let made: Result<_, std::convert::Infallible> = self.issuers.get_or_insert_with(&id, || Ok(Arc::default()));
        let Ok(records) = made;
        let mut records = records.lock().unwrap_or_else(PoisonError::into_inner);
        let last = if failed { records.error_at } else { records.success_at };
        if last.is_some_and(|at| now < later(at, RECORD_INTERVAL)) {
            return false;
        }
        if failed {
            // So that the next success, which may be the repair, is recorded at once.
            *records = LastRecords { success_at: None, error_at: Some(now) };
        } else {
            records.success_at = Some(now);
        }
        true
    }
}

async fn write(
    database: &Database,
    id: IssuerId,
    failure: Option<IssuerError>,
    now: Timestamp,
) -> Result<(), database::Error> {
    let db = database.connect().await?;
    match failure {
        None => store::trusted_issuers::mark_success(&db, id, now).await,
        Some(error) => store::trusted_issuers::mark_error(&db, id, &error.to_string(), now).await,
    }
}
