//! Sealing the audit events: the events of transactions that have ended get a link in the chain.
//!
//! 1. One node seals at a time; a node that finds another sealing leaves.
//! 2. The end of the chain must bear a valid MAC, and not come before the last seal that this node has seen.
//! 3. Transactions that have ended add no more events. What they wrote since the last seal is counted and hashed.
//! 4. Each month of it gets a seal.
//!
//! Transactions that write events take no lock for this and never wait for it.

use std::sync::PoisonError;

use service_rules::Timestamp;

use crate::{
    app::App,
    audit::chain::{Seal, SealDraft, Transactions},
    database::{Connection, Error},
    store,
};

/// Events under one seal, unless one transaction wrote more.
const MAX_EVENTS_PER_SEAL: i64 = 10_000;

/// The result of one pass of sealing.
pub struct SealingPass {
    pub events: u64,
    /// The end of the chain, if this pass added to it.
    pub youngest: Option<Seal>,
    /// Whether there is more to seal at once.
    pub more: bool,
    /// When the oldest event was recorded that is still under no seal.
    pub oldest_unsealed: Option<Timestamp>,
}

/// Notices that a dump was restored into another database, which numbers its transactions from the beginning. Must be called before any
/// event is recorded.
pub async fn check_numbering(app: &App) -> anyhow::Result<()> {
    if store::audit_seals::update_numbering(&app.background_database.connect().await?).await? {
        tracing::warn!(
            "The database was restored from a dump: the chain of seals continues with its transaction numbers"
        );
    }
    Ok(())
}

/// Seals the events of all transactions that have ended, up to a limit.
pub async fn seal(app: &App) -> anyhow::Result<SealingPass> {
    let db = app.background_database.begin().await?;
    let Some(here) = store::audit_seals::try_lock(&db).await? else {
        return Ok(SealingPass { events: 0, youngest: None, more: false, oldest_unsealed: None });
    };
    let youngest = end_of_chain(app, &db).await?;
    let before = youngest.as_ref().map(|seal| seal.number);
    let mut chain = Chain { app, db, youngest, events: 0, now: app.clock.now() };
    let ended = store::audit_seals::find_oldest_running(&chain.db).await?;
    let mut more = false;
    for numbering in store::audit_seals::list_numberings(&chain.db).await? {
        let from = store::audit_seals::find_sealed_until(&chain.db, numbering).await?;
        // Transactions that another database numbered ended long ago.
        let to = if numbering == here { ended } else { find_end_of(&chain.db, numbering).await? };
        more |= chain.seal_some(Transactions { numbering, from, to }).await?;
    }
    let from = store::audit_seals::find_sealed_until(&chain.db, here).await?;
    let rest = Transactions { numbering: here, from, to: i64::MAX };
    let oldest_unsealed = store::audit_seals::find_oldest_unsealed(&chain.db, rest).await?;
    let Chain { db, youngest, events, .. } = chain;
    db.commit().await?;
    app.audit_seen.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&youngest);
    Ok(SealingPass { events, youngest: youngest.filter(|seal| Some(seal.number) != before), more, oldest_unsealed })
}

/// The last seal. Fails if it was altered, or comes before the last seal that this node has seen.
pub async fn end_of_chain(app: &App, db: &Connection) -> anyhow::Result<Option<Seal>> {
    let mut end = store::audit_seals::find_end_of_chain(db).await?.into_iter();
    let (youngest, before) = (end.next(), end.next());
    if let Some(seal) = &youngest {
        let intact = seal.check(&app.root_keys, before.as_ref());
        anyhow::ensure!(
            intact.is_ok(),
            "seal {} was altered ({intact:?}): run `serviced admin audit verify`",
            seal.number
        );
    }
    let seen = app.audit_seen.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(seen) = &*seen {
        let there = youngest.as_ref().is_some_and(|seal| seal.number > seen.number || seal.link == seen.link);
        anyhow::ensure!(
            there,
            "the chain of seals ends before {}: it was cut off, or the database was restored while this node ran",
            seen.anchor()
        );
    }
    Ok(youngest)
}

async fn find_end_of(db: &Connection, numbering: i64) -> Result<i64, Error> {
    Ok(store::audit_seals::find_last(db, numbering).await?.unwrap_or_default().saturating_add(1))
}

struct Chain<'a> {
    app: &'a App,
    db: Connection,
    youngest: Option<Seal>,
    events: u64,
    now: Timestamp,
}

impl Chain<'_> {
    /// Seals events from the beginning of a range, up to a limit. Returns whether some are left.
    async fn seal_some(&mut self, range: Transactions) -> Result<bool, Error> {
        let Some(first) = store::audit_seals::find_nth(&self.db, range, 0).await? else { return Ok(false) };
        let next = store::audit_seals::find_nth(&self.db, range, MAX_EVENTS_PER_SEAL).await?;
        let to = next.map_or(range.to, |next| next.max(first + 1));
        let range = Transactions { to, ..range };
        for (month, contents) in store::audit_seals::read_contents(&self.db, range, None).await? {
            self.events += u64::from(contents.events.unsigned_abs());
            let draft = SealDraft { month, dropped: false, range, contents };
            let seal = Seal::make(&self.app.root_keys, self.youngest.as_ref(), draft, self.now);
            store::audit_seals::insert(&self.db, &seal).await?;
            self.youngest = Some(seal);
        }
        Ok(next.is_some())
    }
}
