//! Refreshes that arrive together: they read their grants in one statement, and rotate them in another.

use std::{sync::Arc, time::Duration};

use prometheus_client::metrics::histogram::Histogram;
use service_api::ids::GrantId;

use super::{BatchStatement, Batches};
use crate::{
    config::DatabaseConfig,
    database::{Database, Error},
    store::{
        self,
        grant_batches::{ReadGrant, WantedRotation},
        grants::StoredGrant,
    },
    telemetry::traces,
};

/// Reads and rotates grants for all requests of this node.
pub struct GrantBatches {
    database: Database,
    limit: Duration,
    /// `None`: every request goes alone, because the engine finds rows by the one shard that a statement names.
    batches: Option<(Batches<ReadGrants>, Batches<RotateGrants>)>,
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
        let batches = settings.coalesce.then(|| {
            let reads = Batches::new(ReadGrants { database: database.clone() });
            (reads, Batches::new(RotateGrants { database: database.clone(), sizes: sizes.clone() }))
        });
        Self { database: database.clone(), limit: settings.deadline, batches }
    }

    /// Returns a grant by its id.
    pub async fn find(&self, id: GrantId) -> Result<Option<StoredGrant>, Error> {
        if let Some((reads, _)) = &self.batches {
            let span = traces::part(["select", "grant_batches"]);
            let answer = reads.ask(id, self.limit).await;
            traces::end(span, answer.as_ref().err().map(Error::kind));
            match answer {
                // PostgreSQL refused the statement. The fault may be another's.
                Err(Error::Defect(_)) => {}
                answer => return Ok(answer?.transpose()?.map(Arc::unwrap_or_clone)),
            }
        }
        store::grants::find(&self.database.connect().await?, id).await
    }

    /// Rotates a grant with others. `None`: batches are off, or one of the others was refused; rotate it alone.
    pub async fn rotate(&self, wanted: &WantedRotation) -> Result<Option<InBatch>, Error> {
        let Some((_, rotations)) = &self.batches else { return Ok(None) };
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

struct ReadGrants {
    database: Database,
}

impl BatchStatement for ReadGrants {
    type Question = GrantId;
    type Answer = Option<ReadGrant>;

    const TURNS: usize = 2;

    async fn run(&self, ids: &[GrantId]) -> Result<Vec<Self::Answer>, Error> {
        let db = self.database.connect().await?;
        if let [id] = ids {
            return Ok(vec![store::grants::find(&db, *id).await.map(|found| found.map(Arc::new)).transpose()]);
        }
        let found = store::grant_batches::find(&db, ids).await?;
        Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
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
