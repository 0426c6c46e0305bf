//! `docs/configuration.md` says what the table of settings says. Its example and `serviced.example.toml` work.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use service_server::config::{SETTINGS, Setting, environment_name};
use service_testkit::mailbox::Mailbox;

const MANUAL: &str = include_str!("../../../../../docs/configuration.md");
const EXAMPLE: &str = include_str!("../../../../../serviced.example.toml");

fn row(setting: &Setting) -> String {
    let names = |name: &str, file: &str| {
        if setting.secret { format!("`{name}` or `{name}{file}`") } else { format!("`{name}`") }
    };
    let default = match setting.default {
        None => "required".to_owned(),
        Some("") => "none".to_owned(),
        Some(default) => format!("`{default}`"),
    };
    let (key, variable) = (names(setting.key, "_file"), names(&environment_name(setting.key), "_FILE"));
    format!("| {key} | {default} | {variable} | {} |", setting.doc)
}

#[test]
fn the_manual_lists_every_setting_as_it_is() {
    let listed: Vec<_> = MANUAL.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<_> = SETTINGS.iter().map(row).collect();
    assert_eq!(listed, expected);
}

#[test]
fn the_manuals_example_gives_every_setting_and_passes() -> Result<()> {
    let example = MANUAL.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).context("no example")?;
    let table: toml::Table = example.parse()?;
    for Setting { key, secret, .. } in SETTINGS {
        let (section, name) = key.split_once('.').unwrap_or(("", key));
        let section =
            if section.is_empty() { Some(&table) } else { table.get(section).and_then(toml::Value::as_table) };
        let section = section.with_context(|| format!("the example has no section for {key}"))?;
        let given = section.contains_key(name) || *secret && section.contains_key(&format!("{name}_file"));
        assert!(given, "the example does not give {key}");
        assert!(!(*secret && section.contains_key(name)), "the example gives {key} in the open");
    }
    check(example)
}

#[test]
fn the_example_file_passes_fh_05() -> Result<()> {
    check(EXAMPLE)
}

/// Runs `check-config` on an example whose files are elsewhere.
fn check(example: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let certificate = runtime.block_on(async { Mailbox::start_with_tls("smtp.service.example").await })?;
    let certificate = certificate.ca_pem().context("no certificate")?;
    let directory = tempfile::tempdir()?;
    for (name, text) in [
        ("database-url", "postgres://serviced:hush@db1.example,db2.example/service?target_session_attrs=read-write"),
        ("feed-urls", "postgres://serviced:hush@db3.example/service postgres://serviced:hush@db1.example/service"),
        ("database-ca.pem", certificate),
        ("root-keys", &format!("1:{}\n", BASE64_STANDARD.encode(b"a root key of thirty-two letters"))),
        ("logo.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
        ("mail-ca.pem", certificate),
        ("mail-password", "hush"),
        ("traces-token", "hush"),
    ] {
        fs::write(directory.path().join(name), text)?;
    }
    let path = directory.path().join("serviced.toml");
    fs::write(&path, example.replace("/etc/serviced", &directory.path().display().to_string()))?;
    let checked = Command::new(Path::new(env!("CARGO_BIN_EXE_serviced")))
        .args(["check-config", "--config"])
        .arg(&path)
        .env_clear()
        .output()?;
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    Ok(())
}
