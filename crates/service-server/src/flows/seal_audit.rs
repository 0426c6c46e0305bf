//! Sealing the audit events: what transactions wrote that have ended gets a link in the chain.
//!
//! 1. One node at a time; whoever finds another at it leaves.
//! 2. Transactions that have ended add nothing any more. What they wrote since the last seal is counted and digested.
//! 3. Each month of it gets a seal.
//!
//! Writers take part in none of this, so they wait for nobody.

use crate::{
    app::App,
    audit_chain::{Draft, Seal, Transactions},
    database::{Connection, Error},
    store,
};
use service_rules::Timestamp;

/// Events under one seal, unless one transaction wrote more.
const AT_ONCE: i64 = 10_000;

/// What a pass did.
pub struct Pass {
    pub events: u64,
    /// The end of the chain, if this pass added to it.
    pub youngest: Option<Seal>,
    /// Whether there is more to seal at once.
    pub more: bool,
}

pub async fn seal(app: &App) -> anyhow::Result<Pass> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    if !store::audit_seals::try_lock(&db).await? {
        return Ok(Pass { events: 0, youngest: None, more: false });
    }
    let here = store::audit_seals::ended_transactions(&db).await?;
    let mut chain = Chain { app, db, youngest: None, events: 0, now };
    chain.youngest = store::audit_seals::find_youngest(&chain.db).await?;
    let before = chain.youngest.as_ref().map(|seal| seal.number);

    let elsewhere = chain.youngest.as_ref().map(|seal| seal.range.numbering).filter(|last| *last != here.numbering);
    if let Some(numbering) = elsewhere {
        // The database was restored from a dump of another one: what that one had not sealed yet has long ended.
        let last = store::audit_seals::find_last(&chain.db, numbering).await?.unwrap_or_default();
        let from = store::audit_seals::find_end(&chain.db, numbering).await?;
        chain.seal(Transactions { numbering, from, to: last.saturating_add(1) }).await?;
    }
    let from = store::audit_seals::find_end(&chain.db, here.numbering).await?;
    let more = chain.seal_some(Transactions { from, ..here }).await?;

    let Chain { db, youngest, events, .. } = chain;
    db.commit().await?;
    Ok(Pass { events, youngest: youngest.filter(|seal| Some(seal.number) != before), more })
}

struct Chain<'a> {
    app: &'a App,
    db: Connection,
    youngest: Option<Seal>,
    events: u64,
    now: Timestamp,
}

impl Chain<'_> {
    /// Seals from the beginning of a range, but not too much; returns whether something is left.
    async fn seal_some(&mut self, range: Transactions) -> Result<bool, Error> {
        let Some(first) = store::audit_seals::find_nth(&self.db, range, 0).await? else { return Ok(false) };
        let next = store::audit_seals::find_nth(&self.db, range, AT_ONCE).await?;
        let to = next.map_or(range.to, |next| next.max(first + 1));
        self.seal(Transactions { to, ..range }).await?;
        Ok(next.is_some())
    }

    async fn seal(&mut self, range: Transactions) -> Result<(), Error> {
        let contents = store::audit_seals::read_contents(&self.db, range, None).await?;
        for (month, contents) in contents {
            self.events += u64::from(contents.events.unsigned_abs());
            let draft = Draft { month, dropped: false, range, contents };
            let seal = Seal::make(&self.app.vault, self.youngest.as_ref(), draft, self.now);
            store::audit_seals::insert(&self.db, &seal).await?;
            self.youngest = Some(seal);
        }
        Ok(())
    }
}
