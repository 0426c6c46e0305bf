//! Verifying the audit events (`serviced admin audit verify`).
//!
//! 1. Every seal must fit behind the one before it.
//! 2. The events of every month that is kept must be those that were sealed.
//! 3. No event may be under no seal that is older than the last one.

use std::collections::BTreeMap;

use jiff::civil::Date;

use crate::{
    app::App,
    audit_chain::{Broken, Seal, Transactions},
    database::Connection,
    flows::audit_months,
    store,
};

const SEALS_AT_ONCE: i64 = 1_000;

/// A month as the chain knows it.
#[derive(Default)]
pub struct Month {
    pub seals: u64,
    pub events: i64,
    /// The seal that says that it was dropped.
    pub dropped: Option<i64>,
}

/// What was found.
#[derive(Default)]
pub struct Report {
    pub months: BTreeMap<Date, Month>,
    /// What is wrong, in words; empty: nothing is.
    pub problems: Vec<String>,
    pub youngest: Option<Seal>,
}

/// Verifies everything; `anchor` is the name of a seal that was noted down elsewhere, `progress` is told how many seals
/// have been looked at.
pub async fn verify(app: &App, anchor: Option<&str>, mut progress: impl FnMut(u64)) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let mut anchored = false;
    while let Some(seals) = page(app, report.youngest.as_ref()).await? {
        for seal in seals {
            anchored |= anchor == Some(seal.anchor().as_str());
            report.link(app, seal);
        }
    }
    if let Some(anchor) = anchor.filter(|_| !anchored) {
        report.problems.push(format!("no seal is {anchor}: seals were removed, and perhaps replaced"));
    }
    let (mut last, mut seen) = (None, 0);
    while let Some(seals) = page(app, last.as_ref()).await? {
        for seal in &seals {
            report.compare(app, seal).await?;
        }
        seen += seals.len() as u64;
        progress(seen);
        last = seals.into_iter().next_back();
    }
    report.count(app).await?;
    Ok(report)
}

/// The seals behind `last`; `None` at the end.
async fn page(app: &App, last: Option<&Seal>) -> anyhow::Result<Option<Vec<Seal>>> {
    let db = connect(app).await?;
    let seals = store::audit_seals::list(&db, last.map_or(0, |last| last.number), SEALS_AT_ONCE).await?;
    Ok(Some(seals).filter(|seals| !seals.is_empty()))
}

/// Nobody waits for this, so it may take its time.
async fn connect(app: &App) -> anyhow::Result<Connection> {
    Ok(app.database.connect_within(std::time::Duration::from_secs(600)).await?)
}

impl Report {
    /// Looks at the next link of the chain.
    fn link(&mut self, app: &App, seal: Seal) {
        let number = seal.number;
        match seal.check(&app.vault, self.youngest.as_ref()) {
            Ok(()) if seal.dropped => self.month(seal.month).dropped = Some(number),
            Ok(()) => {}
            Err(Broken::Missing) => self.problems.push(format!("the seal before seal {number} is missing")),
            Err(Broken::Changed) => {
                self.problems.push(format!("seal {number} is not the one that was made, or not in its place"));
            }
            Err(Broken::UnknownKey(key)) => self.problems.push(format!(
                "seal {number} was made under root key {key}, which secrets.root_keys lacks: it cannot be verified"
            )),
        }
        self.youngest = Some(seal);
    }

    /// Compares what a seal covers with what is there.
    async fn compare(&mut self, app: &App, seal: &Seal) -> anyhow::Result<()> {
        let month = self.month(seal.month);
        if seal.dropped || month.dropped.is_some_and(|dropped| seal.number < dropped) {
            return Ok(());
        }
        month.seals += 1;
        month.events += i64::from(seal.contents.events);
        let month = audit_months::begins(seal.month)..audit_months::begins_after(seal.month);
        let there = store::audit_seals::read_contents(&connect(app).await?, seal.range, Some(month)).await?;
        let (sealed, found) = (seal.contents.events, there.first().map_or(0, |(_, contents)| contents.events));
        let intact = there.first().map_or(sealed == 0, |(_, contents)| *contents == seal.contents);
        if !intact {
            let what = if sealed == found {
                "an event is not what it was, or not in its place".to_owned()
            } else {
                format!("{sealed} events were sealed, {found} are there")
            };
            self.problems.push(format!("seal {} of {:.0}: {what}", seal.number, seal.sealed_at));
        }
        Ok(())
    }

    /// Finds events that were put in later as if they were old.
    async fn count(&mut self, app: &App) -> anyhow::Result<()> {
        let Some(youngest) = &self.youngest else { return Ok(()) };
        let db = connect(app).await?;
        let here = store::audit_seals::ended_transactions(&db).await?;
        // What came after the last seal waits for the next one.
        let tail = Transactions { from: youngest.range.to, ..youngest.range };
        let there = if tail.numbering == here.numbering {
            store::audit_seals::count_settled(&db, Transactions { from: i64::MAX, ..tail }, tail).await?
        } else {
            let from = store::audit_seals::find_end(&db, here.numbering).await?;
            store::audit_seals::count_settled(&db, tail, Transactions { from, ..here }).await?
        };
        let sealed: i64 = self.months.values().map(|month| month.events).sum();
        if there > sealed {
            self.problems.push(format!("{} events are under no seal, and too old for that", there - sealed));
        }
        Ok(())
    }

    fn month(&mut self, month: Date) -> &mut Month {
        self.months.entry(month).or_default()
    }
}
