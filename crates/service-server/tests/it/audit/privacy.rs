//! What is personal in the record: sealed, opened for those who may read it, and gone when its key is gone.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_api::{Timestamp, audit_events::EventName, ids::UserId};
use service_server::{
    app::App,
    database::Connection,
    flows::{audit::keys, operations::retention},
    store::audit_events::{self, AuditEventQuery, NewAuditEvent},
};
use service_testkit::{
    server::{SignedIn, TestServer, config, with_server},
    settings::Settings,
    tab::Tab,
};

use crate::support::{
    admin,
    audit::{happen, problems, seal, without_limits},
    authorize::{CALLBACK, asking, go_through, register},
};

async fn events(server: &TestServer, who: &SignedIn, query: &str) -> Result<Vec<Value>> {
    let response = server.http.get(&format!("/v1/audit-events{query}"), Some(&who.access_token)).await?;
    anyhow::ensure!(response.status == 200, "{}", response.text);
    Ok(response.body["data"].as_array().context("no list")?.clone())
}

/// Every audit row, as a holder of a copy of the database reads it.
async fn record(server: &TestServer) -> Result<String> {
    let all = server.sql("select string_agg(e::text, E'\n') from audit_events e").await?;
    all.context("nothing is recorded")
}

#[test]
fn the_record_is_readable_until_its_keys_are_deleted_and_the_chain_holds_ever_after_rv_18() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let record_then = record(server).await?;
        assert!(record_then.contains("127.0.0.0/24"), "the network is not there: {record_then}");
        assert!(!record_then.contains("127.0.0.1"), "an address is in clear: {record_then}");
        assert!(!record_then.contains("ann@acme.test"), "an e-mail address is in clear: {record_then}");
        let created = &events(server, &ann, "?event=user.created").await?[0];
        assert_eq!(
            (&created["address"], &created["details"]),
            (&json!("127.0.0.1"), &json!({ "email": "ann@acme.test" }))
        );
        seal(server).await?;
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());

        // From the day after the thirtieth the address cannot be read any more.
        server.advance(86_400 * 30);
        retention::delete_ended(&server.app).await?;
        let ann = SignedIn { user_id: ann.user_id, ..server.sign_in("ann@acme.test", "read write").await? };
        assert_eq!(events(server, &ann, "?event=user.created").await?[0]["address"], "127.0.0.1");
        server.advance(86_400);
        retention::delete_ended(&server.app).await?;
        let ann = SignedIn { user_id: ann.user_id, ..server.sign_in("ann@acme.test", "read write").await? };
        let created = &events(server, &ann, "?event=user.created").await?[0];
        assert_eq!(created["address"], "127.0.0.0/24", "the address can still be read");
        assert_eq!(created["details"]["email"], "ann@acme.test");
        let signed_in = &events(server, &ann, "?event=sign_in.succeeded&limit=1").await?[0];
        assert_eq!(signed_in["address"], "127.0.0.1", "today's address cannot be read");
        seal(server).await?;
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());

        let db = server.app.database.begin().await?;
        assert!(keys::erase_user(&db, ann.user_id).await?);
        db.commit().await?;
        let created = &events(server, &ann, "?event=user.created").await?[0];
        assert_eq!(created["details"], json!({}), "the e-mail address can still be read");
        assert_eq!(problems(&server.app).await?, Vec::<String>::new());
        assert!(record(server).await?.contains(&record_then), "an event was changed");
        Ok(())
    })
}

#[test]
fn an_operator_verifies_before_and_after_both_deletions_rv_18() -> Result<()> {
    without_limits().on_system_clock().run(async |server| {
        server.sign_in("ann@acme.test", "read").await?;
        seal(server).await?;
        for deletion in ["select 1", "delete from audit_day_keys", "delete from audit_user_keys"] {
            server.sql(deletion).await?;
            let printed = admin::run(server, &["audit", "verify"])?;
            assert!(printed.contains("The audit log is intact up to seal"), "after {deletion}: {printed}");
        }
        for tampering in [
            "update audit_events set sealed_address = null",
            "update audit_events set sealed_address = sha256('x') where sealed_address is not null",
            "update audit_events set sealed_details = null",
            "update audit_events set sealed_details = sha256('x') where sealed_details is null",
            "update audit_events set sealed_details = sealed_address, sealed_address = sealed_details",
        ] {
            server.sql("create table kept as table audit_events").await?;
            server.sql(tampering).await?;
            let (success, printed) = admin::admin(server, &["audit", "verify"])?;
            assert!(!success && printed.contains("PROBLEM: seal"), "after {tampering}: {printed}");
            server
                .sql("delete from audit_events; insert into audit_events select * from kept; drop table kept")
                .await?;
            admin::run(server, &["audit", "verify"])?;
        }
        Ok(())
    })
}

#[test]
fn the_key_of_a_day_costs_no_query_and_every_node_has_the_same_rv_18() -> Result<()> {
    without_limits().run(async |server| {
        let other = App::new(config(&server.settings)?, server.app.clock.clone())?;
        keys::prepare(&server.app, server.now()).await?;
        keys::prepare(&other, server.now()).await?;
        assert_eq!(server.sql("select count(*) from audit_day_keys").await?.as_deref(), Some("2"));
        // A look-up of the key would fail now.
        server.sql("alter table audit_day_keys rename to audit_day_keys_elsewhere").await?;
        for number in 0..3 {
            happen(server, number).await?;
        }
        let db = other.database.begin().await?;
        record_sign_in(&other, &db, server.now(), service_server::crypto::random::id(server.now())?).await?;
        db.commit().await?;
        server.sql("alter table audit_day_keys_elsewhere rename to audit_day_keys").await?;
        let ann = server.sign_in("ann@acme.test", "read").await?;
        assert_eq!(events(server, &ann, "?event=sign_in.succeeded").await?[0]["address"], "127.0.0.1");
        assert_eq!(server.sql("select count(*) from audit_day_keys").await?.as_deref(), Some("2"));
        Ok(())
    })
}

#[test]
fn a_key_that_was_rolled_back_seals_nothing_that_is_kept_rv_18() -> Result<()> {
    with_server(async |server| {
        let node = App::new(config(&server.settings)?, server.app.clock.clone())?;
        server.sql("delete from audit_day_keys").await?;
        let ann = server.sign_in("ann@acme.test", "read").await?;
        server.sql("delete from audit_day_keys").await?;
        // This node makes the key, uses it twice, and takes it all back.
        let db = node.database.begin().await?;
        record_sign_in(&node, &db, server.now(), ann.user_id).await?;
        record_sign_in(&node, &db, server.now(), ann.user_id).await?;
        drop(db);
        let db = node.database.begin().await?;
        record_sign_in(&node, &db, server.now(), ann.user_id).await?;
        db.commit().await?;
        let seen = App::new(config(&server.settings)?, server.app.clock.clone())?;
        let db = seen.database.connect().await?;
        let event = Some(EventName::SignInSucceeded);
        let listed = AuditEventQuery { event, since: None, until: None, before: None, limit: 9 };
        let stored = audit_events::list_by_user(&db, ann.user_id, &listed).await?;
        let read = keys::open(&seen, &db, stored).await?;
        let mut hidden = audit_events::list_by_user(&db, ann.user_id, &listed).await?;
        for stored in &mut hidden {
            stored.event.address = None;
        }
        let hidden = keys::open(&seen, &db, hidden).await?;
        assert!(hidden.iter().all(|event| event.address.is_none()), "an address that was hidden is back");
        let addresses: Vec<_> = read.iter().filter_map(|event| event.address.as_deref()).collect();
        assert!(addresses.contains(&"192.0.2.1"), "sealed under a key that was rolled back: {addresses:?}");
        Ok(())
    })
}

#[test]
fn the_account_page_shows_addresses_and_then_networks_rv_18() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let client = register(server, "Web app", &[CALLBACK]).await?;
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        let page = tab.get("/account/activity").await?;
        assert!(page.text.contains("127.0.0.1") && !page.text.contains("127.0.0.0/24"), "{}", page.text);
        server.sql("delete from audit_day_keys").await?;
        server.app.audit_keys.forget_days_before(jiff::civil::date(2999, 1, 1));
        let page = tab.get("/account/activity").await?;
        assert!(page.text.contains("127.0.0.0/24"), "{}", page.text);
        Ok(())
    })
}

/// A sign-in that a node records in a transaction.
async fn record_sign_in(app: &App, db: &Connection, at: Timestamp, user_id: UserId) -> Result<()> {
    let event = NewAuditEvent {
        id: service_server::crypto::random::id(at)?,
        at,
        event: EventName::SignInSucceeded,
        user_id: Some(user_id),
        client_id: None,
        workspace_id: None,
        subject: None,
        address: Some("192.0.2.1".parse()?),
        request_id: None,
        details: json!({}),
        keys: Some(app.audit_keys.clone()),
    };
    Ok(audit_events::insert(db, &event).await?)
}

#[test]
fn another_root_key_leaves_the_record_readable_and_a_lost_one_leaves_it_writable_rv_18() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let old = server.settings.get("secrets.root_keys").context("no root keys")?.to_owned();
        let node = |keys: &str| {
            let mut settings = server.settings.clone();
            settings.set("secrets.root_keys", keys);
            App::new(config(&settings)?, server.app.clock.clone())
        };
        let new = format!("2:{}", Settings::random_root_key()?);
        keys::prepare(&node(&format!("{new},{old}"))?, server.now()).await?;
        let without_old = node(&new)?;
        keys::prepare(&without_old, server.now()).await?;
        let db = without_old.database.connect().await?;
        let event = Some(EventName::SignInSucceeded);
        let listed = AuditEventQuery { event, since: None, until: None, before: None, limit: 9 };
        let stored = audit_events::list_by_user(&db, ann.user_id, &listed).await?;
        let read = keys::open(&without_old, &db, stored).await?;
        assert_eq!(read.first().and_then(|event| event.address.as_deref()), Some("127.0.0.1"));
        // After a leak the old keys may be gone before any node has sealed again.
        let other = node(&format!("3:{}", Settings::random_root_key()?))?;
        keys::prepare(&other, server.now()).await?;
        let db = other.database.begin().await?;
        record_sign_in(&other, &db, server.now(), ann.user_id).await?;
        Ok(db.commit().await?)
    })
}

#[test]
fn keys_of_users_are_sealed_again_so_that_an_old_root_key_can_go_rv_18() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let bob = server.sign_in("bob@acme.test", "read").await?;
        // More than one batch of keys that are never used.
        server
            .sql("insert into audit_user_keys (user_id, sealed, created_at)
                  select gen_random_uuid(), '\\x01'::bytea || sha256(n::text::bytea), now() from generate_series(1, 1500) n")
            .await?;
        let old = server.settings.get("secrets.root_keys").context("no root keys")?.to_owned();
        assert!(old.starts_with("1:") && !old.contains(','), "the test knows one root key");
        let node = |keys: &str| {
            let mut settings = server.settings.clone();
            settings.set("secrets.root_keys", keys);
            App::new(config(&settings)?, server.app.clock.clone())
        };
        let new = format!("2:{}", Settings::random_root_key()?);
        let under = "select string_agg(distinct get_byte(sealed, 0)::text, ' ') from audit_user_keys
                      where user_id in (select id from users)";
        // Two nodes at once.
        let (first, second) = (node(&format!("{new},{old}"))?, node(&format!("{new},{old}"))?);
        tokio::try_join!(keys::prepare(&first, server.now()), keys::prepare(&second, server.now()))?;
        assert_eq!(server.sql(under).await?.as_deref(), Some("2"));
        // What can be opened with neither is left as it is.
        let left = "select count(*) from audit_user_keys where get_byte(sealed, 0) = 1";
        assert_eq!(server.sql(left).await?.as_deref(), Some("1500"));
        let without_old = node(&new)?;
        keys::prepare(&without_old, server.now()).await?;
        for (user, email) in [(&ann, "ann@acme.test"), (&bob, "bob@acme.test")] {
            let db = without_old.database.connect().await?;
            let event = Some(EventName::UserCreated);
            let listed = AuditEventQuery { event, since: None, until: None, before: None, limit: 9 };
            let stored = audit_events::list_by_user(&db, user.user_id, &listed).await?;
            let read = keys::open(&without_old, &db, stored).await?;
            let told = read.first().and_then(|event| event.details.get("email")).and_then(|email| email.as_str());
            assert_eq!(told, Some(email));
        }
        Ok(())
    })
}
