//! Rate limits that all nodes share, stored in PostgreSQL.
//!
//! The database stores an HMAC of what is limited, so that email addresses and networks cannot be read there.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Serialize;
use service_rules::{
    Timestamp,
    limits::{Limited, Rate, Window, judge_windows, used_of_windows},
    network_rates::NetworkRates,
};

use crate::{
    app::App,
    crypto::root_keys::Purpose,
    database::{Connection, Error},
    store,
};

/// The only refusal of a flow is that a rate limit is reached.
#[derive(Debug, thiserror::Error)]
pub enum RateLimitError {
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// What [`Limit::take_and_measure`] found.
pub enum Measured {
    /// There was room; this part of the rate is used now.
    Taken {
        used: f64,
    },
    Exhausted(Limited),
}

/// How much of a limit is used, for an operator.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitState {
    /// The part that is used: 0 is nothing, 1 is all of it.
    pub used: f64,
    /// Seconds until another request can succeed. Absent: one can now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
}

/// A rate limit for one email address, network or client, or for all callers.
pub struct Limit<'a> {
    pub policy: &'static str,
    pub whom: &'a [u8],
}

impl Limit<'_> {
    fn key(&self, app: &App) -> Vec<u8> {
        app.root_keys.name(Purpose::LimitKey, &[self.policy.as_bytes(), self.whom]).to_vec()
    }

    /// Counts one request in every window. `Some`: a window had no room.
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
        app.metrics.limit_reached(self.policy);
        let hits = store::recent_hits::find(db, &key).await?;
        Ok(Some(judge_windows(self.policy, windows, &hits, now).unwrap_or_else(|| self.brief(windows))))
    }

    /// Removes the request that was counted at `now`.
    pub async fn give_back(&self, app: &App, db: &Connection, now: Timestamp) -> Result<(), Error> {
        store::recent_hits::give_back(db, &self.key(app), now).await
    }

    /// Counts one request at a steady rate. `Some`: there was no room.
    pub async fn take_at_rate(
        &self,
        app: &App,
        db: &Connection,
        rate: Rate,
        now: Timestamp,
    ) -> Result<Option<Limited>, Error> {
        match self.take_and_measure(app, db, rate, now).await? {
            Measured::Taken { .. } => Ok(None),
            Measured::Exhausted(limited) => Ok(Some(limited)),
        }
    }

    /// Counts one request at a steady rate, and measures which part of the rate is used.
    pub async fn take_and_measure(
        &self,
        app: &App,
        db: &Connection,
        rate: Rate,
        now: Timestamp,
    ) -> Result<Measured, Error> {
        let key = self.key(app);
        if let Some(tat) = store::rates::take(db, &key, rate, now).await? {
            return Ok(Measured::Taken { used: rate.used(tat, now) });
        }
        app.metrics.limit_reached(self.policy);
        let tat = store::rates::find(db, &key).await?.unwrap_or(now);
        Ok(Measured::Exhausted(rate.limited(self.policy, tat, now)))
    }

    /// Gives back the room of this many requests at a steady rate, also of a fraction of one.
    pub async fn give_back_at_rate(&self, app: &App, db: &Connection, rate: Rate, requests: f64) -> Result<(), Error> {
        store::rates::give_back(db, &self.key(app), rate, requests).await
    }

    /// Whether the rate has no room left, without counting a request.
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

    /// Measures how much of the windows is used, without counting a request.
    pub async fn measure_windows(
        &self,
        app: &App,
        db: &Connection,
        windows: &[Window],
        now: Timestamp,
    ) -> Result<LimitState, Error> {
        let hits = store::recent_hits::find(db, &self.key(app)).await?;
        let retry_after = judge_windows(self.policy, windows, &hits, now).map(|limited| limited.retry_after);
        Ok(LimitState { used: used_of_windows(windows, &hits, now), retry_after })
    }

    /// Measures how much of a steady rate is used, without counting a request.
    pub async fn measure_rate(
        &self,
        app: &App,
        db: &Connection,
        rate: Rate,
        now: Timestamp,
    ) -> Result<LimitState, Error> {
        let tat = store::rates::find(db, &self.key(app)).await?.unwrap_or(now);
        let limited = rate.is_exhausted(tat, now).then(|| rate.limited(self.policy, tat, now));
        Ok(LimitState { used: rate.used(tat, now), retry_after: limited.map(|limited| limited.retry_after) })
    }

    /// Forgets what was counted.
    pub async fn reset(&self, app: &App, db: &Connection) -> Result<(), Error> {
        let key = self.key(app);
        store::recent_hits::delete(db, &key).await?;
        store::rates::delete(db, &key).await
    }

    /// The shortest wait, for when the last hit left its window between the two statements.
    fn brief(&self, windows: &[Window]) -> Limited {
        let (quota, window_seconds) = windows.first().map_or((1, 1), |window| (window.count, window.seconds));
        Limited { policy: self.policy, quota, window_seconds, retry_after: 1 }
    }
}

/// A rate limit for every network that an address belongs to, from the narrowest to the widest.
pub struct NetworkLimit {
    pub policy: &'static str,
    pub address: IpAddr,
    pub rates: NetworkRates,
}

impl NetworkLimit {
    /// The networks of the address with their rates. In a network that an operator raised each request counts for less, also
    /// in the wider networks around it, so that its requests do not use up the room of its neighbors.
    fn networks(&self, app: &App) -> Vec<(IpNet, Rate)> {
        let factor = app.config.limits.raised_networks.factor(self.address.to_canonical());
        self.rates.times(factor).of(self.address)
    }

    /// Counts one request in every network. `Some`: a network had no room. Wider networks are not counted then, so that a
    /// network that is refused does not use up their room.
    pub async fn take(&self, app: &App, db: &Connection, now: Timestamp) -> Result<Option<Limited>, Error> {
        for (network, rate) in self.networks(app) {
            let network = network.to_string();
            let limit = Limit { policy: self.policy, whom: network.as_bytes() };
            if let Some(limited) = limit.take_at_rate(app, db, rate, now).await? {
                return Ok(Some(limited));
            }
        }
        Ok(None)
    }

    /// Measures every network, without counting a request.
    pub async fn measure(&self, app: &App, db: &Connection, now: Timestamp) -> Result<Vec<(IpNet, LimitState)>, Error> {
        let mut measured = Vec::new();
        for (network, rate) in self.networks(app) {
            let whom = network.to_string();
            let limit = Limit { policy: self.policy, whom: whom.as_bytes() };
            measured.push((network, limit.measure_rate(app, db, rate, now).await?));
        }
        Ok(measured)
    }

    /// Forgets what was counted in every network.
    pub async fn reset(&self, app: &App, db: &Connection) -> Result<(), Error> {
        for (network, _) in self.networks(app) {
            let whom = network.to_string();
            Limit { policy: self.policy, whom: whom.as_bytes() }.reset(app, db).await?;
        }
        Ok(())
    }

    /// Removes the requests that [`Self::take`] counted.
    pub async fn give_back(&self, app: &App, db: &Connection) -> Result<(), Error> {
        for (network, rate) in self.networks(app) {
            let network = network.to_string();
            Limit { policy: self.policy, whom: network.as_bytes() }.give_back_at_rate(app, db, rate, 1.0).await?;
        }
        Ok(())
    }
}
