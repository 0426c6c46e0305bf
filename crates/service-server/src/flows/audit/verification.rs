//! Verifying the audit events (`serviced admin audit verify`).
//!
//! 1. Every seal must fit behind the one before it.
//! 2. The events of every month that is kept must be those that were sealed, and must have been sealed when they were new.
//! 3. Every event that is older than the last seal must be under a seal.

use std::{collections::BTreeMap, fmt, time::Duration};

use jiff::civil::Date;
use service_rules::{Timestamp, signing::later};

use crate::{
    app::App,
    audit::chain::{BrokenLink, Seal, Transactions},
    database::Connection,
    flows::audit::partitions,
    store,
};

const SEALS_PER_PAGE: i64 = 1_000;
/// The longest time between recording and sealing an event, with a large margin.
const MAX_SEALING_DELAY_SECONDS: i64 = 3_600;
/// No request waits for a verification, so it may take long.
const VERIFICATION_TIMEOUT: Duration = Duration::from_secs(3_600);

/// What the chain of seals says about a month.
#[derive(Default)]
pub struct SealedMonth {
    pub seals: u64,
    pub events: i64,
    /// The number of the seal that records that the month was dropped.
    pub dropped: Option<i64>,
}

/// The result of a verification.
#[derive(Default)]
pub struct VerificationReport {
    pub months: BTreeMap<Date, SealedMonth>,
    /// One sentence for each problem; empty: nothing is wrong.
    pub problems: Vec<String>,
    pub youngest: Option<Seal>,
    /// Seals made under a root key that is not configured, until a later seal proves them.
    unproved: Vec<(i64, u8)>,
}

/// How far a verification has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Checks that each seal fits behind the one before it.
    Chain { seals: u64 },
    /// Compares the events with their seals.
    Events { seals: u64, total: u64, month: Date },
    /// Looks for events without a seal.
    Unsealed,
}

impl Default for Position {
    fn default() -> Self {
        Self::Chain { seals: 0 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain { seals } => write!(f, "Checking the chain: {seals} seals …"),
            Self::Events { seals, total, month } => {
                let (percent, month) = (seals * 100 / (*total).max(1), month.strftime("%Y-%m"));
                write!(f, "Comparing events with their seals: {seals} of {total} ({percent} %), {month} …")
            }
            Self::Unsealed => write!(f, "Looking for events without a seal …"),
        }
    }
}

/// Verifies all seals and events. `anchor` names a seal that the operator noted down elsewhere; `progress` is called with the
/// position reached.
pub async fn verify(
    app: &App,
    anchor: Option<&str>,
    mut progress: impl FnMut(Position),
) -> anyhow::Result<VerificationReport> {
    let mut report = VerificationReport::default();
    let (mut anchored, mut total) = (false, 0);
    while let Some(seals) = page(app, report.youngest.as_ref()).await? {
        for seal in seals {
            anchored |= anchor == Some(seal.anchor().as_str());
            report.link(app, seal);
            total += 1;
        }
        progress(Position::Chain { seals: total });
    }
    if let Some(anchor) = anchor.filter(|_| !anchored) {
        report.problems.push(format!("no seal matches the anchor {anchor}: seals were removed, and perhaps replaced"));
    }
    for (number, key) in std::mem::take(&mut report.unproved) {
        report.problems.push(format!(
            "seal {number} was made under root key {key}, which secrets.root_keys lacks, and no later seal proves it"
        ));
    }
    // Seals that are added meanwhile are not verified.
    let end = report.youngest.as_ref().map_or(0, |seal| seal.number);
    let (mut last, mut seen, mut before) = (None, 0, None);
    while let Some(seals) = page(app, last.as_ref()).await? {
        for seal in seals.iter().filter(|seal| seal.number <= end) {
            progress(Position::Events { seals: seen, total, month: seal.month });
            report.compare(app, seal, before).await?;
            before = Some((seal.range.numbering, seal.sealed_at));
            seen += 1;
        }
        last = seals.into_iter().next_back().filter(|seal| seal.number < end);
        if last.is_none() {
            break;
        }
    }
    progress(Position::Unsealed);
    report.count(app).await?;
    Ok(report)
}

/// The next page of seals behind `last`; `None` at the end.
async fn page(app: &App, last: Option<&Seal>) -> anyhow::Result<Option<Vec<Seal>>> {
    let db = connect(app).await?;
    let seals = store::audit_seals::list(&db, last.map_or(0, |last| last.number), SEALS_PER_PAGE).await?;
    Ok(Some(seals).filter(|seals| !seals.is_empty()))
}

async fn connect(app: &App) -> anyhow::Result<Connection> {
    let db = app.database.begin_within(VERIFICATION_TIMEOUT).await?;
    store::audit_seals::disable_statement_timeout(&db).await?;
    Ok(db)
}

impl VerificationReport {
    /// Checks the next link of the chain.
    fn link(&mut self, app: &App, seal: Seal) {
        let number = seal.number;
        match seal.check(&app.root_keys, self.youngest.as_ref()) {
            Ok(()) => {
                self.unproved.clear();
                if seal.dropped {
                    self.month(seal.month).dropped = Some(number);
                }
            }
            Err(BrokenLink::UnknownKey(key)) => self.unproved.push((number, key)),
            Err(BrokenLink::Missing) => self.problems.push(format!("the seal before seal {number} is missing")),
            Err(BrokenLink::Changed) => {
                self.problems.push(format!("seal {number} was changed or moved"));
            }
        }
        self.youngest = Some(seal);
    }

    /// Compares the events in the table with what a seal covers.
    async fn compare(&mut self, app: &App, seal: &Seal, before: Option<(i64, Timestamp)>) -> anyhow::Result<()> {
        let month = self.month(seal.month);
        if seal.dropped || month.dropped.is_some_and(|dropped| seal.number < dropped) {
            return Ok(());
        }
        month.seals += 1;
        month.events += i64::from(seal.contents.events);
        let month = partitions::begins(seal.month)..partitions::begins_after(seal.month);
        let db = connect(app).await?;
        let there = store::audit_seals::read_contents(&db, seal.range, Some(month)).await?;
        let (sealed, found) = (seal.contents.events, there.first().map_or(0, |(_, contents)| contents.events));
        let intact = there.first().map_or(sealed == 0, |(_, contents)| *contents == seal.contents);
        let dropped_meanwhile = !intact
            && !store::audit_months::list(&db).await?.contains(&seal.month)
            && store::audit_seals::is_dropped(&db, seal.month, seal.number).await?;
        if !intact && !dropped_meanwhile {
            let what = if sealed == found {
                "an event was changed or moved".to_owned()
            } else {
                format!("{sealed} events were sealed, {found} were found")
            };
            self.problems.push(format!("seal {} of {:.0}: {what}", seal.number, seal.sealed_at));
        }
        self.check_times(seal, before);
        Ok(())
    }

    /// Checks that the events of a seal were recorded shortly before it. Others were inserted later.
    fn check_times(&mut self, seal: &Seal, before: Option<(i64, Timestamp)>) {
        let Some((first, last)) = seal.contents.span else { return };
        // Events from before the first seal were sealed late.
        let late = before.is_some_and(|(_, at)| first < later(at, -MAX_SEALING_DELAY_SECONDS))
            && !(seal.range.numbering == 0 && before.is_none_or(|(numbering, _)| numbering == 0));
        if late || last > later(seal.sealed_at, MAX_SEALING_DELAY_SECONDS) {
            let when = format!("it covers events of {first:.0} to {last:.0}");
            self.problems.push(format!(
                "seal {} of {:.0}: {when}, which cannot have been recorded then",
                seal.number, seal.sealed_at
            ));
        }
    }

    /// Finds events that were inserted later with an old date, and events that no node seals.
    async fn count(&mut self, app: &App) -> anyhow::Result<()> {
        let db = connect(app).await?;
        let now = app.clock.now();
        let here = store::audit_seals::find_numbering(&db).await?;
        let mut waiting = Vec::new();
        let end = self.youngest.as_ref().map_or(0, |seal| seal.number);
        for numbering in store::audit_seals::list_numberings(&db).await? {
            let from = store::audit_seals::find_sealed_until_number(&db, numbering, end).await?;
            waiting.push(Transactions { numbering, from, to: i64::MAX });
        }
        let mut settled = store::audit_seals::count(&db).await?;
        for range in waiting {
            // Events that another database numbered are sealed at once.
            settled -= store::audit_seals::count_waiting(&db, range, range.numbering == here).await?;
            let oldest = store::audit_seals::find_oldest_unsealed(&db, range).await?;
            if let Some(oldest) = oldest.filter(|at| *at < later(now, -MAX_SEALING_DELAY_SECONDS)) {
                let sealed_since = store::audit_seals::find_sealed_until(&db, range.numbering).await? > range.from;
                if !sealed_since {
                    self.problems.push(format!(
                        "events since {oldest:.0} are not sealed: check that a node is running, and its log"
                    ));
                }
            }
        }
        let sealed: i64 = self.months.values().map(|month| month.events).sum();
        if settled > sealed {
            self.problems.push(format!("{} events are not sealed, although they should be by now", settled - sealed));
        }
        Ok(())
    }

    fn month(&mut self, month: Date) -> &mut SealedMonth {
        self.months.entry(month).or_default()
    }
}
