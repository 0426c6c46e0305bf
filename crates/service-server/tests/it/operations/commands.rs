//! The commands with which an operator looks at a node: healthcheck, doctor, mail test and the version.

use std::{path::Path, process::Output};

use anyhow::{Result, ensure};
use service_testkit::{
    process::{Process, command},
    server::{Setup, TestServer},
    settings::Settings,
};

const SERVICED: &str = env!("CARGO_BIN_EXE_serviced");

fn run(test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
    Setup::default().on_system_clock().run(test)
}

/// Runs a command beside the server of the test, which needs this thread.
async fn serviced(settings: &Settings, subcommand: &str) -> Result<(Option<i32>, String)> {
    let (settings, subcommand) = (settings.clone(), subcommand.to_owned());
    let run = move || command(Path::new(SERVICED), &settings, &subcommand).output();
    let Output { status, stdout, stderr } = tokio::task::spawn_blocking(run).await??;
    Ok((status.code(), String::from_utf8([stdout, stderr].concat())?))
}

fn changed(server: &TestServer, key: &str, value: &str) -> Settings {
    let mut settings = server.settings.clone();
    settings.set(key, value);
    settings
}

#[test]
fn healthcheck_exits_with_what_readyz_says_op_09() -> Result<()> {
    run(async |server| {
        let lame = changed(server, "http.lame_duck_seconds", "600");
        let node = Process::start(Path::new(SERVICED), &lame, &server.leaks)?;
        let address = node.ops.url.trim_start_matches("http://").to_owned();
        let everywhere = format!("0.0.0.0:{}", address.rsplit(':').next().unwrap_or_default());
        for listener in [&address, &everywhere] {
            let checked = serviced(&changed(server, "http.ops_listen", listener), "healthcheck").await?;
            assert_eq!(checked, (Some(0), "ready\n".to_owned()));
        }
        let told = std::process::Command::new("kill").args(["-TERM", &node.pid().to_string()]).status()?;
        ensure!(told.success());
        while node.ops.get("/readyz", None).await?.status == 200 {}
        let (code, text) = serviced(&changed(server, "http.ops_listen", &address), "healthcheck").await?;
        assert_eq!((code, text.as_str()), (Some(1), "serviced: not ready: the node is stopping\n"));
        drop(node);
        let (code, text) = serviced(&changed(server, "http.ops_listen", &address), "healthcheck").await?;
        ensure!(code == Some(1) && text.contains("cannot connect to http.ops_listen"), "{text}");
        Ok(())
    })
}

#[test]
fn doctor_names_each_problem_and_what_to_do_op_09() -> Result<()> {
    run(async |server| {
        let own_url = format!("http://{}", server.address);
        let (code, text) = serviced(&server.settings, "doctor").await?;
        // Nothing listens at the base URL of a test.
        ensure!(code == Some(1) && text.contains("✗ Public URL: https://service.test/"), "{text}");
        for checked in ["configuration", "Database", "Schema", "Database role", "Durability", "Clock", "Root keys"] {
            ensure!(text.lines().any(|line| line.starts_with('✓') && line.contains(checked)), "{checked}: {text}");
        }
        ensure!(text.contains("✓ Mail server\n") && text.contains("1 of the checks failed"), "{text}");

        let (_, text) = serviced(&changed(server, "base_url", &own_url), "doctor").await?;
        ensure!(text.contains("is another service's"), "{text}");

        server.leaks.register("password", "canary-password");
        let nowhere = "postgres://serviced:canary-password@127.0.0.1:1/service";
        let (code, text) = serviced(&changed(server, "database.url", nowhere), "doctor").await?;
        ensure!(code == Some(1) && text.contains("✗ Database: cannot connect to database.url"), "{text}");
        ensure!(text.contains("Check database.url") && !text.contains("Schema"), "{text}");
        server.leaks.assert_clean("doctor", text.as_bytes());

        let (_, text) = serviced(&changed(server, "mail.port", "1"), "doctor").await?;
        ensure!(text.contains("✗ Mail server: 127.0.0.1:1") && text.contains("serviced mail test"), "{text}");

        let (code, text) = serviced(&changed(server, "mail.port", "x"), "doctor").await?;
        ensure!(code == Some(1) && text.contains("mail.port `x`"), "{text}");
        Ok(())
    })
}

#[test]
fn mail_test_reports_the_answer_of_the_mail_server_op_09() -> Result<()> {
    run(async |server| {
        let (code, text) = serviced(&server.settings, "mail test operator@acme.test").await?;
        ensure!(code == Some(0) && text.contains("accepted the mail: 250"), "{text}");
        server.mailbox.next_mail_to("operator@acme.test").await?;
        server.mailbox.refuse(Some("550 5.7.1 not from here"));
        let (code, text) = serviced(&server.settings, "mail test operator@acme.test").await?;
        ensure!(code == Some(1) && text.contains("550") && text.contains("not from here"), "{text}");
        server.mailbox.refuse(None);
        let (code, text) = serviced(&changed(server, "mail.port", "1"), "mail test operator@acme.test").await?;
        ensure!(code == Some(1) && text.contains("127.0.0.1:1 did not accept the mail"), "{text}");
        let (code, _) = serviced(&server.settings, "mail test nonsense").await?;
        assert_eq!(code, Some(2));
        Ok(())
    })
}

#[test]
fn the_version_names_the_commit_op_09() -> Result<()> {
    let output = std::process::Command::new(SERVICED).arg("--version").output()?;
    let text = String::from_utf8(output.stdout)?;
    let expected = format!("serviced {} (commit ", env!("CARGO_PKG_VERSION"));
    ensure!(output.status.success() && text.starts_with(&expected) && text.ends_with(")\n"), "{text}");
    Ok(())
}
