//! Starting and stopping: one instance for each directory, free ports only, and nothing left behind.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _, process::Command};

use anyhow::{Context as _, Result};

use crate::machine::{Data, is_free};

/// Returns the address that a URL such as `http://localhost:8080` names, at IPv4 or IPv6.
fn address(url: &str, host: &str) -> Result<String> {
    let port = url.rsplit_once(':').context("no port")?.1;
    Ok(format!("{host}:{}", port.trim_end_matches("/serviced")))
}

#[test]
fn a_second_start_says_where_the_first_one_runs_fh_03() -> Result<()> {
    let data = Data::new()?;
    let running = data.start(&[])?;
    let second = data.run(&[])?;
    let said = String::from_utf8(second.stderr)?;
    let expected = format!("Already running at {}", running.link("baseUrl")?);
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.contains("Ctrl-C"), "{said}");
    assert_eq!(second.status.code(), Some(1));
    assert!(second.stdout.is_empty());
    Ok(())
}

#[test]
fn fresh_removes_nothing_while_an_instance_runs_fh_03() -> Result<()> {
    let data = Data::new()?;
    let running = data.start(&[])?;
    let version = data.path().join("postgres/data/PG_VERSION");
    assert!(version.exists());

    let fresh = data.run(&["--fresh"])?;
    let said = String::from_utf8(fresh.stderr)?;
    assert!(said.starts_with("Already running at ") && said.contains("was not touched"), "{said}");
    assert_eq!(fresh.status.code(), Some(1));
    assert!(version.exists() && data.path().join("root-key").exists());

    let root_key = fs::read_to_string(data.path().join("root-key"))?;
    assert_eq!(running.stop("INT")?.0, Some(0));
    let again = data.start(&["--fresh"])?;
    assert_ne!(fs::read_to_string(data.path().join("root-key"))?, root_key, "the data is the same");
    drop(again);
    Ok(())
}

/// A killed instance leaves PostgreSQL stopping for a moment. The next start waits for it, and so does `--fresh`.
#[test]
fn fresh_waits_for_postgresql_of_a_killed_instance_fh_03() -> Result<()> {
    let data = Data::new()?;
    let running = data.start(&[])?;
    let pid = fs::read_to_string(data.path().join("postgres/data/postmaster.pid"))?;
    let pid = pid.lines().next().context("no process id")?.to_owned();
    // A session that is busy keeps PostgreSQL from being gone at once.
    running.stop("KILL")?;
    let again = data.start(&["--fresh"])?;
    let is_running = Command::new("kill").args(["-0", &pid]).output()?.status.success();
    assert!(!is_running, "PostgreSQL of the killed instance still ran when its directory was removed");
    drop(again);
    Ok(())
}

#[test]
fn the_data_stays_until_a_fresh_start_and_ctrl_c_stops_everything() -> Result<()> {
    let data = Data::new()?;
    let running = data.start(&[])?;
    let key = fs::read_to_string(data.path().join("root-key"))?;
    let mut addresses = Vec::new();
    for (link, hosts) in [("baseUrl", vec!["127.0.0.1", "[::1]"]), ("mailbox", vec!["127.0.0.1", "[::1]"])] {
        for host in hosts {
            addresses.push(address(running.link(link)?, host)?);
        }
    }
    addresses.push(address(running.link("opsUrl")?, "127.0.0.1")?);
    addresses.push(address(running.link("database")?, "127.0.0.1")?);
    for address in &addresses {
        assert!(!is_free(address), "nothing listens on {address}");
    }
    let (code, log) = running.stop("INT")?;
    assert_eq!(code, Some(0), "{log}");
    for address in &addresses {
        assert!(is_free(address), "{address} is still in use");
    }
    assert!(!data.path().join("postgres/data/postmaster.pid").exists(), "PostgreSQL did not stop cleanly");
    let again = data.start(&[])?;
    assert_eq!(fs::read_to_string(data.path().join("root-key"))?, key);
    drop(again);
    Ok(())
}

#[test]
fn a_port_that_another_program_has_is_refused_at_either_address_fh_04() -> Result<()> {
    let data = Data::new()?;
    for (host, option) in
        [("127.0.0.1", "--port"), ("[::1]", "--port"), ("[::1]", "--mailbox-port"), ("127.0.0.1", "--database-port")]
    {
        let other = TcpListener::bind(format!("{host}:0"))?;
        let port = other.local_addr()?.port();
        let ended = data.run(&[&format!("{option}={port}")])?;
        let said = String::from_utf8(ended.stderr)?;
        assert!(said.contains(&format!("cannot listen on {host}:{port}")) && said.contains(option), "{said}");
        assert_eq!(ended.status.code(), Some(1));
        assert!(!data.path().join("postgres").exists(), "PostgreSQL was started first");
    }
    Ok(())
}

#[test]
fn only_the_developer_reads_the_data() -> Result<()> {
    let data = Data::new()?;
    let running = data.start(&[])?;
    let directory = data.path();
    let mode = |path: &str| anyhow::Ok(fs::metadata(directory.join(path))?.permissions().mode() & 0o777);
    for file in ["lock", "root-key", "pgpass", "postgres/password", "postgres/log"] {
        assert_eq!(mode(file)?, 0o600, "{file}");
    }
    for folder in ["postgres", "postgres/data"] {
        assert_eq!(mode(folder)?, 0o700, "{folder}");
    }
    // Others may pass at most, which PostgreSQL's own account needs if root runs this.
    assert_eq!(mode("")? & 0o066, 0);
    drop(running);
    Ok(())
}
