//! Whether the time an answer takes tells who has an account. A program of its own, because it wants the machine to
//! itself: programs of tests run one after the other.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use service_rules::email::Address;
use service_server::{
    crypto::random,
    flows::sign_in::email_key::{domain_key, email_key},
    store::{self, routed_domains::Route},
};
use service_testkit::{
    response::{TestClient, TestResponse},
    server::{Setup, TestServer, otp_exchange},
};

/// By how many seconds half of the pairs may differ: more than noise makes, even on a machine that is busy with others.
const INDISTINGUISHABLE: f64 = 0.002;
/// Pairs of requests that are compared.
const PAIRS: u32 = 200;

/// Returns when no other test measures.
fn alone() -> MutexGuard<'static, ()> {
    static MEASURING: Mutex<()> = Mutex::new(());
    MEASURING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn no_answer_tells_by_its_time_who_has_an_account_lo_01_ot_01() -> Result<()> {
    let _alone = alone();
    Setup::default().set("limits.otp_failures", "100000+100000").run(async |server| {
        make_accounts(server, PAIRS).await?;
        let (mut options, mut asking, mut failing) = (Pairs::default(), Pairs::default(), Pairs::default());
        for number in 1..=PAIRS {
            let bodies = ["known", "other"].map(|kind| json!({ "email": format!("{kind}{number}@acme.test") }));
            options.take(&server.http, "/v1/login-options", bodies.clone()).await?;
            let asked = asking.take(&server.http, "/v1/otp-tokens", bodies).await?;
            let bodies = asked.each_ref().map(|response| otp_exchange(response.field("otpId"), "00000000", "read"));
            failing.take(&server.http, "/oauth/token", bodies).await?;
        }
        options.assert_alike("options");
        asking.assert_alike("asking");
        failing.assert_alike("failing");
        Ok(())
    })
}

/// Pairs of requests for login options that are compared.
const OPTION_PAIRS: usize = 2_000;

/// Where single sign-on is required, an address with an account, one without and one that is disabled get equal bytes in equal
/// time.
#[test]
fn login_options_depend_on_the_domain_only_lo_01_lo_02() -> Result<()> {
    let _alone = alone();
    Setup::default().run(async |server| {
        make_accounts(server, 3).await?;
        require_single_sign_on(server, "acme.test").await?;
        server.sql("update users set disabled_at = now() where email = 'known2@acme.test'").await?;
        let addresses = ["known1@acme.test", "other1@acme.test", "known2@acme.test"];
        for (what, kinds) in [("known and unknown", [0, 1]), ("known and disabled", [0, 2])] {
            let bodies = kinds.map(|kind| json!({ "email": addresses[kind] }));
            let mut pairs = Pairs::default();
            for _ in 0..OPTION_PAIRS {
                let [one, other] = pairs.take(&server.http, "/v1/login-options", bodies.clone()).await?;
                ensure!(one.body["methods"][0]["type"] == "sso", "{}", one.text);
                ensure!(one.text == other.text && one.status == other.status, "{what}: {} {}", one.text, other.text);
            }
            pairs.assert_alike(what);
        }
        Ok(())
    })
}

/// Lets the users of a domain sign in at their company only.
async fn require_single_sign_on(server: &TestServer, domain: &str) -> Result<()> {
    let now = server.now();
    let (workspace_id, connection_id) = (random::id(now)?, random::id(now)?);
    let db = server.app.database.begin().await?;
    let key = domain_key(&server.app, &db, domain).await?;
    let route = Route { workspace_id, connection_id, name: "Acme".into(), required: true };
    ensure!(store::routed_domains::replace(&db, key, workspace_id, Some(&route), now).await?, "the domain is taken");
    Ok(db.commit().await?)
}

/// So many accounts `known1@acme.test` and so on.
async fn make_accounts(server: &TestServer, number: u32) -> Result<()> {
    let (app, now) = (&server.app, server.now());
    for number in 1..=number {
        let address = Address::parse(&format!("known{number}@acme.test")).map_err(|_| anyhow::anyhow!("no address"))?;
        let db = app.database.begin().await?;
        let (user_id, email) = (random::id(now)?, email_key(app, &db, &address).await?);
        store::emails::claim(&db, email, user_id, now).await?;
        store::users::insert(&db, user_id, &address, now).await?;
        // Where the service looks for it.
        ensure!(store::emails::find_user(&db, email).await?.is_some(), "there is no such account");
        db.commit().await?;
    }
    Ok(())
}

/// By how many seconds the first of two kinds of request takes longer, pair by pair.
///
/// Whatever else slows the machine down slows both of a pair down, so their difference is steadier than either.
#[derive(Default)]
struct Pairs(Vec<f64>);

impl Pairs {
    /// Sends both bodies of a pair, the first one first in every other pair; returns their answers in the order given.
    async fn take(&mut self, http: &TestClient, path: &str, bodies: [Value; 2]) -> Result<[TestResponse; 2]> {
        let ask = async |body: &Value| {
            let began = Instant::now();
            anyhow::Ok((http.post(path, body).await?, began.elapsed().as_secs_f64()))
        };
        let [first, second] = if self.0.len().is_multiple_of(2) {
            [ask(&bodies[0]).await?, ask(&bodies[1]).await?]
        } else {
            let second = ask(&bodies[1]).await?;
            [ask(&bodies[0]).await?, second]
        };
        self.0.push(first.1 - second.1);
        Ok([first.0, second.0])
    }

    #[track_caller]
    fn assert_alike(mut self, what: &str) {
        self.0.sort_by(f64::total_cmp);
        let median = self.0[self.0.len() / 2];
        assert!(median.abs() < INDISTINGUISHABLE, "{what}: the first takes {median} s longer");
    }
}
