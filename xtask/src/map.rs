//! `cargo xtask map`: every row of docs/negative-tests.md with the tests whose names end in its id.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, bail};

use crate::{root, say};

#[derive(clap::Args)]
pub(crate) struct MapOptions {
    /// Only rows of these sections, such as OT BR
    sections: Vec<String>,
    /// Fail if a row has neither a test nor a reason to wait, or a test names a row that does not exist
    #[arg(long)]
    check: bool,
}

/// What a row says, and why it waits, if it does.
struct Row {
    holds: String,
    waits: String,
}

pub(crate) fn run(options: &MapOptions) -> Result<()> {
    let rows = rows(&root().join("docs/negative-tests.md"))?;
    let tests = tests()?;
    let shown =
        |id: &str| options.sections.is_empty() || options.sections.iter().any(|section| id.starts_with(section));
    let (mut tested, mut waiting, mut open) = (0, 0, Vec::new());
    for (id, row) in rows.iter().filter(|(id, _)| shown(id)) {
        let names = tests.get(id).cloned().unwrap_or_default();
        let state = match (names.is_empty(), row.waits.is_empty()) {
            (false, _) => {
                tested += 1;
                names.iter().cloned().collect::<Vec<_>>().join(", ")
            }
            (true, false) => {
                waiting += 1;
                format!("waits for: {}", row.waits)
            }
            (true, true) => {
                open.push(id.clone());
                "OPEN".to_owned()
            }
        };
        say(&format!("{id}  {}\n       {state}", row.holds));
    }
    let strangers: Vec<_> = tests.keys().filter(|id| !rows.contains_key(*id)).cloned().collect();
    say(&format!("{tested} rows tested, {waiting} waiting, {} open", open.len()));
    if options.check && !(open.is_empty() && strangers.is_empty()) {
        bail!("open rows: {open:?}; tests of rows that do not exist: {strangers:?}");
    }
    Ok(())
}

fn rows(path: &Path) -> Result<BTreeMap<String, Row>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let cells = text.lines().filter_map(|line| {
        let [id, holds, waits] =
            line.strip_prefix("| ")?.strip_suffix('|')?.split('|').collect::<Vec<_>>().try_into().ok()?;
        let id: &str = id;
        let id = id.trim();
        is_id(id).then(|| (id.to_owned(), Row { holds: holds.trim().to_owned(), waits: waits.trim().to_owned() }))
    });
    Ok(cells.collect())
}

/// Test names by row: `…_ot_05`, or `…_ot_05_ot_06` for two rows at once.
fn tests() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)?;
                let names = text.lines().filter_map(|line| {
                    let line = line.trim_start();
                    line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?.split(['(', '<']).next()
                });
                for name in names {
                    for id in ids(name) {
                        found.entry(id).or_default().insert(name.to_owned());
                    }
                }
            }
        }
    }
    Ok(found)
}

fn ids(name: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut rest = name.to_ascii_uppercase();
    while rest.len() > 6 {
        let tail = rest.split_off(rest.len() - 6);
        let id = tail[1..].replace('_', "-");
        if !tail.starts_with('_') || !is_id(&id) {
            break;
        }
        ids.push(id);
    }
    ids
}

fn is_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 5
        && bytes[..2].iter().all(u8::is_ascii_uppercase)
        && bytes[2] == b'-'
        && bytes[3..].iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_ends_in_its_rows() {
        assert_eq!(super::ids("a_code_works_once_ot_05"), ["OT-05"]);
        assert_eq!(super::ids("a_code_works_once_ot_05_ot_06"), ["OT-06", "OT-05"]);
        assert!(super::ids("a_code_works_once").is_empty());
        assert!(super::ids("ot_05").is_empty());
    }
}
