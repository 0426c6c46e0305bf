//! Rows that requests look for together: one statement reads them all.

use std::{hash::Hash, marker::PhantomData, sync::Arc, time::Duration};

use super::{BatchStatement, Batches};
use crate::{
    config::DatabaseConfig,
    database::{Connection, Database, Error},
    store::several::FoundRows,
    telemetry::traces,
};

/// A table whose rows are read together.
pub trait SharedTable: Send + Sync + 'static {
    type Id: Copy + Eq + Hash + Send + Sync;
    type Row: Clone + Send + Sync;

    /// The name of the batch in traces.
    const NAME: &'static str;

    /// Returns the row with this id.
    fn find(db: &Connection, id: Self::Id) -> impl Future<Output = Result<Option<Self::Row>, Error>> + Send;

    /// Returns the rows with these ids that exist.
    fn find_several(
        db: &Connection,
        ids: &[Self::Id],
    ) -> impl Future<Output = Result<FoundRows<Self::Id, Self::Row>, Error>> + Send;
}

/// Reads rows of a table for all requests of this node.
pub struct SharedReads<T: SharedTable> {
    database: Database,
    limit: Duration,
    /// `None`: every request reads alone, because the engine finds rows by the one shard that a statement names.
    batches: Option<Batches<ReadRows<T>>>,
}

impl<T: SharedTable> SharedReads<T> {
    #[must_use]
    pub fn new(database: &Database, settings: &DatabaseConfig) -> Self {
        let read = || ReadRows { database: database.clone(), table: PhantomData };
        let batches = settings.coalesce.then(|| Batches::new(read()));
        Self { database: database.clone(), limit: settings.deadline, batches }
    }

    /// Returns the row with this id.
    pub async fn find(&self, id: T::Id) -> Result<Option<T::Row>, Error> {
        if let Some(batches) = &self.batches {
            let span = traces::part(["select", T::NAME]);
            let answer = batches.ask(id, self.limit).await;
            traces::end(span, answer.as_ref().err().map(Error::kind));
            match answer {
                // PostgreSQL refused the statement. The fault may be another's.
                Err(Error::Defect(_)) => {}
                answer => return Ok(answer?.transpose()?.map(Arc::unwrap_or_clone)),
            }
        }
        T::find(&self.database.connect().await?, id).await
    }
}

/// The statement that reads rows of a table.
struct ReadRows<T> {
    database: Database,
    table: PhantomData<T>,
}

impl<T: SharedTable> BatchStatement for ReadRows<T> {
    type Question = T::Id;
    type Answer = Option<Result<Arc<T::Row>, Error>>;

    const TURNS: usize = 2;

    async fn run(&self, ids: &[T::Id]) -> Result<Vec<Self::Answer>, Error> {
        let db = self.database.connect().await?;
        if let [id] = ids {
            return Ok(vec![T::find(&db, *id).await.map(|found| found.map(Arc::new)).transpose()]);
        }
        let found = T::find_several(&db, ids).await?;
        Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
    }
}
