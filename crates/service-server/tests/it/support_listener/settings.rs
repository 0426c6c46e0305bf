//! The settings of the support listener: all of them, or an error that says which are missing.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::{Result, ensure};
use service_testkit::{
    process::command,
    server::{Setup, TestServer, with_server},
    settings::{BASE_URL, Settings},
};

use crate::support::{authority::Authority, support_tool::with_listener};

/// What `check-config` and `run` say about these settings.
fn said(settings: &Settings) -> Result<[(bool, String); 2]> {
    let run = |subcommand| {
        let output = command(Path::new(env!("CARGO_BIN_EXE_serviced")), settings, subcommand).output()?;
        anyhow::Ok((output.status.success(), String::from_utf8([output.stdout, output.stderr].concat())?))
    };
    let checked = run("check-config")?;
    // A node with valid settings would run.
    Ok(if checked.0 { [checked.clone(), checked] } else { [checked, run("run")?] })
}

fn check(server: &TestServer, changes: &[(&str, &str)], expected: Option<&str>) -> Result<()> {
    let mut settings = server.settings.clone();
    for (key, value) in changes {
        settings.set(key, value);
    }
    for (success, text) in said(&settings)? {
        let is_said = expected.is_none_or(|expected| text.contains(expected));
        ensure!(success == expected.is_none() && is_said, "{changes:?}: {text}");
    }
    Ok(())
}

#[test]
fn the_listener_without_its_other_settings_is_an_error_that_names_them() -> Result<()> {
    with_server(async |server| {
        let on = ("support.listen", "127.0.0.1:0");
        let all = "set support.url, support.certificate_file, support.key_file, support.client_ca_file too";
        check(server, &[on], Some(all))?;
        let url = ("support.url", "https://support.acme.test");
        check(server, &[on, url], Some("set support.certificate_file, support.key_file, support.client_ca_file too"))?;
        check(server, &[("support.listen", "8443")], Some("is not an address and port"))?;
        // Without an address it is off.
        check(server, &[url], None)
    })
}

#[test]
fn files_and_urls_that_cannot_be_used_are_errors() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default(), &authority)?.run(async |server| {
        check(server, &[], None)?;
        check(server, &[("support.url", BASE_URL)], Some("support.url is base_url"))?;
        for url in ["http://support.acme.test", "https://support.acme.test/", "https://support.acme.test/x", "x"] {
            check(server, &[("support.url", url)], Some("is not an https address"))?;
        }
        let missing = authority.path("missing.pem");
        for key in ["support.certificate_file", "support.key_file", "support.client_ca_file"] {
            check(server, &[(key, &missing)], Some("cannot be used"))?;
        }
        let other = authority.path("tool.key");
        check(server, &[("support.key_file", &other)], Some("do not belong together"))?;
        // An operator replaces one file after the other. Meanwhile every other command works, also the probe of a node.
        let mut half_renewed = server.settings.clone();
        half_renewed.set("support.key_file", &other);
        half_renewed.set("http.ops_listen", server.ops.url.trim_start_matches("http://"));
        let mut probe = command(Path::new(env!("CARGO_BIN_EXE_serviced")), &half_renewed, "healthcheck");
        let probe = tokio::task::spawn_blocking(move || probe.output()).await??;
        ensure!(probe.status.success(), "{}", String::from_utf8(probe.stderr)?);
        fs::set_permissions(authority.path("server.key"), fs::Permissions::from_mode(0o604))?;
        ensure!(said(&server.settings)?[0].1.contains("names a file that other users can read"), "there is no warning");
        fs::set_permissions(authority.path("server.key"), fs::Permissions::from_mode(0o602))?;
        check(server, &[], Some("run chmod o-w on it"))
    })
}
