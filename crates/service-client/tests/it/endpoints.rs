//! A call for every endpoint that is not a page.

use std::{fs, path::Path};

#[test]
fn every_endpoint_that_is_not_a_page_can_be_called() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| fs::read_to_string(crates.join(path)).unwrap();
    let rows = read("service-api/src/endpoints/mod.rs") + &read("service-api/src/endpoints/contents.rs");
    let calls: String = fs::read_dir(crates.join("service-client/src/calls"))
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let names: Vec<_> = rows
        .lines()
        .filter_map(|line| line.strip_prefix("pub const ")?.split_once(": Endpoint"))
        .map(|(name, _)| name)
        .collect();
    assert!(names.len() > 50, "only {} endpoints were found", names.len());
    for name in names {
        let is_called = calls.split(|c: char| !(c.is_ascii_uppercase() || c == '_')).any(|word| word == name);
        assert!(is_called, "{name} has no call");
    }
}
