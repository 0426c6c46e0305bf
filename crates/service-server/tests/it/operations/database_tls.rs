//! A database behind TLS that asks for client certificates, as libpq's parameters describe it.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    postgres::Cluster,
    process::{Process, command},
    server::{Setup, TestServer, fresh_database},
    settings::Settings,
};

use crate::support::authority::Authority;

const SERVICED: &str = env!("CARGO_BIN_EXE_serviced");

/// A cluster whose server certificate is for this host, and that asks the service's role for a client certificate.
async fn start_cluster(authority: &Authority, host: &str) -> Result<(Cluster, String)> {
    let cluster = Cluster::start()?;
    let database = fresh_database(&cluster).await?;
    authority.issue("server", Some(host), "server")?;
    let owner = fs::metadata(cluster.directory().join("data"))?;
    let mut settings = vec!["alter system set ssl = on".to_owned()];
    for (setting, file) in [("ssl_ca_file", "ca.pem"), ("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key")]
    {
        let path = cluster.directory().join(file);
        fs::copy(authority.path(file), &path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        chown(&path, Some(owner.uid()), Some(owner.gid()))?;
        settings.push(format!("alter system set {setting} = '{}'", path.display()));
    }
    let rules = "hostssl all serviced all trust clientcert=verify-full\nhost all service all trust\n";
    fs::write(cluster.directory().join("data/pg_hba.conf"), rules)?;
    let operator = crate::support::failover::connect(&cluster, &database).await?;
    for statement in &settings {
        operator.batch_execute(statement).await?;
    }
    operator.batch_execute("select pg_reload_conf()").await?;
    while operator.query_one("show ssl", &[]).await?.get::<_, String>(0) != "on" {}
    Ok((cluster, database))
}

fn with_url(server: &TestServer, url: &str) -> Settings {
    let mut settings = server.settings.clone();
    settings.set("database.url", url);
    settings
}

/// What the node says that refuses to start, without a secret.
fn refused(settings: &Settings, subcommand: &str) -> Result<String> {
    let output = command(Path::new(SERVICED), settings, subcommand).output()?;
    let text = String::from_utf8([output.stdout, output.stderr].concat())?;
    ensure!(!output.status.success(), "{subcommand} succeeded: {text}");
    Ok(text)
}

#[test]
fn a_node_proves_itself_to_the_database_and_the_database_to_the_node_op_04() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let (authority, other) = (Authority::new()?, Authority::new()?);
        let (cluster, database) = start_cluster(&authority, "127.0.0.1").await?;
        for (issuer, file, user) in
            [(&authority, "client", "serviced"), (&authority, "stranger", "eve"), (&other, "client", "serviced")]
        {
            issuer.issue(file, None, user)?;
        }
        let url = |mode: &str, trusted: &Authority, parameters: &str| {
            let address = cluster.service_url(&database);
            with_url(server, &format!("{address}?sslmode={mode}&sslrootcert={}{parameters}", trusted.path("ca.pem")))
        };
        let client = |issuer: &Authority, file: &str| {
            format!("&sslcert={}&sslkey={}", issuer.path(&format!("{file}.pem")), issuer.path(&format!("{file}.key")))
        };
        let right = client(&authority, "client");
        for mode in ["verify-full", "verify-ca", "require", "prefer"] {
            let output = command(Path::new(SERVICED), &url(mode, &authority, &right), "keys list").output()?;
            ensure!(output.status.success(), "{mode}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let node = Process::start(Path::new(SERVICED), &url("verify-full", &authority, &right), &server.leaks)?;
        assert_eq!(node.ops.get("/readyz", None).await?.status, 200);
        let encrypted = crate::support::failover::connect(&cluster, &database).await?;
        let plain = "select count(*) from pg_stat_ssl join pg_stat_activity using (pid)
                      where usename = 'serviced' and not (ssl and client_dn = '/CN=serviced')";
        assert_eq!(encrypted.query_one(plain, &[]).await?.get::<_, i64>(0), 0);
        drop(node);
        for subcommand in ["run", "keys list"] {
            for (why, settings) in [
                ("wrong authority", url("verify-full", &other, &right)),
                ("wrong authority", url("require", &other, &right)),
                ("no client certificate", url("verify-full", &authority, "")),
                ("another user's certificate", url("verify-full", &authority, &client(&authority, "stranger"))),
                ("another authority's certificate", url("verify-full", &authority, &client(&other, "client"))),
                ("no TLS", url("disable", &authority, &right)),
            ] {
                let text = refused(&settings, subcommand)?;
                ensure!(text.contains("cannot connect to database.url"), "{why}: {text}");
            }
        }
        Ok(())
    })
}

#[test]
fn a_database_with_a_certificate_for_another_name_is_refused_op_04() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let authority = Authority::new()?;
        let (cluster, database) = start_cluster(&authority, "db.service.test").await?;
        authority.issue("client", None, "serviced")?;
        let parameters = format!(
            "sslrootcert={}&sslcert={}&sslkey={}",
            authority.path("ca.pem"),
            authority.path("client.pem"),
            authority.path("client.key")
        );
        for mode in ["verify-full", "verify-ca", "require"] {
            let url = format!("{}?sslmode={mode}&{parameters}", cluster.service_url(&database));
            let text = refused(&with_url(server, &url), "run")?;
            ensure!(text.contains("certificate not valid for name"), "{mode}: {text}");
        }
        // The name is that of the URL, not that of the address.
        let named = format!("postgres://serviced@db.service.test:{}/{database}", cluster.port());
        let settings = with_url(server, &format!("{named}?hostaddr=127.0.0.1&sslmode=verify-full&{parameters}"));
        let output = command(Path::new(SERVICED), &settings, "keys list").output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    })
}

#[test]
fn files_in_a_database_url_are_checked_before_the_start_op_04() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let authority = Authority::new()?;
        authority.issue("client", None, "serviced")?;
        authority.issue("other", None, "serviced")?;
        let (ca, key) = (authority.path("ca.pem"), authority.path("client.key"));
        let certificate = authority.path("client.pem");
        let check = |parameters: &str| {
            let url = format!("postgres://serviced:canary@db.example/service?{parameters}");
            refused(&with_url(server, &url), "check-config")
        };
        for (parameters, expected) in [
            ("sslrootcert=/nonexistent/canary.pem".to_owned(), "in database.url, sslrootcert is not a file"),
            (format!("sslrootcert={key}"), "in database.url, sslrootcert is not a file"),
            (format!("sslcert={ca}&sslkey=/nonexistent/canary.key"), "in database.url, sslcert and sslkey are not PEM"),
            (format!("sslcert={certificate}&sslkey={}", authority.path("other.key")), "sslcert and sslkey are not PEM"),
            (format!("sslcert={certificate}"), "is not a PostgreSQL address"),
            ("sslmode=verify".to_owned(), "is not a PostgreSQL address"),
        ] {
            let text = check(&parameters)?;
            ensure!(text.contains(expected) && !text.contains("canary"), "{parameters}: {text}");
        }
        fs::set_permissions(&key, fs::Permissions::from_mode(0o666))?;
        let text = check(&format!("sslcert={certificate}&sslkey={key}"))?;
        text.contains("sslkey is a file that other users can write to").then_some(()).context(text)
    })
}
