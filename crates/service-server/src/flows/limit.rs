//! Limits that all nodes share, kept in PostgreSQL.
//!
//! What is limited is known to the database by an HMAC only: addresses and networks are not to be read there.

use std::net::IpAddr;

use service_rules::{
    Timestamp,
    limits::{Limited, Rate, Window, judge_windows},
    network,
};

use crate::{
    app::App,
    database::{Connection, Error},
    store,
    vault::Purpose,
};

/// A limit by name, for one address, network or everybody.
pub struct Limit<'a> {
    pub policy: &'static str,
    pub whom: &'a [u8],
}

impl Limit<'_> {
    fn key(&self, app: &App) -> Vec<u8> {
        app.vault.name(Purpose::LimitKey, &[self.policy.as_bytes(), self.whom]).to_vec()
    }

    /// Takes one place in every window; `Some`: there was none.
    pub async fn take_in_windows(
        &self,
        app: &App,
        db: &Connection,
        windows: &[Window],
        now: Timestamp,
    ) -> Result<Option<Limited>, Error> {
        let key = self.key(app);
        if store::recent_hits::take(db, &key, windows, now).await? {
            return Ok(None);
        }
        let hits = store::recent_hits::find(db, &key).await?;
        Ok(Some(judge_windows(self.policy, windows, &hits, now).unwrap_or_else(|| self.brief(windows))))
    }

    /// Gives back a place that was taken at `now`.
    pub async fn give_back(&self, app: &App, db: &Connection, now: Timestamp) -> Result<(), Error> {
        store::recent_hits::give_back(db, &self.key(app), now).await
    }

    /// Takes one place at a steady rate; `Some`: there was none.
    pub async fn take_at_rate(
        &self,
        app: &App,
        db: &Connection,
        rate: Rate,
        now: Timestamp,
    ) -> Result<Option<Limited>, Error> {
        let key = self.key(app);
        if store::rates::take(db, &key, rate, now).await? {
            return Ok(None);
        }
        let tat = store::rates::find(db, &key).await?.unwrap_or(now);
        Ok(Some(rate.limited(self.policy, tat, now)))
    }

    /// Whether the rate has no room left, without taking any.
    pub async fn is_exhausted(
        &self,
        app: &App,
        db: &Connection,
        rate: Rate,
        now: Timestamp,
    ) -> Result<Option<Limited>, Error> {
        let tat = store::rates::find(db, &self.key(app)).await?.unwrap_or(now);
        Ok(rate.is_exhausted(tat, now).then(|| rate.limited(self.policy, tat, now)))
    }

    /// For the moment in which the last hit left its window between the two statements.
    fn brief(&self, windows: &[Window]) -> Limited {
        let (quota, window_seconds) = windows.first().map_or((1, 1), |window| (window.count, window.seconds));
        Limited { policy: self.policy, quota, window_seconds, retry_after: 1 }
    }
}

/// What limits by network are counted by.
#[must_use]
pub fn network_of(address: IpAddr) -> String {
    network::counted(address).to_string()
}
