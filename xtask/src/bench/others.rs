//! The effect of an attack on other users: refreshes and sign-ins in rounds, without and with the attack.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    leaks::Leaks,
    mailbox::Mailbox,
    response::{TestClient, TestResponse},
    server::{otp_exchange, refresh_body, request_code, signed_in},
};

use super::median;
use crate::say_error;

pub(super) struct Others<'a> {
    pub(super) http: &'a TestClient,
    pub(super) mailbox: &'a Mailbox,
    pub(super) leaks: &'a Leaks,
    /// Counts addresses, so that each is used once.
    pub(super) made: AtomicU64,
}

/// Durations of requests in milliseconds, and the number of 503 responses.
#[derive(Default)]
struct Noticed {
    times: Vec<f64>,
    unavailable: usize,
}

impl Noticed {
    fn add(&mut self, began: Instant, response: &TestResponse) -> Result<()> {
        let status = response.status.as_u16();
        ensure!(matches!(status, 200 | 201 | 503), "another user got {status}: {}", response.text);
        self.unavailable += usize::from(status == 503);
        self.times.push(began.elapsed().as_secs_f64() * 1_000.0);
        Ok(())
    }

    fn p99(&mut self) -> f64 {
        self.times.sort_by(f64::total_cmp);
        let place = (self.times.len() * 99 / 100).min(self.times.len().saturating_sub(1));
        self.times.get(place).copied().unwrap_or_default()
    }
}

impl Others<'_> {
    fn address(&self) -> String {
        format!("other{}@many.test", self.made.fetch_add(1, Ordering::Relaxed))
    }

    async fn refresh_until(&self, until: Instant) -> Result<Noticed> {
        let (otp_id, code) = request_code(self.http, self.mailbox, self.leaks, &self.address()).await?;
        let response = self.http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read")).await?;
        let mut token = signed_in(&response)?.refresh_token;
        let mut noticed = Noticed::default();
        while Instant::now() < until {
            let began = Instant::now();
            let response = self.http.post("/oauth/token", &refresh_body(&token)).await?;
            noticed.add(began, &response)?;
            if response.status == 200 {
                response.field("refresh_token").clone_into(&mut token);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(noticed)
    }

    async fn sign_in_until(&self, until: Instant) -> Result<Noticed> {
        let mut noticed = Noticed::default();
        while Instant::now() < until {
            let address = self.address();
            let began = Instant::now();
            let asked = self.http.post("/v1/otp-tokens", &serde_json::json!({ "email": address })).await?;
            noticed.add(began, &asked)?;
            if asked.status != 201 {
                continue;
            }
            let code = self.mailbox.next_mail_to(&address).await?.code().context("the mail holds no code")?;
            let began = Instant::now();
            let response = self.http.post("/oauth/token", &otp_exchange(asked.field("otpId"), &code, "read")).await?;
            noticed.add(began, &response)?;
        }
        Ok(noticed)
    }

    async fn notice(&self, duration: Duration) -> Result<Noticed> {
        let until = Instant::now() + duration;
        let (a, b, c, mut all) = tokio::try_join!(
            self.refresh_until(until),
            self.refresh_until(until),
            self.refresh_until(until),
            self.sign_in_until(until)
        )?;
        for noticed in [a, b, c] {
            all.times.extend(noticed.times);
            all.unavailable += noticed.unavailable;
        }
        Ok(all)
    }

    /// Compares rounds without and with an attack; returns the median of the ratios of their 99th percentiles.
    pub(super) async fn compare(
        &self,
        name: &str,
        rounds: usize,
        duration: Duration,
        attack: impl AsyncFn(Instant) -> Result<()>,
    ) -> Result<f64> {
        let mut ratios = Vec::new();
        for round in 1..=rounds {
            let mut quiet = self.notice(duration).await?;
            let until = Instant::now() + duration;
            let (mut attacked, ()) = tokio::try_join!(self.notice(duration), attack(until))?;
            let (before, during) = (quiet.p99(), attacked.p99());
            ratios.push(during / before);
            say_error(&format!(
                "{name}, round {round}: p99 of others {before:.1} ms quiet ({} requests), {during:.1} ms attacked ({}), \
                 503: {} and {}",
                quiet.times.len(),
                attacked.times.len(),
                quiet.unavailable,
                attacked.unavailable
            ));
            ensure!(attacked.unavailable == 0, "others got 503 while {name} went on");
        }
        Ok(median(&ratios))
    }
}
