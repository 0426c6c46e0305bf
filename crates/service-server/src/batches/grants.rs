//! Refreshes that arrive together: they read their grants in one statement, and rotate them in another.

use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use service_api::ids::GrantId;

use super::{
    BatchStatement, Batches,
    reads::{SharedReads, SharedTable},
};
use crate::{
    config::DatabaseConfig,
    database::{Connection, Database, Error},
    store::{self, grant_batches::WantedRotation, grants::StoredGrant, several::FoundRows},
    telemetry::traces,
};

/// Reads and rotates grants for all requests of this node.
pub struct GrantBatches {
    reads: SharedReads<GrantTable>,
    limit: Duration,
    /// `None`: every request goes alone, because the engine finds rows by the one shard that a statement names.
    rotations: Option<Batches<RotateGrants>>,
}

/// The result of a rotation in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InBatch {
    Rotated,
    /// It was rotated or revoked meanwhile, or another transaction is about to. A batch does not wait for that.
    NotRotated,
}

impl GrantBatches {
    /// `sizes` observes how many grants are rotated by one statement.
    #[must_use]
    pub fn new(database: &Database, settings: &DatabaseConfig, sizes: &Histogram) -> Self {
        let rotate = || RotateGrants { database: database.clone(), sizes: sizes.clone() };
        let rotations = settings.coalesce.then(|| Batches::new(rotate()));
        Self { reads: SharedReads::new(database, settings), limit: settings.deadline, rotations }
    }

    /// Returns a grant by its id.
    pub async fn find(&self, id: GrantId) -> Result<Option<StoredGrant>, Error> {
        self.reads.find(id).await
    }

    /// Rotates a grant with others. `None`: batches are off, or one of the others was refused; rotate it alone.
    pub async fn rotate(&self, wanted: &WantedRotation) -> Result<Option<InBatch>, Error> {
        let Some(rotations) = &self.rotations else { return Ok(None) };
        let span = traces::part(["update", "grant_batches"]);
        let answer = rotations.ask(wanted.clone(), self.limit).await;
        traces::end(span, answer.as_ref().err().map(Error::kind));
        match answer {
            // PostgreSQL refused the statement, so nothing was written.
            Err(Error::Defect(_)) => Ok(None),
            answer => answer.map(Some),
        }
    }
}

enum GrantTable {}

impl SharedTable for GrantTable {
    type Id = GrantId;
    type Row = StoredGrant;

    const NAME: &'static str = "grant_batches";

    async fn find(db: &Connection, id: GrantId) -> Result<Option<StoredGrant>, Error> {
        store::grants::find(db, id).await
    }

    async fn find_several(db: &Connection, ids: &[GrantId]) -> Result<FoundRows<GrantId, StoredGrant>, Error> {
        store::grant_batches::find(db, ids).await
    }
}

struct RotateGrants {
    database: Database,
    sizes: Histogram,
}

impl BatchStatement for RotateGrants {
    type Question = WantedRotation;
    type Answer = InBatch;

    const TURNS: usize = 1;

    async fn run(&self, wanted: &[WantedRotation]) -> Result<Vec<Self::Answer>, Error> {
        let db = self.database.connect().await?;
        let rotated = store::grant_batches::rotate(&db, wanted).await?;
        self.sizes.observe(rotated.iter().map(|rotated| f64::from(u8::from(*rotated))).sum());
        Ok(rotated.into_iter().map(|rotated| if rotated { InBatch::Rotated } else { InBatch::NotRotated }).collect())
    }
}
