//! Tests of `service api -f`, `-F` and `--paginate`.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_testkit::server::TestServer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::{
    machine::{EMAIL, Machine, run},
    project::{error, object},
    token::sign_in_with_workspace,
    whoami::create_token,
};

#[test]
fn fields_make_the_body_or_the_query_fh_19() -> Result<()> {
    run(async |server, machine| {
        let acme = sign_in_with_workspace(server, machine).await?;
        let created =
            object(machine, &["api", "POST", "/v1/projects", "-f", "name=Garden", "-f", "description=1"]).await?;
        assert_eq!((&created["name"], &created["description"]), (&json!("Garden"), &json!("1")));
        let inputs = r#"inputs={"year":2027}"#;
        let case = ["api", "POST", "/v1/cases", "-f", "name=Audit", "-F", inputs, "-F", "dueOn=2027-02-01"];
        let created = object(machine, &case).await?;
        assert_eq!((&created["inputs"], &created["dueOn"]), (&json!({ "year": 2027 }), &json!("2027-02-01")));
        let nested = ["api", "POST", "/v1/cases", "-f", "name=N", "-f", "inputs[a][]=x", "-F", "inputs[n]=2"];
        assert_eq!(object(machine, &nested).await?["inputs"], json!({ "a": ["x"], "n": 2 }));
        std::fs::write(machine.home.path().join("text.md"), "Long\ntext")?;
        let pack = ["api", "POST", "/v1/packs", "-f", "name=P", "-f", "type=context", "-F", "text=@text.md"];
        assert_eq!(object(machine, &pack).await?["text"], "Long\ntext");
        // Fields of a GET are its query, also the workspace.
        let listed = object(machine, &["api", "GET", "/v1/projects", "-F", "limit=1"]).await?;
        assert_eq!(listed["data"].as_array().map(Vec::len), Some(1));
        let workspace = format!("workspaceId={acme}");
        let listed = object(machine, &["api", "GET", "/v1/projects", "-f", &workspace]).await?;
        assert_eq!(listed["data"], json!([]));
        for wrong in [
            &["api", "POST", "/v1/projects", "-f", "name"][..],
            &["api", "POST", "/v1/projects", "-f", "name=a", "-f", "name=b"],
            &["api", "GET", "/v1/projects", "-f", "a[]=1"],
            &["api", "POST", "/v1/projects", "-F", "text=@nowhere"],
            &["api", "POST", "/v1/projects", "-f", "name=a", "--input", "text.md"],
        ] {
            assert_eq!(error(machine, wrong).await?.1, Some(2), "{wrong:?}");
        }
        Ok(())
    })
}

#[test]
fn no_field_is_logged_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let secret = "hunter2-correct-horse";
        std::fs::write(machine.home.path().join("secret"), secret)?;
        for arguments in [
            &["api", "POST", "/v1/projects", "-f", "name=x", "-f", "description=hunter2-correct-horse"][..],
            &["api", "POST", "/v1/projects", "-f", "name=x", "-F", "description=@secret"],
            &["api", "POST", "/v1/projects", "-f", "nothing=hunter2-correct-horse"],
            &["api", "GET", "/v1/projects", "-f", "cursor=hunter2-correct-horse"],
            &["api", "GET", "/v1/projects", "-f", "cursor=hunter2-correct-horse", "--paginate"],
            &["api", "POST", "/v1/projects", "-f", "hunter2-correct-horse"],
            &["api", "POST", "/v1/projects", "-F", "name={hunter2-correct-horse"],
            &["api", "GET", "/v1/projects", "-F", r#"limit=["hunter2-correct-horse"]"#],
        ] {
            let ran = machine.run_with(&[arguments, &["--verbose"]].concat(), &[("SERVICE_LOG", "trace")]).await?;
            ensure!(!ran.stderr.contains("hunter2"), "{arguments:?}: {}", ran.stderr);
        }
        Ok(())
    })
}

/// Creates projects in the personal space of the user of the machine.
async fn make_projects(server: &TestServer, machine: &Machine, count: usize) -> Result<()> {
    let token = machine.sign_in()?["accessToken"].as_str().context("no token")?.to_owned();
    for number in 0..count {
        let request = server.http.request(reqwest::Method::POST, "/v1/projects").bearer_auth(&token);
        let made = server.http.send(request.json(&json!({ "name": format!("P{number:03}") }))).await?;
        ensure!(made.status == 201, "{}", made.text);
    }
    Ok(())
}

#[test]
fn every_page_of_a_list_is_printed_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        let empty = machine.run(&["api", "GET", "/v1/projects", "--paginate"]).await?;
        assert_eq!((empty.stdout.as_str(), empty.code), ("{\"data\":[]}\n", Some(0)));
        make_projects(server, machine, 7).await?;
        let expected: Vec<_> = (0..7).map(|number| format!("P{number:03}")).collect();
        for query in ["", "?limit=1", "?limit=3", "?limit=7"] {
            let path = format!("/v1/projects{query}");
            let ran = machine.run(&["api", "GET", &path, "--paginate"]).await?;
            let listed: Value = serde_json::from_str(&ran.stdout).with_context(|| ran.stdout.clone())?;
            let names: Vec<_> =
                listed["data"].as_array().into_iter().flatten().map(|one| one["name"].clone()).collect();
            let ran = machine.run(&["api", "GET", &path, "--paginate", "--jq", ".data[].name"]).await?;
            let mut lines: Vec<_> = ran.stdout.lines().collect();
            assert_eq!(names, lines, "{query}");
            // Projects of one millisecond have no order.
            lines.sort_unstable();
            assert_eq!(lines, expected, "{query}");
        }
        let ran = machine.run(&["api", "get", "/v1/projects", "-F", "limit=2", "--paginate", "--verbose"]).await?;
        assert_eq!(ran.stderr.matches("debug: GET /v1/projects 200").count(), 4, "{}", ran.stderr);
        for (wrong, exit) in [
            (&["api", "POST", "/v1/packs/search", "-f", "query=x", "--paginate"][..], 2),
            (&["api", "GET", "/v1/whoami", "--paginate"], 2),
        ] {
            assert_eq!(error(machine, wrong).await?.1, Some(exit), "{wrong:?}");
        }
        let refused = machine.run(&["api", "GET", "/v1/projects?limit=0", "--paginate"]).await?;
        let body: Value = serde_json::from_str(&refused.stdout)?;
        assert_eq!((body["error"].as_str(), refused.code), (Some("invalid_request"), Some(1)));
        Ok(())
    })
}

#[test]
fn a_reader_that_stops_ends_the_requests_fh_19() -> Result<()> {
    run(async |server, machine| {
        machine.log_in(server).await?;
        make_projects(server, machine, 3).await?;
        let (reader, writer) = std::io::pipe()?;
        drop(reader);
        let mut command = machine.command();
        command.args(["api", "GET", "/v1/projects?limit=1", "--paginate", "--verbose"]).stdout(writer);
        let ran = machine.run_command(&mut command).await?;
        assert_eq!((ran.stderr.matches("debug: GET").count(), ran.code), (1, Some(0)), "{ran:?}");
        Ok(())
    })
}

/// A service that answers each request with the next of these bodies. Returns its address.
async fn answer_with(responses: Vec<(u16, String)>) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        for (status, body) in responses {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            drop(stream.read(&mut [0; 16_384]).await);
            let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n");
            let response = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
            drop(stream.write_all(response.as_bytes()).await);
        }
    });
    Ok(url)
}

#[test]
fn an_incomplete_list_does_not_look_complete_fh_19() -> Result<()> {
    run(async |server, machine| {
        let (token, _) = create_token(server, EMAIL, &json!({})).await?;
        let first = || (200, json!({ "data": [{ "n": 1 }], "nextCursor": "c1" }).to_string());
        let limited = json!({ "error": "rate_limited", "error_description": "Slow down.", "request_id": "req_1" });
        for (second, exit) in [
            ((429, limited.to_string()), 8),
            // The same cursor again would never end.
            (first(), 1),
            ((200, "{}".to_owned()), 1),
        ] {
            let url = answer_with(vec![first(), second]).await?;
            let far = Machine::new(&url, &machine.leaks)?.with("SERVICE_TOKEN", &token);
            let ran = far.run(&["api", "GET", "/v1/projects", "--paginate"]).await?;
            assert_eq!(ran.code, Some(exit), "{ran:?}");
            ensure!(ran.stdout.contains("{\"n\":1}") && serde_json::from_str::<Value>(&ran.stdout).is_err(), "{ran:?}");
            ensure!(ran.stderr.starts_with("error: The list is incomplete."), "{ran:?}");
        }
        Ok(())
    })
}
