//! Domains: claiming them, and proving them by a record in DNS.

use std::net::UdpSocket;

use anyhow::{Result, ensure};
use serde_json::json;
use service_testkit::{
    dns_server::{DnsServer, Record},
    server::{Setup, with_server},
};

use crate::support::connections::{Company, count_events, record_value, route, txt, with_dns};

#[test]
fn a_domain_is_pending_until_its_record_is_found() -> Result<()> {
    with_dns(async |server, dns| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let connection = acme.connect(server).await?;
        let claimed = acme
            .send(server, "POST", "domains", Some(&json!({ "domain": "Acme.test", "connectionId": connection })))
            .await?;
        assert_eq!(claimed.status, 201, "{}", claimed.text);
        assert_eq!(claimed.field("domain"), "acme.test");
        assert_eq!(claimed.field("status"), "pending");
        let value = record_value(&claimed);
        assert_eq!(claimed.body["record"], json!({ "name": "acme.test", "type": "TXT", "value": value }));
        ensure!(value.starts_with("service-verification=") && value.len() == 53, "{value}");
        assert_eq!(route(server, "acme.test").await?, None);

        let missing = acme.verify(server, "acme.test").await?;
        assert_eq!((missing.status.as_u16(), missing.field("status")), (200, "pending"));
        ensure!(missing.field("lastError").contains("not found at acme.test"), "{}", missing.text);
        assert_eq!(route(server, "acme.test").await?, None);

        dns.serve(&[txt("acme.test", "v=spf1 -all"), txt("acme.test", &value)])?;
        let found = acme.verify(server, "acme.test").await?;
        assert_eq!((found.status.as_u16(), found.field("status")), (200, "verified"), "{}", found.text);
        assert!(found.body.get("lastError").is_none() && found.body.get("nextCheckAt").is_some(), "{}", found.text);
        let route = route(server, "acme.test").await?.expect("a route");
        assert_eq!((route.connection_id.to_string(), route.name.as_str(), route.required), (connection, "Acme", false));
        assert_eq!(acme.domain(server, "acme.test").await?["status"], "verified");
        // A second check confirms it and records nothing new.
        assert_eq!(acme.verify(server, "acme.test").await?.field("status"), "verified");
        assert_eq!(count_events(server, "domain.verified").await?, "1");
        assert_eq!(count_events(server, "domain.claimed").await?, "1");
        Ok(())
    })
}

#[test]
fn only_the_record_of_this_workspace_and_this_domain_proves_it() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, other) =
            (Company::found(server, "ann@acme.test").await?, Company::found(server, "eve@evil.test").await?);
        let value = record_value(&acme.claim(server, "acme.test").await?);
        let of_other = record_value(&other.claim(server, "acme.test").await?);
        let of_other_domain = record_value(&acme.claim(server, "dock.test").await?);
        let (start, end) = value.split_at(value.len() - 1);
        let wrong = format!("{start}{}", if end == "0" { "1" } else { "0" });
        let wrong = [wrong.as_str(), start, &of_other, &of_other_domain, "service-verification="];
        for wrong in wrong {
            dns.serve(&[txt("acme.test", wrong)])?;
            assert_eq!(acme.verify(server, "acme.test").await?.field("status"), "pending", "{wrong}");
        }
        dns.serve(&[txt("www.acme.test", &value), txt("test", &value)])?;
        assert_eq!(acme.verify(server, "acme.test").await?.field("status"), "pending");
        assert_eq!(route(server, "acme.test").await?, None);
        assert_eq!(count_events(server, "domain.verified").await?, "0");
        Ok(())
    })
}

#[test]
fn a_domain_includes_itself_and_no_subdomain() -> Result<()> {
    with_dns(async |server, dns| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let connection = acme.connect(server).await?;
        let value = acme.claim_for(server, "acme.test", &connection).await?;
        dns.serve(&[txt("acme.test", &value)])?;
        acme.verify(server, "acme.test").await?;
        assert!(route(server, "acme.test").await?.is_some());
        assert_eq!(route(server, "mail.acme.test").await?, None);
        // Another workspace can have the subdomain, with a record of its own there.
        let dock = Company::found(server, "bob@dock.test").await?;
        let value = record_value(&dock.claim(server, "mail.acme.test").await?);
        assert_eq!(dock.verify(server, "mail.acme.test").await?.field("status"), "pending");
        dns.serve(&[txt("mail.acme.test", &value)])?;
        assert_eq!(dock.verify(server, "mail.acme.test").await?.field("status"), "verified");
        Ok(())
    })
}

#[test]
fn aliases_are_followed_and_international_names_have_one_spelling() -> Result<()> {
    with_dns(async |server, dns| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let connection = acme.connect(server).await?;
        let aliased = acme.claim_for(server, "alias.acme.test", &connection).await?;
        let named = acme.claim_for(server, "Bücher.test", &connection).await?;
        dns.serve(&[
            Record::Cname { name: "alias.acme.test", target: "records.test" },
            txt("records.test", &aliased),
            txt("xn--bcher-kva.test", &named),
        ])?;
        assert_eq!(acme.verify(server, "alias.acme.test").await?.field("status"), "verified");
        let found = acme.verify(server, "b%C3%BCcher.test").await?;
        assert_eq!((found.field("domain"), found.field("status")), ("xn--bcher-kva.test", "verified"));
        assert!(route(server, "xn--bcher-kva.test").await?.is_some());
        let again = acme.claim(server, "XN--BCHER-kva.test").await?;
        assert_eq!((again.status.as_u16(), again.error()), (409, "conflict"));
        Ok(())
    })
}

#[test]
fn a_domain_of_many_organizations_cannot_be_claimed() -> Result<()> {
    let setup = Setup::default().set("sso.public_mail_domains", "gmail.com, mail.test");
    setup.run(async |server| {
        let acme = Company::found(server, "ann@acme.test").await?;
        for (domain, why) in [
            ("co.uk", "public suffix"),
            ("github.io", "public suffix"),
            ("xn--55qx5d.cn", "public suffix"),
            ("GMAIL.com", "public mail provider"),
            ("mail.test", "public mail provider"),
            ("127.0.0.1", "IP addresses"),
            ("[::1]", "IP addresses"),
            ("localhost", "two parts"),
            ("test", "two parts"),
            ("https://acme.test", "must be a domain"),
            ("ann@acme.test", "must be a domain"),
            ("acme..test", "must be a domain"),
            ("", "must be a domain"),
        ] {
            let refused = acme.claim(server, domain).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (422, "validation_failed"), "{domain}");
            ensure!(refused.field("error_description").contains(why), "{domain}: {}", refused.text);
            assert!(refused.body["details"]["fields"].get("domain").is_some(), "{domain}");
        }
        assert_eq!(acme.claim(server, "outlook.com").await?.status, 201, "the operator's list replaces the default");
        Ok(())
    })
}

#[test]
fn a_domain_claimed_twice_belongs_to_who_proves_it() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, dock) =
            (Company::found(server, "ann@acme.test").await?, Company::found(server, "bob@dock.test").await?);
        let (acme_connection, dock_connection) = (acme.connect(server).await?, dock.connect(server).await?);
        let of_acme = acme.claim_for(server, "acme.test", &acme_connection).await?;
        let of_dock = dock.claim_for(server, "acme.test", &dock_connection).await?;
        assert_ne!(of_acme, of_dock);
        assert_eq!(route(server, "acme.test").await?, None, "two claims route nowhere");
        dns.serve(&[txt("acme.test", &of_acme)])?;
        assert_eq!(dock.verify(server, "acme.test").await?.field("status"), "pending");
        assert_eq!(acme.verify(server, "acme.test").await?.field("status"), "verified");

        // Both records: who was first keeps it, and the other is told which record to remove.
        dns.serve(&[txt("acme.test", &of_acme), txt("acme.test", &of_dock)])?;
        let refused = dock.verify(server, "acme.test").await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (409, "conflict"));
        ensure!(refused.field("error_description").contains(&of_acme), "{}", refused.text);
        assert_eq!(dock.domain(server, "acme.test").await?["status"], "pending");
        assert_eq!(
            route(server, "acme.test").await?.map(|route| route.workspace_id.to_string()),
            Some(acme.id.clone())
        );
        Ok(())
    })
}

#[test]
fn a_domain_moves_when_the_record_of_the_former_workspace_is_gone() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, dock) =
            (Company::found(server, "ann@acme.test").await?, Company::found(server, "bob@dock.test").await?);
        let (acme_connection, dock_connection) = (acme.connect(server).await?, dock.connect(server).await?);
        let of_acme = acme.claim_for(server, "acme.test", &acme_connection).await?;
        let of_dock = dock.claim_for(server, "acme.test", &dock_connection).await?;
        dns.serve(&[txt("acme.test", &of_acme)])?;
        acme.verify(server, "acme.test").await?;
        dns.serve(&[txt("acme.test", &of_dock)])?;
        assert_eq!(dock.verify(server, "acme.test").await?.field("status"), "verified");
        let route = route(server, "acme.test").await?.expect("a route");
        assert_eq!(
            (route.workspace_id.to_string(), route.connection_id.to_string()),
            (dock.id.clone(), dock_connection)
        );
        let lost = acme.domain(server, "acme.test").await?;
        assert_eq!(lost["status"], "lost");
        assert!(lost.get("verifiedAt").is_none() && lost.get("nextCheckAt").is_none(), "{lost}");
        assert_eq!(count_events(server, "domain.lost").await?, "1");
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        assert_eq!(mail.subject, "Your domain is no longer verified");
        ensure!(mail.text.contains("Another workspace"), "{}", mail.text);
        // What the former workspace changes afterwards does not bring the domain back.
        acme.change(server, &acme_connection, &json!({ "name": "Acme Inc" })).await?;
        acme.send(server, "PATCH", "domains/acme.test", Some(&json!({ "connectionId": null }))).await?;
        let after = crate::support::connections::route(server, "acme.test").await?;
        assert_eq!(after, Some(route));
        assert_eq!(acme.send(server, "DELETE", "domains/acme.test", None).await?.status, 204);
        assert_eq!(crate::support::connections::route(server, "acme.test").await?, after);
        Ok(())
    })
}

#[test]
fn a_dns_server_can_be_given_by_name() -> Result<()> {
    let dns = DnsServer::start()?;
    // A name that has no address does no harm beside one that has.
    let servers = format!("dns.nowhere.invalid:53, localhost:{}", dns.address.port());
    Setup::default().set("dns.servers", &servers).run(async |server| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let value = record_value(&acme.claim(server, "acme.test").await?);
        dns.serve(&[txt("acme.test", &value)])?;
        assert_eq!(acme.verify(server, "acme.test").await?.field("status"), "verified");
        Ok(())
    })?;
    Setup::default().set("dns.servers", "dns.nowhere.invalid:53").run(async |server| {
        let acme = Company::found(server, "ann@acme.test").await?;
        acme.claim(server, "acme.test").await?;
        assert_eq!(
            acme.verify(server, "acme.test").await?.error(),
            "temporarily_unavailable",
            "not that of the system"
        );
        Ok(())
    })
}

#[test]
fn dns_that_does_not_answer_changes_nothing() -> Result<()> {
    // It receives the queries and never answers.
    let silent = UdpSocket::bind("127.0.0.1:0")?;
    let setup = Setup::default().set("dns.servers", &silent.local_addr()?.to_string());
    setup.run(async |server| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let claimed = acme.claim(server, "acme.test").await?;
        let refused = acme.verify(server, "acme.test").await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (503, "temporarily_unavailable"));
        assert!(refused.header("retry-after").is_some());
        ensure!(refused.field("error_description").contains("Nothing was changed"), "{}", refused.text);
        assert_eq!(acme.domain(server, "acme.test").await?, claimed.body);
        let metrics = server.ops.get("/metrics", None).await?.text;
        ensure!(metrics.contains("service_domain_checks_total{outcome=\"unanswered\"} 1"), "{metrics}");
        Ok(())
    })
}

#[test]
fn a_server_that_fails_is_no_answer() -> Result<()> {
    with_dns(async |server, dns| {
        let acme = Company::found(server, "ann@acme.test").await?;
        acme.claim(server, "acme.test").await?;
        dns.refuse()?;
        assert_eq!(acme.verify(server, "acme.test").await?.status, 503);
        let domain = acme.domain(server, "acme.test").await?;
        assert_eq!((&domain["status"], domain.get("lastError")), (&serde_json::json!("pending"), None));
        Ok(())
    })
}

#[test]
fn a_domain_is_removed_once_and_can_be_claimed_again() -> Result<()> {
    with_dns(async |server, dns| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let connection = acme.connect(server).await?;
        let value = acme.claim_for(server, "acme.test", &connection).await?;
        dns.serve(&[txt("acme.test", &value)])?;
        acme.verify(server, "acme.test").await?;
        for _ in 0..2 {
            assert_eq!(acme.send(server, "DELETE", "domains/acme.test", None).await?.status, 204);
            assert_eq!(route(server, "acme.test").await?, None);
        }
        assert_eq!(count_events(server, "domain.removed").await?, "1");
        for unknown in ["domains/dock.test", "domains/co.uk", "domains/localhost"] {
            assert_eq!(acme.send(server, "DELETE", unknown, None).await?.status, 404, "{unknown}");
        }
        assert_eq!(acme.verify(server, "acme.test").await?.status, 404);
        let again = acme.claim(server, "acme.test").await?;
        assert_eq!((again.status.as_u16(), again.field("status")), (201, "pending"));
        assert_eq!(acme.send(server, "DELETE", "domains/acme.test", None).await?.status, 204);
        assert_eq!(count_events(server, "domain.removed").await?, "2");
        Ok(())
    })
}

#[test]
fn the_connection_of_a_domain_can_be_changed_and_taken_away() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, dock) =
            (Company::found(server, "ann@acme.test").await?, Company::found(server, "bob@dock.test").await?);
        let (connection, foreign) = (acme.connect(server).await?, dock.connect(server).await?);
        let value = record_value(&acme.claim(server, "acme.test").await?);
        dns.serve(&[txt("acme.test", &value)])?;
        acme.verify(server, "acme.test").await?;
        assert_eq!(route(server, "acme.test").await?, None, "no connection");
        let patch = async |body| acme.send(server, "PATCH", "domains/acme.test", Some(&body)).await;
        let chosen = patch(json!({ "connectionId": connection })).await?;
        assert_eq!((chosen.status.as_u16(), chosen.field("connectionId")), (200, connection.as_str()));
        assert!(route(server, "acme.test").await?.is_some());
        assert_eq!(patch(json!({})).await?.field("connectionId"), connection);
        assert!(route(server, "acme.test").await?.is_some());
        let refused = patch(json!({ "connectionId": foreign })).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (404, "not_found"), "a connection of another workspace");
        let removed = patch(json!({ "connectionId": null })).await?;
        assert!(removed.status == 200 && removed.body.get("connectionId").is_none(), "{}", removed.text);
        assert_eq!(route(server, "acme.test").await?, None);
        assert_eq!(count_events(server, "domain.changed").await?, "2");
        Ok(())
    })
}

#[test]
fn domains_and_their_checks_are_limited() -> Result<()> {
    let setup = Setup::default().set("limits.domain_checks", "2+60");
    setup.set("dns.servers", "127.0.0.1:1").run(async |server| {
        let acme = Company::found(server, "ann@acme.test").await?;
        for number in 0..20 {
            assert_eq!(acme.claim(server, &format!("d{number}.test")).await?.status, 201);
        }
        let refused = acme.claim(server, "more.test").await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (409, "conflict"));
        for _ in 0..2 {
            assert_eq!(acme.verify(server, "d0.test").await?.status, 503);
        }
        let limited = acme.verify(server, "d1.test").await?;
        assert_eq!((limited.status.as_u16(), limited.error()), (429, "rate_limited"));
        ensure!(limited.header("ratelimit-policy").is_some_and(|policy| policy.contains("domain-checks")));
        Ok(())
    })
}

#[test]
fn a_deleted_workspace_has_no_routes_and_frees_its_domains() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, dock) =
            (Company::found(server, "ann@acme.test").await?, Company::found(server, "bob@dock.test").await?);
        let connection = acme.connect(server).await?;
        let of_acme = acme.claim_for(server, "acme.test", &connection).await?;
        let of_dock = record_value(&dock.claim(server, "acme.test").await?);
        dns.serve(&[txt("acme.test", &of_acme), txt("acme.test", &of_dock)])?;
        acme.verify(server, "acme.test").await?;
        assert!(route(server, "acme.test").await?.is_some());
        let path = format!("/v1/workspaces/{}", acme.id);
        assert_eq!(crate::support::workspaces::send(server, "DELETE", &path, &acme.owner, None).await?.status, 204);
        assert_eq!(route(server, "acme.test").await?, None);
        let left = "select (select count(*) from workspace_domains where verified_at is not null) +
                           (select count(*) from routed_domains) + (select count(*) from connections where deleted_at is null)";
        assert_eq!(server.sql(left).await?.as_deref(), Some("0"));
        assert_eq!(dock.verify(server, "acme.test").await?.field("status"), "verified");
        Ok(())
    })
}

#[test]
fn a_root_key_can_be_replaced_without_changing_a_record() -> Result<()> {
    with_server(async |server| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let value = record_value(&acme.claim(server, "acme.test").await?);
        let mut settings = server.settings.clone();
        settings.set("secrets.root_keys", &format!("2:{}", service_testkit::settings::Settings::random_root_key()?));
        let app = service_server::app::App::new(service_testkit::server::config(&settings)?, server.app.clock.clone())?;
        let db = app.database.connect().await?;
        let claimed = service_server::store::workspace_domains::find(&db, acme.id.parse()?, "acme.test").await?;
        let claimed = claimed.expect("a claim");
        assert_eq!(service_server::flows::sign_in::email_key::record_value(&app, &db, &claimed).await?, value);
        Ok(())
    })
}
