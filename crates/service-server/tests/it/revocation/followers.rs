//! Followers of the revocations miss none, whatever lies between them and the server that commits.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::{join_all, try_join_all};
use service_api::{errors::Reason, ids::GrantId};
use service_rules::revocation::{Subject, position::FeedPosition};
use service_server::{
    app::App,
    clock::Clock,
    config::{DatabaseConfig, DatabaseUrl},
    crypto::random,
    database::Database,
    flows::revocation::RevocationTransaction,
    store,
    tasks::revocation_feed::read_lanes,
};
use service_testkit::{
    pooler::Pooler,
    server::{Setup, TestServer, config},
};

use crate::support::failover::{Pair, connect, set_standby_names};

const WRITERS: usize = 8;
/// At least so many revocations are acknowledged.
const REVOCATIONS: usize = 10_000;
/// Each transaction revokes so many.
const AT_ONCE: usize = 4;
/// So long after the last commit everything has been found.
const AT_MOST: Duration = Duration::from_secs(20);

/// A follower, and what it has found.
struct Follower {
    name: &'static str,
    settings: DatabaseConfig,
    /// The addresses that it reads, in turn, whenever one fails.
    urls: Vec<String>,
    /// Whether it opens a connection for every poll.
    reconnects: bool,
    found: HashSet<GrantId>,
    rows: usize,
    polls: usize,
    failed: usize,
}

impl Follower {
    fn new(name: &'static str, app: &App, urls: Vec<String>) -> Self {
        let settings = app.config.database.clone();
        let (reconnects, found) = (name == "reconnecting", HashSet::new());
        Self { name, settings, urls, reconnects, found, rows: 0, polls: 0, failed: 0 }
    }

    fn connect(&self) -> Result<Database> {
        let url = DatabaseUrl::parse(&self.urls[self.failed % self.urls.len()]).context("no URL")?;
        Database::new(&DatabaseConfig { url, ..self.settings.clone() }, 1, &Arc::default())
    }

    async fn poll(&mut self, database: &Database, position: &mut FeedPosition) -> Result<()> {
        let heads = store::revocations::poll(&database.connect().await?).await?;
        let (found, rows) = (&mut self.found, &mut self.rows);
        read_lanes(database, &heads, position, |revocations| {
            *rows += revocations.len();
            found.extend(revocations.iter().filter_map(|revocation| match revocation.subject {
                Subject::Grant(id) => Some(id),
                _ => None,
            }));
        })
        .await
    }

    /// Polls without a pause until it has found as much as was acknowledged when `done`, or until it is too late.
    async fn follow(mut self, work: &Work) -> Result<Self> {
        let (mut position, mut database) = (FeedPosition::default(), self.connect()?);
        let mut done_at = None;
        loop {
            if self.reconnects {
                database = self.connect()?;
            }
            if self.poll(&database, &mut position).await.is_err() {
                self.failed += 1;
                database = self.connect()?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            self.polls += 1;
            if work.done.load(Ordering::Relaxed) {
                let late = done_at.get_or_insert_with(Instant::now).elapsed() > AT_MOST;
                if late || work.acknowledged().is_subset(&self.found) {
                    return Ok(self);
                }
            }
        }
    }

    /// Checks that nothing was missed, and returns the figures.
    fn check(&self, work: &Work) -> String {
        let acknowledged = work.acknowledged();
        let missed = acknowledged.difference(&self.found).count();
        assert_eq!(missed, 0, "{}", self.name);
        format!(
            "{}: missed {missed} of {} in {} polls, {} of which failed; read {} rows",
            self.name,
            acknowledged.len(),
            self.polls,
            self.failed,
            self.rows
        )
    }
}

/// What the writers do.
#[derive(Default)]
struct Work {
    acknowledged: Mutex<HashSet<GrantId>>,
    done: AtomicBool,
}

impl Work {
    fn acknowledged(&self) -> HashSet<GrantId> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Revokes until enough was acknowledged. What was not acknowledged may be revoked or not.
    async fn write(&self, app: &App) -> Result<()> {
        while self.count() < REVOCATIONS {
            let ids = (0..AT_ONCE).map(|_| random::id(app.clock.now())).collect::<Result<Vec<GrantId>>>()?;
            if revoke(app, &ids).await.is_ok() {
                self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).extend(ids);
            } else {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    async fn write_all(&self, app: &App) -> Result<()> {
        let written = try_join_all((0..WRITERS).map(|_| self.write(app))).await;
        self.done.store(true, Ordering::Relaxed);
        written.map(drop)
    }
}

async fn revoke(app: &App, ids: &[GrantId]) -> Result<()> {
    let mut transaction = RevocationTransaction::begin(app, app.clock.now()).await?;
    for id in ids {
        transaction.revoke(Subject::Grant(*id), Reason::RevokedByUser)?;
    }
    Ok(transaction.commit().await?)
}

/// An app whose writes go to the primary of the pair, whichever that is.
fn writer(server: &TestServer, pair: &Pair) -> Result<App> {
    let mut settings = server.settings.clone();
    settings.set("database.url", &pair.url([&pair.primary, &pair.standby]));
    App::new(config(&settings)?, Clock::System)
}

async fn follow_all(followers: Vec<Follower>, work: &Work) -> Result<Vec<Follower>> {
    join_all(followers.into_iter().map(|follower| follower.follow(work))).await.into_iter().collect()
}

#[test]
fn followers_that_reconnect_or_read_a_pooler_or_a_standby_miss_nothing() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let pair = Pair::start().await?;
        let pooler = Pooler::start(pair.primary.port())?;
        let app = writer(server, &pair)?;
        let pooled = pair.primary.service_url_at(pooler.port, &pair.database);
        let followers = vec![
            Follower::new("reconnecting", &app, vec![pair.primary_url()]),
            Follower::new("behind a pooler", &app, vec![pooled]),
            Follower::new("on a standby", &app, vec![pair.standby_url()]),
        ];
        let work = Work::default();
        let (followers, ()) = tokio::try_join!(follow_all(followers, &work), work.write_all(&app))?;
        for follower in &followers {
            println!("{}", follower.check(&work));
            assert_eq!(follower.failed, 0, "{}", follower.name);
            // Nothing is read twice but the last place of a lane, to compare its id.
            assert!(follower.rows <= work.count() + 16 * follower.polls, "{}", follower.name);
        }
        Ok(())
    })
}

#[test]
fn followers_miss_nothing_when_the_primary_is_killed_and_its_standby_promoted() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let pair = Pair::start().await?;
        let app = writer(server, &pair)?;
        let both = vec![pair.primary_url(), pair.standby_url()];
        let followers = vec![Follower::new("reconnecting", &app, both.clone()), Follower::new("staying", &app, both)];
        let work = Work::default();
        let fail_over = async {
            while work.count() < REVOCATIONS / 2 {
                tokio::task::yield_now().await;
            }
            pair.primary.kill()?;
            let operator = connect(&pair.standby, &pair.database).await?;
            let promoted: bool = operator.query_one("select pg_promote()", &[]).await?.get(0);
            ensure!(promoted, "the standby was not promoted");
            set_standby_names(&operator, "").await?;
            Ok(work.count())
        };
        let (followers, (), before) = tokio::try_join!(follow_all(followers, &work), work.write_all(&app), fail_over)?;
        println!("{before} were acknowledged before the other server took over");
        ensure!(before < work.count(), "nothing was revoked after the failover");
        for follower in &followers {
            println!("{}", follower.check(&work));
            ensure!(follower.failed > 0, "the follower noticed no failover");
        }
        pair.stop().context("the primary was killed already").or(Ok(()))
    })
}
