//! `serviced admin client`: what an operator does to clients reaches every token of theirs, and is recorded.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use service_api::ids::Id as _;
use service_server::{crypto::random, flows::clients, tasks::housekeeping};
use service_testkit::{
    response::TestResponse,
    server::{Setup, TestServer, with_server},
    settings::BASE_URL,
    tab::Tab,
};

use crate::support::{
    admin::{admin, run},
    authorize::CALLBACK,
    refresh::check_refused,
};

async fn whoami(server: &TestServer, token: &str) -> Result<TestResponse> {
    server.http.get("/v1/whoami", Some(token)).await
}

/// Waits until the token is refused for this reason; five seconds at most.
async fn check_revoked(server: &TestServer, token: &str, reason: &str) -> Result<()> {
    let began = Instant::now();
    loop {
        let response = whoami(server, token).await?;
        if response.status != 200 {
            ensure!(response.status == 401 && response.body["details"]["reason"] == reason, "{}", response.text);
            return Ok(());
        }
        ensure!(began.elapsed() < Duration::from_secs(5), "still accepted");
    }
}

/// What is recorded under this name: the client, and who did it.
async fn recorded(server: &TestServer, event: &str) -> Result<Option<String>> {
    let sql = format!(
        "select coalesce(client_id, details->>'host') || ' by ' || (details->>'operator') from audit_events
          where event = '{event}' order by id desc limit 1"
    );
    server.sql(&sql).await
}

#[test]
fn disabling_a_client_revokes_its_access_tokens_on_every_node_rv_12() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        ensure!(whoami(server, &ann.access_token).await?.status == 200, "a new token does not work");
        run(server, &["--operator", "eve", "client", "disable", "service-cli"])?;
        check_revoked(server, &ann.access_token, "client_disabled").await?;
        assert_eq!(recorded(server, "client.disabled").await?.as_deref(), Some("service-cli by eve"));
        run(server, &["--operator", "eve", "client", "enable", "service-cli"])?;
        assert_eq!(recorded(server, "client.enabled").await?.as_deref(), Some("service-cli by eve"));
        // What was revoked stays so; the session was only kept from going on.
        check_revoked(server, &ann.access_token, "client_disabled").await
    })
}

#[test]
fn an_operator_revokes_all_sessions_of_one_client_and_of_no_other_rv_12() -> Result<()> {
    let setup = Setup::default().on_system_clock().set("limits.otp_sends_per_address", "1000/60");
    setup.run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        // Of another client: the same session under its name.
        let other = server.sign_in("bob@acme.test", "read").await?;
        server
            .sql(&format!("update grants set client_id = 'service-web' where id = '{}'", other.grant_id.uuid()))
            .await?;
        let printed = run(server, &["client", "revoke-sessions", "service-cli", "--operator", "eve"])?;
        assert!(printed.contains("Revoked 1 sessions"), "{printed}");
        check_revoked(server, &ann.access_token, "revoked_by_admin").await?;
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("revoked_by_admin"));
        assert_eq!(crate::support::refresh::column(server, other.grant_id, "revoked_at").await?, None);
        assert_eq!(recorded(server, "client.sessions_revoked").await?.as_deref(), Some("service-cli by eve"));
        assert!(!admin(server, &["client", "revoke-sessions", "client_unknown"])?.0);
        Ok(())
    })
}

#[test]
fn every_change_of_a_client_names_its_operator_rv_12() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let eve = ["--operator", "eve"];
        let with = |arguments: &[&str]| run(server, &[arguments, &eve[..]].concat());
        let printed = with(&["client", "create", "Planner", "--redirect-uri", CALLBACK])?;
        let id = printed.trim().strip_prefix("client_id: ").context("no id")?.to_owned();
        let by_eve = format!("{id} by eve");
        assert_eq!(recorded(server, "client.created").await?.as_deref(), Some(by_eve.as_str()));
        with(&["client", "set-redirect-uris", &id, "https://planner.test/cb"])?;
        assert_eq!(recorded(server, "client.redirect_uris_set").await?.as_deref(), Some(by_eve.as_str()));
        // Without a name, there still is one.
        run(server, &["client", "disable", &id])?;
        assert!(recorded(server, "client.disabled").await?.is_some_and(|by| by.starts_with(&id)));
        assert!(!admin(server, &["client", "enable", &id, "--operator", ""])?.0);
        Ok(())
    })
}

#[test]
fn registering_again_does_not_enable_a_disabled_client_rv_11() -> Result<()> {
    with_server(async |server| {
        let metadata = json!({ "client_name": "Editor", "redirect_uris": ["https://editor.test/cb"] });
        let first = server.http.post("/oauth/register", &metadata).await?.field("client_id").to_owned();
        let operator = service_server::flows::operator::Operator::default();
        assert!(clients::disable(&server.app, &operator, &first).await?);
        server.advance(40 * 86_400);
        housekeeping::clean_once(&server.app).await?;
        let again = server.http.post("/oauth/register", &metadata).await?;
        assert_eq!(again.field("client_id"), first);
        let disabled = format!("select disabled_at is not null from clients where id = '{first}'");
        assert_eq!(server.sql(&disabled).await?.as_deref(), Some("t"));
        Ok(())
    })
}

#[test]
fn a_client_that_registers_while_its_host_is_being_blocked_is_refused_rv_11() -> Result<()> {
    with_server(async |server| {
        // What `block-host` does, held at the moment before it is committed.
        let held = server.app.database.begin().await?;
        service_server::store::blocked_client_hosts::lock(&held).await?;
        let (host, now) = ("editor.test", server.now());
        assert!(service_server::store::blocked_client_hosts::insert(&held, host, "eve", now).await?);
        let waiting = async {
            let began = Instant::now();
            while server.sql("select count(*) from pg_locks where not granted").await?.as_deref() == Some("0") {
                ensure!(began.elapsed() < Duration::from_secs(10), "the registration does not wait");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(held.commit().await?)
        };
        let metadata = json!({ "client_name": "Editor", "redirect_uris": ["https://a.editor.test/cb"] });
        let registering = server.http.post("/oauth/register", &metadata);
        let (refused, ()) = tokio::try_join!(registering, waiting)?;
        assert_eq!((refused.status.as_u16(), refused.error()), (400, "invalid_redirect_uri"), "{}", refused.text);
        assert_eq!(server.sql("select count(*) from clients where kind = 'dynamic'").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn a_client_at_a_blocked_host_is_refused_although_it_is_not_disabled_rv_11() -> Result<()> {
    with_server(async |server| {
        let ask = async |id: &str, uri: &str| {
            Tab::open(server)?.get(&crate::support::authorize::asking(id, &[("redirect_uri", uri)])).await
        };
        let mut ids = Vec::new();
        for uri in ["https://a.editor.test/cb", "test.editor.notes:/cb"] {
            let metadata = json!({ "client_name": "Editor", "redirect_uris": [uri] });
            let id = server.http.post("/oauth/register", &metadata).await?.field("client_id").to_owned();
            assert!(ask(&id, uri).await?.next()?.starts_with("/sign-in/"));
            ids.push((id, uri));
        }
        let of_operator = crate::support::authorize::register(server, "Web app", &["https://editor.test/cb"]).await?;
        // As after a restore: the host is blocked, and nothing is disabled.
        server.sql("insert into blocked_client_hosts values ('editor.test', 'eve', now())").await?;
        for (id, uri) in &ids {
            let shown = ask(id, uri).await?;
            assert_eq!((shown.status.as_u16(), shown.location.as_deref()), (400, None), "{uri}: {}", shown.text);
            assert!(shown.text.contains("This app has been disabled"), "{}", shown.text);
        }
        assert!(ask(&of_operator, "https://editor.test/cb").await?.next()?.starts_with("/sign-in/"));
        Ok(())
    })
}

#[test]
fn a_blocked_host_is_blocked_under_every_name_rv_11() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let register = async |name: &str, uri: &str| {
            let metadata = json!({ "client_name": name, "redirect_uris": [uri] });
            server.http.post("/oauth/register", &metadata).await
        };
        let known = register("Editor", "https://a.editor.test/cb").await?.field("client_id").to_owned();
        let printed = run(server, &["client", "block-host", "editor.test", "--operator", "eve"])?;
        assert!(printed.contains("disabled 1"), "{printed}");
        assert_eq!(recorded(server, "client.host_blocked").await?.as_deref(), Some("editor.test by eve"));
        let disabled = format!("select disabled_at is not null from clients where id = '{known}'");
        assert_eq!(server.sql(&disabled).await?.as_deref(), Some("t"));
        for uri in
            ["https://editor.test/cb", "https://b.editor.test:8443/cb", "test.editor.notes:/cb", "test.editor:/cb"]
        {
            let refused = register("Another name", uri).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (400, "invalid_redirect_uri"), "{}", refused.text);
        }
        assert_eq!(register("Other", "https://noteditor.test/cb").await?.status, 201);
        // A document there is not even fetched.
        let document = crate::support::authorize::asking("https://docs.editor.test/client.json", &[]);
        let shown = server.http.get(&document, None).await?;
        assert!(shown.status.is_client_error() && shown.text.contains("blocked"), "{}", shown.text);
        assert!(run(server, &["client", "blocked-hosts"])?.contains("editor.test  blocked by eve"));
        assert!(!admin(server, &["client", "block-host", "localhost"])?.0);
        run(server, &["client", "unblock-host", "editor.test"])?;
        assert_eq!(register("Another name", "https://editor.test/cb").await?.status, 201);
        Ok(())
    })
}

#[test]
fn the_list_of_clients_has_no_end_before_the_last_rv_49() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        server
            .sql(
                "insert into clients (id, name, kind, first_party, may_use_otp, created_at)
                 select 'client_' || n, 'Client', 'dynamic', false, false, '2026-01-01Z' from generate_series(1, 2500) n",
            )
            .await?;
        let printed = run(server, &["client", "list"])?;
        assert_eq!(printed.lines().filter(|line| line.starts_with("client_")).count(), 2_500);
        assert!(printed.contains("client_2500 ") && printed.contains("service-web"));
        Ok(())
    })
}

#[test]
fn an_assertion_that_never_ends_is_refused_rv_53() -> Result<()> {
    with_server(async |server| {
        let pkcs8 = random::signing_key()?;
        let wanted = clients::ClientToRegister {
            name: "Signer".into(),
            redirect_uris: vec![CALLBACK.into()],
            jwks: Some(json!({ "keys": [crate::support::forge::public_jwk(&pkcs8, "one")?] })),
            ..clients::ClientToRegister::default()
        };
        let id = clients::create(&server.app, &wanted).await?.id;
        for exp in [json!(i64::MAX), json!(i64::MAX - 1), json!(i64::MIN), json!(u64::MAX), json!(1e300)] {
            let claims = json!({ "iss": id, "sub": id, "aud": BASE_URL, "exp": exp, "jti": exp.to_string() });
            let header = Header { kid: Some("one".into()), ..Header::new(Algorithm::ES256) };
            let assertion = jsonwebtoken::encode(&header, &claims, &EncodingKey::from_ec_der(&pkcs8))?;
            let body = json!({
                "token": "x", "client_id": id, "client_assertion": assertion,
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            });
            let response = server.http.post("/oauth/introspect", &body).await?;
            assert_eq!(
                (response.status.as_u16(), response.error()),
                (401, "invalid_client"),
                "{exp}: {}",
                response.text
            );
            server.sql("delete from rates").await?;
        }
        Ok(())
    })
}

#[test]
fn keys_that_could_verify_nothing_are_refused_when_given_rv_53() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let pkcs8 = random::signing_key()?;
        let good = crate::support::forge::public_jwk(&pkcs8, "one")?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("keys.json");
        let path = file.to_str().context("no path")?;
        let create = |keys: &Value| -> Result<(bool, String)> {
            std::fs::write(&file, keys.to_string())?;
            admin(server, &["client", "create", "Signer", "--redirect-uri", CALLBACK, "--jwks", path])
        };
        let mut off_curve = good.clone();
        off_curve["crv"] = "P-384".into();
        let mut unnamed = good.clone();
        unnamed.as_object_mut().context("no object")?.remove("kid");
        for (what, keys) in [
            ("no set", json!({ "kty": "EC" })),
            ("no keys", json!({ "keys": [] })),
            ("nonsense", json!({ "keys": [{ "kty": "EC", "crv": "P-256", "x": "!", "y": "!" }] })),
            ("another curve", json!({ "keys": [off_curve] })),
            ("not an object", json!({ "keys": ["x"] })),
            ("two of one name", json!({ "keys": [good, good] })),
            ("two without a name", json!({ "keys": [unnamed, unnamed] })),
        ] {
            let (success, printed) = create(&keys)?;
            assert!(!success, "{what}: {printed}");
        }
        assert!(create(&json!({ "keys": [good] }))?.0);
        assert!(create(&json!({ "keys": [unnamed] }))?.0);
        Ok(())
    })
}
