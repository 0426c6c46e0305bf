//! `cargo xtask nightly`: the checks that take too long for every change, at full size.

use anyhow::Result;

use crate::steps::Steps;

pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    steps.run("Nodes killed between commit and response", "cargo xtask faults --long")?;
    steps.run("Commands killed while they refresh", "cargo xtask cli-kills")?;
    steps.run("Bytes that no authenticator sends", "cargo xtask fuzz")?;
    steps.run("The description against the service", "cargo xtask schemathesis")?;
    steps.run("MCP clients and the conformance suite", "cargo xtask mcp-interop")?;
    let in_partitions = [("SERVICE_TEST_PARTITIONS", "8")];
    steps.run_with("Tests on tables in partitions", "cargo test --locked --workspace", &in_partitions)?;
    let long = [("SERVICE_TEST_LONG", "1")];
    let races = "cargo test --locked --workspace --test it -- refresh::races oauth::authorization_code_races";
    steps.run_with("Races at full length", races, &long)?;
    let many = [("SERVICE_TEST_SIGN_INS", "10000")];
    let sign_ins = "cargo test --locked --workspace --test it -- operations::many_sign_ins --show-output";
    steps.run_with("Shards of 10,000 sign-ins", sign_ins, &many)?;
    steps.run("The README from a clean clone", "cargo xtask quickstart")?;
    steps.run("Nodes restarted behind proxies", "cargo run --profile tools --package xtask -- ops roll")?;
    steps.run("A database that is away", "cargo run --profile tools --package xtask -- ops outage")?;
    steps
        .run("Nodes before their database", "cargo run --profile tools --package xtask -- ops outage --at-start 90")?;
    steps.run("A primary that is killed", "cargo run --profile tools --package xtask -- ops failover")?;
    steps.run("A primary that hangs", "cargo run --profile tools --package xtask -- ops failover --freeze")?;
    steps.run("A primary that is cut off", "cargo run --profile tools --package xtask -- ops failover --partition")?;
    steps.run("A primary that is moved", "cargo run --profile tools --package xtask -- ops failover --switchover")?;
    steps.run("A restored backup", "cargo run --profile tools --package xtask -- ops restore")?;
    steps.run("An upgrade and back", "cargo run --profile tools --package xtask -- ops upgrade")?;
    steps.run("A migration under load", "cargo run --profile tools --package xtask -- ops migrate-locks")?;
    steps.run("Alerts that fire and clear", "cargo run --profile tools --package xtask -- ops alerts")?;
    steps.run("Traces, with a collector and without", "cargo run --profile tools --package xtask -- ops traces")?;
    steps.run("Mail that bounces", "cargo run --profile tools --package xtask -- ops mail")?;
    steps.run("Four hundred days", "cargo run --profile tools --package xtask -- ops grow")?;
    steps.run("Two hours of light load", "cargo run --profile tools --package xtask -- ops soak")?;
    steps.run("PgBouncer in both modes", "cargo run --profile tools --package xtask -- ops pgbouncer")?;
    steps.run("An installation by compose", "cargo run --profile tools --package xtask -- ops compose")?;
    steps.run("The chart, run by podman", "cargo run --profile tools --package xtask -- ops kube")?;
    steps.run("A release, built in two folders", "cargo xtask dist --compare")?;
    steps.run("The image of this release", "cargo xtask ops image")?;
    steps.run("The package of this release for Debian", "cargo xtask ops deb")?;
    steps.run("Benchmark", "cargo xtask bench")?;
    steps.run("Other products beside ours", "cargo xtask peers")?;
    steps.summarize();
    Ok(())
}
