//! OTP creation: `POST /v1/otp-tokens` against `pgbench` running the same statements.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Result, ensure};
use service_testkit::load;

use super::{
    Bench, Measured,
    pgbench::{self, fill, statement},
};

const RATES: &str = include_str!("../../../crates/service-server/src/store/rates.rs");
const RECENT_HITS: &str = include_str!("../../../crates/service-server/src/store/recent_hits.rs");
const OTPS: &str = include_str!("../../../crates/service-server/src/store/otps.rs");
const OUTBOX: &str = include_str!("../../../crates/service-server/src/store/outbox.rs");
const AUDIT_EVENTS: &str = include_str!("../../../crates/service-server/src/store/audit_events.rs");

pub(super) async fn measure(bench: &Bench) -> Result<Measured> {
    let script = tempfile::NamedTempFile::new()?;
    std::fs::write(script.path(), script_text()?)?;
    let ours: SocketAddr = bench.server.door.url.trim_start_matches("http://").parse()?;
    let mut measured = Measured { name: "otp_creation", ours: Vec::new(), bare: Vec::new() };
    for _ in 0..bench.rounds {
        measured.bare.push(pgbench::run(bench, script.path())?);
        let seen = load::run(ours, bench.connections, bench.round, |_, _| request()).await?;
        ensure!(seen.failures == 0, "{} of {} requests failed", seen.failures, seen.requests);
        measured.ours.push(seen.per_second());
    }
    Ok(measured)
}

/// Every request has an address and a network of its own, as in life.
fn request() -> Vec<u8> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let body = format!("{{\"email\":\"user{number}@acme.test\"}}");
    let [_, a, b, c] = u32::try_from(number).unwrap_or_default().to_be_bytes();
    format!(
        "POST /v1/otp-tokens HTTP/1.1\r\nHost: service.test\r\nX-Forwarded-For: 10.{a}.{b}.{c}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// What `flows/request_otp.rs` runs, with values that pgbench can make: the network's limit, then the transaction.
fn script_text() -> Result<String> {
    let now = "now()";
    let address = "('user' || (:who)::bigint || '@bare.test')";
    let key = "sha256(((:who)::bigint)::text::bytea)";
    let network = fill(statement(RATES, "insert into rates")?, &[key, now, "120.0::float8", "1200.0::float8"]);
    let statements = [
        fill(
            statement(RECENT_HITS, "insert into recent_hits")?,
            &[key, now, "array[1,5,10]::bigint[]", "array[60,3600,86400]::float8[]", "86400.0::float8"],
        ),
        fill(statement(OTPS, "delete from otps where address")?, &[address, "''"]),
        fill(
            statement(OTPS, "insert into otps")?,
            &[address, "''", "gen_random_uuid()", "1::smallint", key, now, "now() + interval '600 s'"],
        ),
        fill(
            statement(OUTBOX, "insert into outbox")?,
            &["gen_random_uuid()", &format!("{key} || {key} || {key} || {key} || {key} || {key}"), now, now],
        ),
        fill(
            statement(AUDIT_EVENTS, "insert into audit_events")?,
            &[
                "gen_random_uuid()",
                now,
                "'otp.requested'",
                "null",
                "null",
                "null",
                "null",
                "'10.0.0.1'",
                "'req_01h2xcejqtf2nbrexx3vqjhp41'",
                "'{\"otpId\": \"otp_01h2xcejqtf2nbrexx3vqjhp41\"}'::jsonb",
            ],
        ),
    ];
    Ok(format!("\\set who random(1, 1000000000000)\n{network};\nbegin;\n{};\ncommit;\n", statements.join(";\n")))
}
