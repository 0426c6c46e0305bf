//! OTP creation: `POST /v1/otp-tokens` against `pgbench` running the same statements.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Result, ensure};
use service_testkit::load;

use super::{
    Bench, Measured,
    pgbench::{self, SHARD, fill, statement},
};

const RATES: &str = include_str!("../../../crates/service-server/src/store/rates.rs");
const RECENT_HITS: &str = include_str!("../../../crates/service-server/src/store/recent_hits.rs");
const DEVICES: &str = include_str!("../../../crates/service-server/src/store/devices.rs");
const OTPS: &str = include_str!("../../../crates/service-server/src/store/otps.rs");
const OUTBOX: &str = include_str!("../../../crates/service-server/src/store/outbox.rs");

pub(super) async fn measure(bench: &Bench) -> Result<Measured> {
    let script = tempfile::NamedTempFile::new()?;
    std::fs::write(script.path(), script_text()?)?;
    let ours: SocketAddr = bench.server.http.url.trim_start_matches("http://").parse()?;
    let mut measured = Measured { name: "otp_creation", ours: Vec::new(), bare: Vec::new() };
    for _ in 0..bench.rounds {
        measured.bare.push(pgbench::run(bench, script.path())?);
        let seen = load::run(ours, bench.connections, bench.round, |_, _| request()).await?;
        ensure!(seen.failures == 0, "{} of {} requests failed", seen.failures, seen.requests);
        measured.ours.push(seen.per_second());
    }
    empty_outbox(bench).await?;
    Ok(measured)
}

/// Deletes the mails that wait, and the rows that `pgbench` wrote. Later measurements sign users in, whose codes would wait behind them.
pub(super) async fn empty_outbox(bench: &Bench) -> Result<()> {
    let (client, connection) =
        tokio_postgres::connect(&bench.cluster.url(&bench.database), tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client.batch_execute("delete from outbox").await?)
}

/// Returns a request with an address and a network of its own, as in production.
pub(super) fn request() -> Vec<u8> {
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

/// Returns the statements of `flows/sign_in/request_otp.rs`, with values that pgbench can generate: the device, the
/// limits of the networks, then the transaction.
pub(super) fn script_text() -> Result<String> {
    let now = "now()";
    let address = "('user' || (:who)::bigint || '@bare.test')";
    let key = "sha256(((:who)::bigint)::text::bytea)";
    let named = |name: &str| format!("sha256(('{name}' || (:who)::bigint)::bytea)");
    let rate = |key: &str| -> Result<String> {
        Ok(fill(statement(RATES, "insert into rates")?, &[key, now, "0.001::float8", "1200.0::float8", SHARD]))
    };
    let windows = |key: &str| -> Result<String> {
        let budget = [key, now, "array[1,5,10]::bigint[]", "array[60,3600,86400]::float8[]", "86400.0::float8", SHARD];
        Ok(fill(statement(RECENT_HITS, "insert into recent_hits")?, &budget))
    };
    let device = fill(
        statement(DEVICES, "select from devices where digest = $1 and shard = $4")?,
        &[key, &format!("array[{key}]"), now, SHARD],
    );
    let before = [device, rate(&named("network"))?, rate(&named("wider"))?].join(";\n");
    let sealed = format!("{key} || {key} || {key} || {key} || {key} || {key}");
    let transaction = [
        windows(&named("context"))?,
        windows(&named("address and network"))?,
        windows(&named("address"))?,
        fill(statement(OTPS, "delete from otps\n           where address")?, &[address, "''", key, SHARD]),
        fill(
            statement(OTPS, "insert into otps")?,
            &[
                address,
                "''",
                key,
                "gen_random_uuid()",
                "null",
                "1::smallint",
                key,
                now,
                "now() + interval '600 s'",
                SHARD,
            ],
        ),
        fill(statement(OUTBOX, "insert into outbox")?, &["gen_random_uuid()", &sealed, now, now, SHARD]),
        pgbench::audit_event(&pgbench::OTP_REQUESTED)?,
        rate("sha256(((:who)::bigint % 16)::text::bytea)")?,
    ];
    Ok(format!("\\set who random(1, 1000000000000)\n{before};\nbegin;\n{};\ncommit;\n", transaction.join(";\n")))
}
