//! Codes under races made on purpose: many callers at once, several nodes, and a restart.

use std::path::Path;

use anyhow::{Context as _, Result};
use futures_util::future::{join_all, try_join_all};
use serde_json::json;
use service_api::oauth::{OTP_GRANT, SERVICE_CLI, SERVICE_WEB};
use service_testkit::{
    mailbox::Mail,
    process::Process,
    response::{TestClient, TestResponse},
    server::{Setup, TestServer, otp_exchange, request_code},
};

use crate::support::otp::{ROOMY, ask, assert_refused, count, wrong};

const CROWD: u32 = 100;

/// On a slow machine a crowd waits longer for the database than callers should; being told so is another test's.
fn patient() -> Setup {
    Setup::default().set("database.deadline_seconds", "4.9")
}

fn with_status(responses: &[TestResponse], status: u16) -> usize {
    responses.iter().filter(|response| response.status == status).count()
}

#[test]
fn a_crowd_of_wrong_codes_is_counted_to_five_ot_07() -> Result<()> {
    patient().run(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let codes = (1..=CROWD).map(|step| wrong(&code, step)).collect::<Result<Vec<_>>>()?;
        let responses = try_join_all(codes.iter().map(|code| server.exchange(&otp_id, code, "read"))).await?;
        for response in &responses {
            assert_refused(response, 400, "invalid_grant");
        }
        assert_eq!(server.sql("select attempts from otps").await?.as_deref(), Some("5"));
        // The others were refused before anything was compared, or counted against the address.
        assert_eq!(count(server, "audit_events where event = 'otp.failed'").await?, 5);
        assert_eq!(server.sql("select max(cardinality(hits)) from recent_hits").await?.as_deref(), Some("5"));

        assert_refused(&server.exchange(&otp_id, &code, "read").await?, 400, "invalid_grant");
        assert_eq!(count(server, "grants").await? + count(server, "users").await?, 0);
        Ok(())
    })
}

#[test]
fn a_crowd_with_the_right_code_gets_in_once_ot_08() -> Result<()> {
    patient().run(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let crowd = (0..CROWD).map(|_| server.exchange(&otp_id, &code, "read"));
        let responses = try_join_all(crowd).await?;
        assert_eq!(with_status(&responses, 200), 1);
        for refused in responses.iter().filter(|response| response.status != 200) {
            assert_refused(refused, 400, "invalid_grant");
        }
        assert_eq!((count(server, "grants").await?, count(server, "users").await?), (1, 1));
        assert_eq!(count(server, "audit_events where event = 'sign_in.succeeded'").await?, 1);
        // Every try counts, also a right one that comes too late; none counts once the code is spent.
        assert_eq!(server.sql("select attempts between 1 and 5 from otps").await?.as_deref(), Some("t"));
        Ok(())
    })
}

#[test]
fn two_submissions_of_one_right_code_are_one_sign_in_and_one_refusal_rv_31() -> Result<()> {
    let setup = patient().set("limits.otp_failures", "100000+100000");
    setup.set("limits.otp_failures_per_address", "2/3600").run(async |server| {
        for round in 0..40 {
            let email = format!("person{round}@acme.test");
            let (otp_id, code) = server.request_code(&email).await?;
            let both = [server.exchange(&otp_id, &code, "read"), server.exchange(&otp_id, &code, "read")];
            let mut responses = try_join_all(both).await?;
            responses.sort_by_key(|response| response.status);
            assert_eq!(responses[0].status, 200, "round {round}: {}", responses[0].text);
            assert_refused(&responses[1], 400, "invalid_grant");
            // Neither left a place taken behind.
            let (otp_id, code) = server.request_code(&email).await?;
            for step in 1..=2 {
                assert_refused(&server.exchange(&otp_id, &wrong(&code, step)?, "read").await?, 400, "invalid_grant");
            }
        }
        Ok(())
    })
}

#[test]
fn the_right_code_among_a_crowd_of_wrong_ones_gets_in_once_or_not_ot_08() -> Result<()> {
    patient().run(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let mut codes = (1..CROWD).map(|step| wrong(&code, step)).collect::<Result<Vec<_>>>()?;
        codes.insert(3, code.clone());
        codes.push(code.clone());
        let responses = try_join_all(codes.iter().map(|code| server.exchange(&otp_id, code, "read"))).await?;
        let opened = with_status(&responses, 200);
        assert_eq!(opened + with_status(&responses, 400), responses.len());
        assert!(opened <= 1);
        assert_eq!(count(server, "grants").await?, i64::try_from(opened)?);
        let tries: i64 = server.sql("select attempts from otps").await?.context("the code is gone")?.parse()?;
        let failed = count(server, "audit_events where event = 'otp.failed'").await?;
        assert_eq!(tries, failed + i64::try_from(opened)?);
        assert!(tries <= 5);
        Ok(())
    })
}

#[test]
fn two_first_sign_ins_at_once_make_one_account_ot_04_ot_08() -> Result<()> {
    patient().set("limits.otp_sends_per_address", ROOMY).run(async |server| {
        for round in 0..10 {
            let email = format!("person{round}@acme.test");
            let mut exchanges = Vec::new();
            for client_id in [SERVICE_WEB, SERVICE_CLI] {
                let body = json!({ "email": email, "clientId": client_id });
                let otp_id = server.http.post("/v1/otp-tokens", &body).await?.field("otpId").to_owned();
                let code = server.mailbox.next_mail_to(&email).await?.code().context("the mail holds no code")?;
                server.leaks.register("otp code", &code);
                exchanges.push(json!({
                    "grant_type": OTP_GRANT, "client_id": client_id, "otp_id": otp_id, "code": code
                }));
            }
            let responses = try_join_all(exchanges.iter().map(|body| server.http.post("/oauth/token", body))).await?;
            assert_eq!(with_status(&responses, 200), 2);
            assert_eq!((count(server, "users").await?, count(server, "emails").await?), (round + 1, round + 1));
            let of_one = "(select 1 from grants group by user_id having count(*) = 2) twice";
            assert_eq!(count(server, of_one).await?, round + 1);
        }
        Ok(())
    })
}

#[test]
fn a_crowd_that_asks_for_one_address_gets_one_code_ot_11_ot_12() -> Result<()> {
    patient().set("limits.otp_sends_per_context", "1/60").run(async |server| {
        let responses = try_join_all((0..50).map(|_| ask(server, "ann@acme.test"))).await?;
        assert_eq!((with_status(&responses, 201), with_status(&responses, 429)), (1, 49));
        assert_eq!(
            (count(server, "otps").await?, server.mailbox.next_mail_to("ann@acme.test").await.is_ok()),
            (1, true)
        );
        assert_eq!(count(server, "audit_events where event = 'otp.requested'").await?, 1);
        Ok(())
    })
}

/// Nodes that are processes of their own, on the database of the test.
struct Nodes<'a> {
    server: &'a TestServer,
    running: Vec<Process>,
}

impl<'a> Nodes<'a> {
    fn start(server: &'a TestServer) -> Result<Self> {
        let running = (0..3).map(|_| start_node(server)).collect::<Result<_>>()?;
        Ok(Self { server, running })
    }

    /// One node crashes, and another takes its place.
    fn replace_one(&mut self) -> Result<()> {
        self.running[0].kill()?;
        self.assert_clean();
        self.running[0] = start_node(self.server)?;
        Ok(())
    }

    fn restart_all(&mut self) -> Result<()> {
        for _ in 0..self.running.len() {
            self.replace_one()?;
            self.running.rotate_left(1);
        }
        Ok(())
    }

    /// So many requests, all at once, to one node after another.
    async fn fire(
        &self,
        times: usize,
        path: &str,
        body: impl Fn(usize) -> serde_json::Value,
    ) -> Result<Vec<TestResponse>> {
        let clients: Vec<&TestClient> = self.running.iter().map(|node| &node.http).collect();
        let requests = (0..times).map(|n| {
            let (http, body) = (clients[n % clients.len()], body(n));
            async move { http.post(path, &body).await }
        });
        join_all(requests).await.into_iter().collect()
    }

    fn assert_clean(&self) {
        for code in self.server.mailbox.mails().iter().filter_map(Mail::code) {
            self.server.leaks.register("otp code", &code);
        }
        for node in &self.running {
            self.server.leaks.assert_clean("a node's log", &node.log());
            self.server.leaks.assert_clean("a node's refusals", &node.http.refusals());
        }
    }
}

fn start_node(server: &TestServer) -> Result<Process> {
    Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, &server.leaks)
}

/// Thirty requests at once get `allowed` codes; after one node is replaced and after all are restarted there are no more.
async fn check_sends(server: &TestServer, allowed: usize, body: impl Fn(usize) -> serde_json::Value) -> Result<()> {
    let mut nodes = Nodes::start(server)?;
    let responses = nodes.fire(30, "/v1/otp-tokens", &body).await?;
    assert_eq!((with_status(&responses, 201), with_status(&responses, 429)), (allowed, 30 - allowed));
    nodes.replace_one()?;
    assert_eq!(with_status(&nodes.fire(9, "/v1/otp-tokens", &body).await?, 429), 9);
    nodes.restart_all()?;
    for refused in nodes.fire(9, "/v1/otp-tokens", &body).await? {
        assert_refused(&refused, 429, "rate_limited");
    }
    let sent = count(server, "audit_events where event = 'otp.requested'").await?;
    assert_eq!(usize::try_from(sent)?, allowed);
    nodes.assert_clean();
    Ok(())
}

#[test]
fn three_nodes_and_a_restart_send_no_code_too_many_ot_12() -> Result<()> {
    patient()
        .on_system_clock()
        .set("limits.otp_sends_per_address", "3/3600")
        .run(async |server| check_sends(server, 3, |_| json!({ "email": "ann@acme.test" })).await)?;
    patient()
        .on_system_clock()
        .set("limits.otp_sends_per_network", "8+1")
        .run(async |server| check_sends(server, 8, |n| json!({ "email": format!("person{n}@acme.test") })).await)
}

#[test]
fn three_nodes_and_a_restart_take_no_wrong_code_too_many_ot_07_ot_12() -> Result<()> {
    let setup = patient().on_system_clock().set("limits.otp_sends_per_address", ROOMY);
    setup.set("limits.otp_failures_per_address", "7/3600").run(async |server| {
        let mut nodes = Nodes::start(server)?;
        let mut taken = Vec::new();
        // Five tries of the first code, two of the second, none of the third.
        for restart in [Nodes::replace_one, Nodes::replace_one, Nodes::restart_all] {
            let (otp_id, code) =
                request_code(&nodes.running[1].http, &server.mailbox, &server.leaks, "ann@acme.test").await?;
            let codes = (1..=12).map(|step| wrong(&code, step)).collect::<Result<Vec<_>>>()?;
            let responses = nodes.fire(12, "/oauth/token", |n| otp_exchange(&otp_id, &codes[n], "read")).await?;
            assert_eq!(with_status(&responses, 400) + with_status(&responses, 429), 12);
            taken.push(count(server, "audit_events where event = 'otp.failed'").await?);
            restart(&mut nodes)?;
        }
        assert_eq!(taken, [5, 7, 7]);

        let (otp_id, code) =
            request_code(&nodes.running[0].http, &server.mailbox, &server.leaks, "ann@acme.test").await?;
        for refused in nodes.fire(3, "/oauth/token", |_| otp_exchange(&otp_id, &code, "read")).await? {
            assert_refused(&refused, 429, "rate_limited");
        }
        assert_eq!(count(server, "grants").await?, 0);
        nodes.assert_clean();
        Ok(())
    })
}
