//! Verifying the audit events (`serviced admin audit verify`).
//!
//! 1. Every seal must fit behind the one before it.
//! 2. The events of every month that is kept must be those that were sealed, and have been sealed when they were new.
//! 3. No event may be under no seal that is older than the last one.

use std::{collections::BTreeMap, time::Duration};

use jiff::civil::Date;
use service_rules::{Timestamp, signing::later};

use crate::{
    app::App,
    audit_chain::{Broken, Seal, Transactions},
    database::Connection,
    flows::audit_months,
    store,
};

const SEALS_AT_ONCE: i64 = 1_000;
/// What is recorded is sealed so soon, with much to spare, in seconds.
const LATEST: i64 = 3_600;
/// Nobody waits for this, so it may take its time.
const PATIENCE: Duration = Duration::from_secs(3_600);

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
    /// Seals made under a root key that is not configured, until a later seal proves them.
    unproved: Vec<(i64, u8)>,
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
    for (number, key) in std::mem::take(&mut report.unproved) {
        report.problems.push(format!(
            "seal {number} was made under root key {key}, which secrets.root_keys lacks, and no later seal proves it"
        ));
    }
    // Seals that are made meanwhile are of no concern.
    let end = report.youngest.as_ref().map_or(0, |seal| seal.number);
    let (mut last, mut seen, mut before) = (None, 0, None);
    while let Some(seals) = page(app, last.as_ref()).await? {
        for seal in seals.iter().filter(|seal| seal.number <= end) {
            report.compare(app, seal, before).await?;
            before = Some((seal.range.numbering, seal.sealed_at));
        }
        seen += seals.len() as u64;
        progress(seen);
        last = seals.into_iter().next_back().filter(|seal| seal.number < end);
        if last.is_none() {
            break;
        }
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

async fn connect(app: &App) -> anyhow::Result<Connection> {
    let db = app.database.begin_within(PATIENCE).await?;
    store::audit_seals::take_time(&db).await?;
    Ok(db)
}

impl Report {
    /// Looks at the next link of the chain.
    fn link(&mut self, app: &App, seal: Seal) {
        let number = seal.number;
        match seal.check(&app.vault, self.youngest.as_ref()) {
            Ok(()) => {
                self.unproved.clear();
                if seal.dropped {
                    self.month(seal.month).dropped = Some(number);
                }
            }
            Err(Broken::UnknownKey(key)) => self.unproved.push((number, key)),
            Err(Broken::Missing) => self.problems.push(format!("the seal before seal {number} is missing")),
            Err(Broken::Changed) => {
                self.problems.push(format!("seal {number} is not the one that was made, or not in its place"));
            }
        }
        self.youngest = Some(seal);
    }

    /// Compares what a seal covers with what is there.
    async fn compare(&mut self, app: &App, seal: &Seal, before: Option<(i64, Timestamp)>) -> anyhow::Result<()> {
        let month = self.month(seal.month);
        if seal.dropped || month.dropped.is_some_and(|dropped| seal.number < dropped) {
            return Ok(());
        }
        month.seals += 1;
        month.events += i64::from(seal.contents.events);
        let month = audit_months::begins(seal.month)..audit_months::begins_after(seal.month);
        let db = connect(app).await?;
        let there = store::audit_seals::read_contents(&db, seal.range, Some(month)).await?;
        let (sealed, found) = (seal.contents.events, there.first().map_or(0, |(_, contents)| contents.events));
        let intact = there.first().map_or(sealed == 0, |(_, contents)| *contents == seal.contents);
        let dropped_meanwhile = !intact
            && !store::audit_months::list(&db).await?.contains(&seal.month)
            && store::audit_seals::is_dropped(&db, seal.month, seal.number).await?;
        if !intact && !dropped_meanwhile {
            let what = if sealed == found {
                "an event is not what it was, or not in its place".to_owned()
            } else {
                format!("{sealed} events were sealed, {found} are there")
            };
            self.problems.push(format!("seal {} of {:.0}: {what}", seal.number, seal.sealed_at));
        }
        self.check_times(seal, before);
        Ok(())
    }

    /// Events are sealed soon after they were recorded; those that say otherwise were put in later.
    fn check_times(&mut self, seal: &Seal, before: Option<(i64, Timestamp)>) {
        let Some((first, last)) = seal.contents.span else { return };
        // What was there before there were seals was sealed first, and late.
        let late = before.is_some_and(|(_, at)| first < later(at, -LATEST))
            && !(seal.range.numbering == 0 && before.is_none_or(|(numbering, _)| numbering == 0));
        if late || last > later(seal.sealed_at, LATEST) {
            let when = format!("it covers events of {first:.0} to {last:.0}");
            self.problems.push(format!(
                "seal {} of {:.0}: {when}, which cannot have been recorded then",
                seal.number, seal.sealed_at
            ));
        }
    }

    /// Finds events that were put in later as if they were old, and such as nobody seals.
    async fn count(&mut self, app: &App) -> anyhow::Result<()> {
        let db = connect(app).await?;
        let now = app.clock.now();
        let here = store::audit_seals::find_numbering(&db).await?;
        let mut waiting = Vec::new();
        let end = self.youngest.as_ref().map_or(0, |seal| seal.number);
        for numbering in store::audit_seals::list_numberings(&db).await? {
            let from = store::audit_seals::find_end_until(&db, numbering, end).await?;
            waiting.push(Transactions { numbering, from, to: i64::MAX });
        }
        let mut settled = store::audit_seals::count(&db).await?;
        for range in waiting {
            // Of another database nothing waits for long.
            settled -= store::audit_seals::count_waiting(&db, range, range.numbering == here).await?;
            let oldest = store::audit_seals::find_oldest_unsealed(&db, range).await?;
            if let Some(oldest) = oldest.filter(|at| *at < later(now, -LATEST)) {
                let sealed_since = store::audit_seals::find_end(&db, range.numbering).await? > range.from;
                if !sealed_since {
                    self.problems.push(format!(
                        "events since {oldest:.0} are under no seal: does any node run, and does it log why not?"
                    ));
                }
            }
        }
        let sealed: i64 = self.months.values().map(|month| month.events).sum();
        if settled > sealed {
            self.problems.push(format!("{} events are under no seal, and too old for that", settled - sealed));
        }
        Ok(())
    }

    fn month(&mut self, month: Date) -> &mut Month {
        self.months.entry(month).or_default()
    }
}
