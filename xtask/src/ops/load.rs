//! Signed-in users who go on working during a drill: each alternately reads and refreshes its session, at a steady pace.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use reqwest::Client;
use serde_json::Value;
use service_testkit::server::refresh_body;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// The tokens of a user.
#[derive(Clone)]
pub(super) struct UserTokens {
    pub(super) access_token: String,
    pub(super) refresh_token: String,
}

/// What happened to requests.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) reads: u64,
    pub(super) refreshes: u64,
    /// How many requests failed, by what they got.
    pub(super) failures: BTreeMap<String, u64>,
    /// Users whose refresh token was refused.
    pub(super) signed_out: u64,
    pub(super) refresh_times: Vec<RefreshTime>,
}

/// When a refresh was sent, and how long the answer took.
pub(super) struct RefreshTime {
    pub(super) began: Instant,
    pub(super) took: Duration,
}

/// Users at work, until [`Load::stop`].
pub(super) struct Load {
    users: JoinSet<Tally>,
    stop: watch::Sender<bool>,
}

impl Load {
    /// Starts one user per session; all of them together send `per_second` requests a second to `url`.
    pub(super) fn start(client: &Client, url: &str, sessions: Vec<UserTokens>, per_second: u32) -> Self {
        let (stop, stopped) = watch::channel(false);
        let count = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
        let pace = Duration::from_secs(1) * count / per_second;
        let mut users = JoinSet::new();
        for session in sessions {
            users.spawn(work(LoadUser { client: client.clone(), url: url.to_owned(), session }, pace, stopped.clone()));
        }
        Self { users, stop }
    }

    /// Lets the users finish what they do; returns what happened to all of them.
    pub(super) async fn stop(mut self) -> Result<Tally> {
        self.stop.send_replace(true);
        let mut sum = Tally::default();
        while let Some(ended) = self.users.join_next().await {
            sum.add(ended?);
        }
        Ok(sum)
    }
}

impl Tally {
    pub(super) fn requests(&self) -> u64 {
        self.reads + self.refreshes
    }

    pub(super) fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// How many requests of this kind failed: `read` or `refresh`.
    pub(super) fn failures_of(&self, kind: &str) -> u64 {
        self.failures.iter().filter(|(what, _)| what.starts_with(&format!("{kind}:"))).map(|(_, count)| count).sum()
    }

    pub(super) fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.refreshes += other.refreshes;
        self.signed_out += other.signed_out;
        self.refresh_times.extend(other.refresh_times);
        for (what, count) in other.failures {
            *self.failures.entry(what).or_default() += count;
        }
    }

    fn fail(&mut self, what: String) {
        *self.failures.entry(what).or_default() += 1;
    }
}

struct LoadUser {
    client: Client,
    url: String,
    session: UserTokens,
}

async fn work(mut user: LoadUser, pace: Duration, stopped: watch::Receiver<bool>) -> Tally {
    let (mut tally, mut ticks) = (Tally::default(), interval(pace));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !*stopped.borrow() {
        ticks.tick().await;
        tally.reads += 1;
        if let Err(what) = user.read().await {
            tally.fail(format!("read: {what}"));
        }
        ticks.tick().await;
        tally.refreshes += 1;
        let began = Instant::now();
        let refreshed = user.refresh().await;
        tally.refresh_times.push(RefreshTime { began, took: began.elapsed() });
        match refreshed {
            Ok(session) => user.session = session,
            Err(what) if what.contains("invalid_grant") => {
                tally.signed_out += 1;
                tally.fail(format!("refresh: {what}"));
                break;
            }
            // The next refresh presents the same token, as clients do.
            Err(what) => tally.fail(format!("refresh: {what}")),
        }
    }
    tally
}

impl LoadUser {
    async fn read(&self) -> Result<(), String> {
        let request = self.client.get(format!("{}/v1/whoami", self.url)).bearer_auth(&self.session.access_token);
        answer(request).await.map(drop)
    }

    async fn refresh(&self) -> Result<UserTokens, String> {
        let body = refresh_body(&self.session.refresh_token);
        let answer = answer(self.client.post(format!("{}/oauth/token", self.url)).json(&body)).await?;
        let field = |name: &str| answer[name].as_str().map(str::to_owned).ok_or_else(|| format!("no {name}"));
        Ok(UserTokens { access_token: field("access_token")?, refresh_token: field("refresh_token")? })
    }
}

/// Sends a request; the error says in a few words what came instead of 200.
async fn answer(request: reqwest::RequestBuilder) -> Result<Value, String> {
    let response = request.send().await.map_err(|error| kind(&error).to_owned())?;
    let status = response.status();
    let body: Value = response.json().await.unwrap_or_default();
    if status == 200 { Ok(body) } else { Err(format!("{status} {}", body["error"].as_str().unwrap_or_default())) }
}

fn kind(error: &reqwest::Error) -> &'static str {
    if error.is_connect() {
        "no connection"
    } else if error.is_timeout() {
        "no answer in time"
    } else {
        "a broken connection"
    }
}
