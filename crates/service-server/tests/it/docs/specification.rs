//! `docs/specification.md`: every row names files and tests that exist; and what no other test holds of it.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_api::endpoints::{self, Access, Method};
use service_testkit::server::with_server;

use crate::support::contents::send;

const PAGE: &str = include_str!("../../../../../docs/specification.md");

/// Rows of things that are not there yet.
const NEXT: [&str; 0] = [];

/// The words of a cell that stand between backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_row_of_the_specifications_manual_names_files_and_tests_that_exist() -> Result<()> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tests = names_of_tests(&top.join("crates"))?;
    let (mut rows, mut next) = (0, Vec::new());
    for line in PAGE.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let (id, files, held_by) = match cells[..] {
            [_, chosen_in] => (cells[0], chosen_in, None),
            [id, _, files, held_by] => (id, files, Some(held_by)),
            _ => anyhow::bail!("a row has {} cells: {line}", cells.len()),
        };
        if matches!(id, "row" | "left open") {
            continue;
        }
        rows += 1;
        let files = quoted(files);
        ensure!(!files.is_empty(), "row {id} names no file");
        for file in files {
            let there = top.join("crates").join(file).is_file() || top.join(file).is_file();
            ensure!(there, "docs/specification.md, row {id}: there is no file {file}");
        }
        let Some(held_by) = held_by else { continue };
        if held_by == "**next**" {
            next.push(id);
            continue;
        }
        let named = quoted(held_by);
        ensure!(!named.is_empty(), "docs/specification.md, row {id} is held by no test");
        for test in named {
            ensure!(tests.contains(test), "docs/specification.md, row {id}: there is no test {test}");
        }
    }
    ensure!(rows > 80, "only {rows} rows were found");
    assert_eq!(next, NEXT, "something else than announced is still to come");
    Ok(())
}

/// The name of every function below a `#[test]`.
fn names_of_tests(folder: &Path) -> Result<BTreeSet<String>> {
    let (mut names, mut folders) = (BTreeSet::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()? {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)?;
                let named = text.split("test]").skip(1).filter_map(|rest| rest.split_once("fn ")?.1.split_once('('));
                names.extend(named.map(|(name, _)| name.to_owned()));
            }
        }
    }
    Ok(names)
}

#[test]
fn every_path_is_below_its_prefix_and_the_named_ones_are_served() -> Result<()> {
    let named = [
        (Method::Post, "/v1/login-options", false),
        (Method::Post, "/v1/otp-tokens", false),
        (Method::Post, "/oauth/token", false),
        (Method::Post, "/v1/cli/tokens", true),
        (Method::Get, "/v1/cli/tokens", true),
        (Method::Delete, "/v1/cli/tokens/{tokenId}", true),
        (Method::Post, "/v1/mcp/tokens", true),
        (Method::Post, "/v1/mcp/tokens/refresh", true),
        (Method::Post, "/v1/packs/search", true),
        (Method::Get, "/v1/projects", true),
    ];
    for endpoint in endpoints::ALL {
        let protected =
            !matches!(endpoint.access, Access::Public | Access::Browser | Access::Provider | Access::Client);
        let versioned = endpoint.path.starts_with("/v1/") || endpoint.path == "/mcp";
        ensure!(versioned || !protected, "{} wants a token and is neither below /v1 nor /mcp", endpoint.path);
    }
    with_server(async |server| {
        for (method, path, protected) in named {
            let row = endpoints::ALL.iter().find(|row| row.method == method && row.path == path);
            let row = row.with_context(|| format!("{path} is not in the table"))?;
            assert_eq!(row.access != Access::Public, protected, "{path}");
            let at = path.replace("{tokenId}", "clit_01h2xcejqtf2nbrexx3vqjhp41");
            let method = reqwest::Method::from_bytes(method.as_str().as_bytes())?;
            let mut request = server.http.request(method.clone(), &at);
            if method == reqwest::Method::POST {
                request = request.json(&json!({}));
            }
            let response = server.http.send(request).await?;
            // An empty object lacks a field; at `/oauth` it lacks a parameter.
            let expected = match (protected, path.starts_with("/v1/")) {
                (true, _) => 401,
                (false, true) => 422,
                (false, false) => 400,
            };
            assert_eq!(response.status, expected, "{method} {path}: {}", response.text);
            assert!(response.body["error"].is_string(), "{method} {path}: {}", response.text);
        }
        Ok(())
    })
}

#[test]
fn a_date_is_written_in_one_way_and_comes_back_as_it_was() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        for (path, field) in [("/v1/cases", "dueOn"), ("/v1/records", "recordedOn")] {
            for date in ["2027-02-01", "2028-02-29", "1999-12-31"] {
                let body = json!({ "name": "Pump 4", field: date });
                let made = send(server, "POST", path, &ann, Some(&body)).await?;
                assert_eq!((made.status.as_u16(), made.field(field)), (201, date), "{path}: {}", made.text);
            }
            for wrong in ["2027-2-1", "01.02.2027", "2027-02-01T00:00:00Z", "20270201", "2027-02-30", "today", ""] {
                let body = json!({ "name": "Pump 4", field: wrong });
                let response = send(server, "POST", path, &ann, Some(&body)).await?;
                assert_eq!(response.status, 422, "{path} took {wrong:?}: {}", response.text);
                assert!(response.text.contains(field), "{path}: the field is not named: {}", response.text);
            }
        }
        Ok(())
    })
}

#[test]
fn one_scope_makes_and_several_search() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let pack = |extra: (&str, serde_json::Value)| {
            let mut body = json!({ "name": "Tides", "type": "context", "text": "High at noon." });
            body[extra.0] = extra.1;
            body
        };
        let search = |extra: (&str, serde_json::Value)| {
            let mut body = json!({ "type": "context", "query": "tides" });
            body[extra.0] = extra.1;
            body
        };
        for (path, body, status) in [
            ("/v1/packs", pack(("scope", json!("personal"))), 201),
            ("/v1/packs", pack(("scopes", json!(["personal"]))), 400),
            ("/v1/packs/search", search(("scopes", json!(["personal"]))), 200),
            ("/v1/packs/search", search(("scope", json!("personal"))), 400),
        ] {
            let response = send(server, "POST", path, &ann, Some(&body)).await?;
            assert_eq!(response.status.as_u16(), status, "{path} {body}: {}", response.text);
        }
        Ok(())
    })
}
