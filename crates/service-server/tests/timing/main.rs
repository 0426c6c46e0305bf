//! Whether the time an answer takes tells who has an account. A program of its own, because it wants the machine to
//! itself: programs of tests run one after the other.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;
use service_testkit::{
    answer::{Answer, Door},
    server::{Setup, TestServer, otp_exchange},
};

/// By how much the medians may differ: what noise makes, and far less than one query.
const INDISTINGUISHABLE: Duration = Duration::from_millis(1);
/// Pairs of requests that are compared.
const PAIRS: u32 = 200;

#[test]
fn no_answer_tells_by_its_time_who_has_an_account_lo_01_ot_01() -> Result<()> {
    Setup::default().set("limits.otp_failures", "100000+100000").run(async |server| {
        make_accounts(server, PAIRS).await?;
        let (mut options, mut asking, mut failing) = (Pairs::new(), Pairs::new(), Pairs::new());
        for number in 1..=PAIRS {
            let bodies = ["known", "other"].map(|kind| json!({ "email": format!("{kind}{number}@acme.test") }));
            options.take(number, &server.door, "/v1/login-options", bodies.clone()).await?;
            let asked = asking.take(number, &server.door, "/v1/otp-tokens", bodies).await?;
            let bodies = asked.each_ref().map(|answer| otp_exchange(answer.field("otpId"), "00000000", "read"));
            failing.take(number, &server.door, "/oauth/token", bodies).await?;
        }
        options.assert_alike("options");
        asking.assert_alike("asking");
        failing.assert_alike("failing");
        Ok(())
    })
}

/// So many accounts `known1@acme.test` and so on.
async fn make_accounts(server: &TestServer, number: u32) -> Result<()> {
    let made = format!(
        "with made as (insert into users (id, email, created_at) \
             select gen_random_uuid(), 'known' || n || '@acme.test', now() from generate_series(1, {number}) n \
             returning id, email) \
         insert into emails (address, user_id, verified_at) select email, id, now() from made"
    );
    server.sql(&made).await.map(drop)
}

/// How long the two kinds of request take, side by side, the first of each pair by turns.
struct Pairs([Vec<Duration>; 2]);

impl Pairs {
    fn new() -> Self {
        Self([Vec::new(), Vec::new()])
    }

    /// Sends both bodies of pair `number`; returns their answers in the order given.
    async fn take(
        &mut self,
        number: u32,
        door: &Door,
        path: &str,
        bodies: [serde_json::Value; 2],
    ) -> Result<[Answer; 2]> {
        let mut answers = [None, None];
        for turn in 0..2 {
            let place = (number as usize + turn) % 2;
            let began = Instant::now();
            answers[place] = Some(door.post(path, &bodies[place]).await?);
            self.0[place].push(began.elapsed());
        }
        let [first, second] = answers;
        Ok([first.context("not asked")?, second.context("not asked")?])
    }

    #[track_caller]
    fn assert_alike(mut self, what: &str) {
        let [first, second] = self.0.each_mut().map(|times| {
            times.sort();
            times[times.len() / 2]
        });
        assert!(first.abs_diff(second) < INDISTINGUISHABLE, "{what}: {first:?} and {second:?}");
    }
}
