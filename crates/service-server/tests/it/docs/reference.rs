//! `docs/reference`: metrics, audit events and error codes, written from what the service itself says about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use anyhow::{Context as _, Result};
use serde_json::Value;
use service_api::{
    audit_events::EventName,
    endpoints,
    errors::{ErrorCode, Reason},
    openapi,
};

use crate::{
    docs::description::check_file,
    support::{
        connections::{Company, with_dns},
        issuers, mcp,
    },
};

const NOTE: &str = "<!-- Generated: WRITE_MANUAL=1 cargo test -p service-server --test it reference -->";

#[test]
fn the_reference_lists_every_metric_of_a_node() -> Result<()> {
    with_dns(async |server, _| {
        // Metrics with labels appear with their first sample.
        let ann = server.sign_in("ann@acme.example", "read write").await?;
        server.refresh(&ann.refresh_token).await?;
        let token = mcp::token(server, &ann, "read").await?;
        mcp::done(server, &token, "whoami", &serde_json::json!({})).await?;
        let issuer = issuers::trust(server, "https://localhost:1").await?;
        assert!(server.app.issuers.metadata(&issuer).await.is_err(), "it is not allowed");
        let acme = Company::found(server, "ann@acme.example").await?;
        acme.claim(server, "acme.example").await?;
        acme.verify(server, "acme.example").await?;
        server.http.post_form("/sso/backchannel-logout/conn_x", "logout_token=x").await?;
        server.app.metrics.sso_signed_in("signed_in");
        let text = server.ops.get("/metrics", None).await?.text;
        let mut page = format!(
            "# Metrics\n\n{NOTE}\n\n\
             What a node answers at `/metrics` on `http.ops_listen`, in Prometheus text. Counters and gauges are those of one\n\
             node. [operating.md](../operating.md#health-readiness-metrics) says which are worth an alarm.\n\n\
             | metric | type | labels | meaning |\n|---|---|---|---|\n"
        );
        for metric in metrics(&text) {
            let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            writeln!(page, "| `{}` | {} | {} | {} |", metric.name, metric.kind, labels.join(", "), metric.help)?;
        }
        check_file("docs/reference/metrics.md", &page)
    })
}

#[test]
fn the_reference_lists_every_audit_event() -> Result<()> {
    let mut page = format!(
        "# Audit events\n\n{NOTE}\n\n\
         What `audit_events` and `/v1/audit-events` can hold. An event is written in the transaction of the change that it\n\
         records. A newer server may record more events; ignore names that you do not know.\n\
         [retention.md](../retention.md) says how long they are kept.\n\n\
         | event | what has happened |\n|---|---|\n"
    );
    for event in EventName::ALL {
        writeln!(page, "| `{}` | {} |", event.as_str(), event.meaning())?;
    }
    check_file("docs/reference/audit-events.md", &page)
}

#[test]
fn the_reference_lists_every_error_code() -> Result<()> {
    let meanings = meanings();
    let mut page = format!(
        "# Error codes\n\n{NOTE}\n\n\
         The values of `error` in a response, each with the status that it always has. [api.md](../api.md#errors) shows the\n\
         whole response.\n\n\
         | status | `error` | when |\n|---|---|---|\n"
    );
    let mut codes = error_codes()?;
    codes.sort_by_key(|(_, code)| code.status());
    for (name, code) in codes {
        let when = meanings.get(&name).cloned().unwrap_or_else(|| endpoints_of(code));
        writeln!(page, "| {} | `{name}` | {when} |", code.status())?;
    }
    page += "\n## Reasons\n\nThe values of `details.reason`: why a genuine credential is refused.\n\n";
    page += "| reason | the token, or its session |\n|---|---|\n";
    for reason in Reason::ALL.map(Reason::as_str) {
        let meaning = meanings.get(reason).with_context(|| format!("everywhere.md does not explain {reason}"))?;
        writeln!(page, "| `{reason}` | {meaning} |")?;
    }
    check_file("docs/reference/errors.md", &page)
}

/// What `/metrics` says about one metric.
struct Metric {
    name: String,
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Reads the text of `/metrics`.
fn metrics(text: &str) -> Vec<Metric> {
    let mut found: BTreeMap<String, Metric> = BTreeMap::new();
    let described = |line: &str, what: &str| {
        let (name, rest) = line.strip_prefix(what)?.split_once(' ')?;
        Some((name.to_owned(), rest.trim_end_matches('.').to_owned()))
    };
    for line in text.lines() {
        if let Some((name, help)) = described(line, "# HELP ") {
            found.insert(name.clone(), Metric { name, kind: String::new(), help, labels: BTreeSet::new() });
        } else if let Some((name, kind)) = described(line, "# TYPE ")
            && let Some(metric) = found.get_mut(&name)
        {
            metric.kind = kind;
        } else if let Some((name, labels)) = line.split_once('{') {
            let family = name.strip_suffix("_bucket").unwrap_or(name);
            // Names and values alternate between the quotes; a value may hold braces.
            let names = labels.split('"').step_by(2).filter_map(|part| part.trim_start_matches(',').strip_suffix('='));
            if let Some(metric) = found.get_mut(family) {
                metric.labels.extend(names.filter(|name| *name != "le").map(str::to_owned));
            }
        }
    }
    found.into_values().collect()
}

/// Every error code, as the description of the API lists them.
fn error_codes() -> Result<Vec<(String, ErrorCode)>> {
    let document = openapi::document("https://service.test");
    let schema = &document["components"]["schemas"]["ErrorCode"];
    let names = schema["enum"].as_array().cloned().unwrap_or_default();
    anyhow::ensure!(!names.is_empty(), "the description lists no error codes");
    let parse = |name: Value| Ok((name.as_str().context("no name")?.to_owned(), serde_json::from_value(name)?));
    names.into_iter().map(parse).collect()
}

/// What the tables of the manual say about a code or a reason.
fn meanings() -> BTreeMap<String, String> {
    let manual = openapi::manual("https://service.example");
    let mut found = BTreeMap::new();
    for line in manual.lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let (names, meaning) = match cells.as_slice() {
            ["", status, name, meaning, ""] if status.parse::<u16>().is_ok() => (*name, *meaning),
            ["", names, meaning, ""] => (*names, *meaning),
            _ => continue,
        };
        for name in names.split(", ").filter_map(|name| name.strip_prefix('`')?.strip_suffix('`')) {
            if !meaning.is_empty() {
                found.entry(name.to_owned()).or_insert_with(|| meaning.to_owned());
            }
        }
    }
    found
}

/// The endpoints that name a code in their rows.
fn endpoints_of(code: ErrorCode) -> String {
    let named = endpoints::OPERATIONS.iter().filter(|operation| operation.errors.contains(&code));
    let named: Vec<_> = named.map(|one| format!("`{} {}`", one.endpoint.method.as_str(), one.endpoint.path)).collect();
    if named.is_empty() { String::new() } else { format!("at {}", named.join(", ")) }
}
