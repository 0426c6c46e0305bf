//! Clients whose name is the address of a document: fetched without being turned inward, and believed only about
//! themselves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_server::net::document_fetcher::FetchError;
use service_testkit::{
    document_host::{DocumentHost, certificate, response},
    server::{Setup, TestServer},
    tab::{Shown, Tab},
};
use tokio::net::TcpListener;

use crate::support::authorize::{CALLBACK, asking, code, exchange, go_through};

const JSON: &str = "Content-Type: application/json\r\n";

fn document(id: &str) -> Value {
    json!({ "client_id": id, "client_name": "Editor", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none" })
}

/// Runs a test with a server that trusts, and may connect to, hosts of this machine.
fn with_hosts(test: impl AsyncFnOnce(&TestServer, &rcgen::CertifiedKey<rcgen::KeyPair>) -> Result<()>) -> Result<()> {
    let cert = certificate()?;
    let ca = tempfile::NamedTempFile::new()?;
    std::fs::write(ca.path(), cert.cert.pem())?;
    let path = ca.path().to_str().context("no path")?.to_owned();
    let setup = Setup::default().set("documents.ca_file", &path).set("documents.allowed_networks", "127.0.0.1/32");
    setup.run(async |server| test(server, &cert).await)
}

/// A browser in which a person is signed in: documents are fetched for no other.
async fn signed_in(server: &TestServer, email: &str) -> Result<Tab> {
    let tab = Tab::open(server)?;
    let begun = tab.get("/sign-in").await?;
    tab.sign_in(&server.mailbox, begun.next()?, email).await?;
    Ok(tab)
}

#[track_caller]
fn check_refused(shown: &Shown, what: &str) {
    assert_eq!((shown.status.as_u16(), shown.location.as_deref()), (400, None), "{what}: {}", shown.text);
}

#[test]
fn an_unregistered_client_signs_users_in_by_its_metadata_document_fetched_once_ss_09_ss_11() -> Result<()> {
    with_hosts(async |server, cert| {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let id = format!("https://{}/client.json", listener.local_addr()?);
        let host = DocumentHost::start(listener, cert, response("200 OK", JSON, &document(&id).to_string()), false)?;
        let address = asking(&id, &[]);
        let tabs = [signed_in(server, "ann@acme.test").await?, signed_in(server, "bob@acme.test").await?];
        let many = (0..20).map(|number: usize| tabs[number % 2].get(&address));
        let all = futures_util::future::try_join_all(many).await?;
        for shown in &all {
            assert!(shown.next()?.starts_with("/consent/"));
        }
        assert_eq!(host.asked(), 1, "of many who want the same, one fetches");
        let page = tabs[0].get(all[0].next()?).await?;
        assert!(page.text.contains("app.test") && page.text.contains("We can’t verify this app"), "{}", page.text);
        let done = go_through(server, &tabs[0], &address, "ann@acme.test").await?;
        let tokens = server.http.post("/oauth/token", &exchange(&id, &code(&done)?)).await?;
        assert_eq!(tokens.status, 200, "{}", tokens.text);
        server.advance(3_601);
        tabs[1].get(&address).await?;
        assert_eq!(host.asked(), 2, "an old document is fetched again");
        Ok(())
    })
}

#[test]
fn the_links_of_a_document_are_shown_and_follow_it_fh_11() -> Result<()> {
    with_hosts(async |server, cert| {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let id = format!("https://{}/client.json", listener.local_addr()?);
        let mut described = document(&id);
        described["client_uri"] = json!("https://editor.test/");
        described["tos_uri"] = json!("https://service.test/account");
        let _host = DocumentHost::start(listener, cert, response("200 OK", JSON, &described.to_string()), false)?;
        let tab = signed_in(server, "ann@acme.test").await?;
        let begun = tab.get(&asking(&id, &[])).await?;
        let page = tab.get(begun.next()?).await?.text;
        assert!(page.contains(">Website</a> (<bdi>editor.test</bdi>)"), "{page}");
        assert!(!page.contains("https://service.test/account"), "{page}");
        // What an older document said is replaced.
        server.sql("update clients set tos_uri = 'https://old.test/', fresh_until = created_at").await?;
        server.advance(1);
        let begun = tab.get(&asking(&id, &[])).await?;
        assert!(!tab.get(begun.next()?).await?.text.contains("old.test"));
        Ok(())
    })
}

type TestResponse = fn(&str) -> Vec<u8>;

#[test]
fn a_document_that_does_not_do_makes_no_client_ss_03_ss_04_ss_05_ss_06_ss_08() -> Result<()> {
    with_hosts(async |server, cert| {
        let tab = signed_in(server, "ann@acme.test").await?;
        let cases: &[(&str, TestResponse)] = &[
            ("redirect", |_| response("302 Found", "Location: https://127.0.0.1/inner\r\n", "")),
            ("not found", |id| response("404 Not Found", JSON, &document(id).to_string())),
            ("another type", |id| response("200 OK", "Content-Type: text/html\r\n", &document(id).to_string())),
            ("packed", |id| {
                response("200 OK", &format!("{JSON}Content-Encoding: gzip\r\n"), &document(id).to_string())
            }),
            ("too large", |id| response("200 OK", JSON, &format!("{}{}", document(id), " ".repeat(10_000_000)))),
            ("another id", |id| response("200 OK", JSON, &document(&format!("{id}/")).to_string())),
            ("a secret", |id| {
                response("200 OK", JSON, &document(id).to_string().replace('{', "{\"client_secret\":\"CANARY\","))
            }),
            ("no JSON", |_| response("200 OK", JSON, "CANARY of the inner network")),
            ("an array", |_| response("200 OK", JSON, "[]")),
            ("no HTTP", |_| b"CANARY\r\n\r\n".to_vec()),
            ("nothing", |_| Vec::new()),
        ];
        for (what, bytes) in cases {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let id = format!("https://{}/client.json", listener.local_addr()?);
            let host = DocumentHost::start(listener, cert, bytes(&id), false)?;
            let shown = tab.get(&asking(&id, &[])).await?;
            check_refused(&shown, what);
            assert!(!shown.text.contains("CANARY"), "{what}: what was fetched is shown");
            assert_eq!(host.asked(), 1, "{what}");
        }
        assert_eq!(server.sql("select count(*) from clients where kind = 'document'").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn a_slow_document_is_given_up_soon_ss_04() -> Result<()> {
    with_hosts(async |server, cert| {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let id = format!("https://{}/client.json", listener.local_addr()?);
        let _host = DocumentHost::start(listener, cert, response("200 OK", JSON, &document(&id).to_string()), true)?;
        let tab = signed_in(server, "ann@acme.test").await?;
        let began = Instant::now();
        check_refused(&tab.get(&asking(&id, &[])).await?, "slow");
        assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
        Ok(())
    })
}

#[test]
fn nothing_inside_is_ever_connected_to_ss_01_ss_02_ss_07() -> Result<()> {
    // Nothing but public addresses is allowed here, which is what operators have unless they say otherwise.
    Setup::default().run(async |server| {
        let sink = TcpListener::bind("127.0.0.1:0").await?;
        let (port, connected) = (sink.local_addr()?.port(), Arc::new(AtomicUsize::new(0)));
        let counter = connected.clone();
        let listening = tokio::spawn(async move {
            while sink.accept().await.is_ok() {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        let tab = signed_in(server, "ann@acme.test").await?;
        for host in [
            "127.0.0.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "169.254.169.254",
            "10.0.0.1",
            "0.0.0.0",
            "localhost",
            "x.localhost",
            "2130706433",
            "0177.0.0.1",
            "0x7f.0.0.1",
            "127.1",
            "[fe80::1%25lo]",
            "[64:ff9b::7f00:1]",
        ] {
            check_refused(&tab.get(&asking(&format!("https://{host}:{port}/x"), &[])).await?, host);
        }
        for wrong in [
            format!("https://127.0.0.1:{port}"),
            format!("https://u@127.0.0.1:{port}/x"),
            format!("https://127.0.0.1:{port}/x#f"),
            format!("https://127.0.0.1:{port}/a/../x"),
            format!("https://127.0.0.1:{port}/%2e%2e/x"),
            format!("https://127.0.0.1:{port}/\tx"),
        ] {
            check_refused(&tab.get(&asking(&wrong, &[])).await?, &wrong);
        }
        assert_eq!(connected.load(Ordering::SeqCst), 0, "something inside was connected to");
        listening.abort();
        Ok(())
    })
}

#[test]
fn fetching_is_limited_ss_09() -> Result<()> {
    let setup = Setup::default().set("limits.documents", "3+60").set("documents.allowed_networks", "127.0.0.1/32");
    setup.run(async |server| {
        let mut statuses = Vec::new();
        for number in 0..5 {
            let tab = signed_in(server, &format!("user{number}@acme.test")).await?;
            statuses.push(tab.get(&asking(&format!("https://127.0.0.1:1/{number}"), &[])).await?.status.as_u16());
        }
        assert_eq!(statuses, [400, 400, 400, 429, 429]);
        Ok(())
    })
}

#[test]
fn one_user_does_not_use_up_the_limit_of_a_host_rv_51() -> Result<()> {
    let setup = Setup::default().set("limits.documents", "10+60").set("documents.allowed_networks", "127.0.0.1/32");
    setup.run(async |server| {
        let (greedy, other) = (signed_in(server, "ann@acme.test").await?, signed_in(server, "bob@acme.test").await?);
        let mut statuses = Vec::new();
        for number in 0..4 {
            statuses.push(greedy.get(&asking(&format!("https://127.0.0.1:1/{number}"), &[])).await?.status.as_u16());
        }
        assert_eq!(statuses, [400, 400, 429, 429]);
        assert_eq!(other.get(&asking("https://127.0.0.1:1/9", &[])).await?.status, 400, "the limit of the other user");
        Ok(())
    })
}

#[test]
fn nothing_is_fetched_before_sign_in_rv_51() -> Result<()> {
    with_hosts(async |server, cert| {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let place = listener.local_addr()?;
        let id = format!("https://{place}/client.json");
        let host = DocumentHost::start(listener, cert, response("200 OK", JSON, &document(&id).to_string()), false)?;
        for number in 0..20 {
            let other = format!("https://{place}/{number}.json");
            assert!(Tab::open(server)?.get(&asking(&other, &[])).await?.next()?.starts_with("/sign-in/"));
        }
        let tab = Tab::open(server)?;
        let begun = tab.get(&asking(&id, &[("prompt", "login"), ("login_hint", "ann@acme.test")])).await?;
        let path = begun.next()?.to_owned();
        let page = tab.get(&path).await?;
        assert!(page.text.contains("<bdi>127.0.0.1</bdi>") && !page.text.contains("app.test"), "{}", page.text);
        assert!(page.text.contains("ann@acme.test"), "the hint is not shown: {}", page.text);
        let consent = path.replace("/sign-in/", "/consent/");
        assert_eq!(tab.get(&consent).await?.next()?, path);
        assert_eq!(tab.submit(&consent, &[("decision", "allow"), ("space", "personal")]).await?.next()?, path);
        assert_eq!(host.asked(), 0, "a document was fetched for a stranger");
        // One sign-in suffices for `prompt=login`, although it is read only afterwards.
        let shown = tab.sign_in(&server.mailbox, &path, "ann@acme.test").await?;
        assert_eq!(shown.next()?, consent);
        assert_eq!(host.asked(), 1);
        let done = crate::support::authorize::agree(&tab, shown, &[("space", "personal")]).await?;
        assert_eq!(done.parameter("state").as_deref(), Some("a state"));
        let tokens = server.http.post("/oauth/token", &exchange(&id, &code(&done)?)).await?;
        assert_eq!(tokens.status, 200, "{}", tokens.text);
        // A document that was fetched lately serves browsers without a signed-in user, too.
        let stranger = Tab::open(server)?;
        let page = stranger.get(stranger.get(&asking(&id, &[])).await?.next()?).await?;
        assert!(page.text.contains("app.test"), "{}", page.text);
        assert_eq!(host.asked(), 1);
        Ok(())
    })
}

#[test]
fn what_waited_for_a_document_is_answered_nowhere_else_rv_51() -> Result<()> {
    with_hosts(async |server, cert| {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let id = format!("https://{}/client.json", listener.local_addr()?);
        let host = DocumentHost::start(listener, cert, response("200 OK", JSON, &document(&id).to_string()), false)?;
        let silent = asking(&id, &[("prompt", "none")]);
        check_refused(&Tab::open(server)?.get(&silent).await?, "prompt=none of an unknown client");
        for (number, changes) in [
            vec![("redirect_uri", "https://evil.test/cb")],
            vec![("redirect_uri", "https://evil.test/cb"), ("code_challenge", "")],
        ]
        .iter()
        .enumerate()
        {
            let tab = Tab::open(server)?;
            let begun = tab.get(&asking(&id, changes)).await?;
            let page = tab.get(begun.next()?).await?;
            assert!(!page.headers["content-security-policy"].to_str()?.contains("evil.test"));
            let email = format!("user{number}@acme.test");
            let shown = tab.sign_in(&server.mailbox, begun.next()?, &email).await?;
            check_refused(&shown, "an address that is not in the document");
            assert!(!shown.text.contains("evil.test"), "{}", shown.text);
            server.advance(3_601);
        }
        // A request that is wrong is told to the person, who may send the answer to an address in the document.
        let tab = Tab::open(server)?;
        let begun = tab.get(&asking(&id, &[("code_challenge", "")])).await?;
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        check_refused(&shown, "no challenge");
        assert!(shown.text.contains("https://app.test/cb?error=invalid_request"), "{}", shown.text);
        // An older document suffices to answer login_required.
        server.advance(3_601);
        let shown = Tab::open(server)?.get(&silent).await?;
        check_refused(&shown, "prompt=none of a known client");
        assert!(shown.text.contains("https://app.test/cb?error=login_required"), "{}", shown.text);
        assert_eq!(host.asked(), 3, "a document was fetched for a stranger");
        Ok(())
    })
}

#[test]
fn a_host_that_answers_slowly_leaves_room_for_others_rv_51() -> Result<()> {
    with_hosts(async |server, cert| {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let place = listener.local_addr()?;
        let slow = DocumentHost::start(listener, cert, response("200 OK", JSON, "{}"), true)?;
        let url = |number: usize| url::Url::parse(&format!("https://{place}/{number}.json"));
        let fetch = async |number: usize| {
            // Each of ten users asks twice.
            let user_id = uuid::Uuid::from_u128(number as u128 % 10).into();
            service_server::net::document_fetcher::fetch(&server.app.documents, &url(number)?, user_id)
                .await
                .err()
                .context("?")
        };
        let began = Instant::now();
        let all = futures_util::future::join_all((0..20).map(fetch)).await;
        let count = |wanted| all.iter().filter(|one| one.as_ref().is_ok_and(|why| *why == wanted)).count();
        assert_eq!((count(FetchError::UserBusy), count(FetchError::HostBusy)), (4, 12), "{all:?}");
        assert_eq!(slow.asked(), 4, "one host has four places");
        assert!(began.elapsed() < Duration::from_secs(8));
        Ok(())
    })
}
