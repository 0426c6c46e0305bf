//! Connections of a workspace: creating, changing, enabling, requiring and deleting them.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_api::{ids::WorkspaceId, workspaces::Role};
use service_rules::lifetimes;
use service_testkit::{
    dns_server::DnsServer,
    server::{Setup, TestServer, with_server},
};

use crate::support::{
    admin, cli_tokens,
    connections::{Company, ISSUER, count_events, mark_tried, route, txt, with_dns},
    refresh::refreshed,
    step_up::check_stale,
    workspaces::send,
};

const TENANT: &str = "https://login.microsoftonline.com/3f2504e0-4f89-11d3-9a0c-0305e82c3301/v2.0";

#[test]
fn a_connection_begins_as_a_draft_and_never_shows_its_secret() -> Result<()> {
    with_server(async |server| {
        server.leaks.register("client secret", "xyzzy-plugh-4711");
        server.leaks.register("client secret", "xyzzy-plugh-4712");
        let acme = Company::found(server, "ann@acme.test").await?;
        let made = acme.create(server, &json!({ "name": " Acme ", "issuer": ISSUER })).await?;
        assert_eq!(made.status, 201, "{}", made.text);
        let id = made.field("id").to_owned();
        let expected = json!({
            "id": id, "workspaceId": acme.id, "name": "Acme", "issuer": ISSUER, "authMethod": "client_secret_basic",
            "hasClientSecret": false, "redirectUri": format!("https://service.test/sso/callback/{id}"),
            "backchannelLogoutUri": format!("https://service.test/sso/backchannel-logout/{id}"),
            "algorithms": ["RS256", "PS256", "ES256", "ES384", "EdDSA"], "defaultRole": "member", "sessionHours": 12,
            "tokenDays": 30, "breakGlass": [], "enabled": false, "required": false, "createdAt": made.field("createdAt"),
            "health": {},
        });
        assert_eq!(made.body, expected);
        let secret = json!({ "clientId": "service", "clientSecret": "xyzzy-plugh-4711" });
        let changed = acme.change(server, &id, &secret).await?;
        assert_eq!((changed.status.as_u16(), changed.body["hasClientSecret"].as_bool()), (200, Some(true)));
        let changed = acme.change(server, &id, &json!({ "clientSecret": "xyzzy-plugh-4712" })).await?;
        for text in [
            changed.text,
            acme.send(server, "GET", &format!("connections/{id}"), None).await?.text,
            acme.send(server, "GET", "connections", None).await?.text,
            acme.change(server, &id, &json!({ "clientSecret": "xyzzy-plugh-4712", "sessionHours": 0 })).await?.text,
            server
                .http
                .get(&format!("/v1/audit-events?workspaceId={}", acme.id), Some(&acme.owner.access_token))
                .await?
                .text,
        ] {
            ensure!(!text.contains("xyzzy-plugh"), "{text}");
        }
        // The secret is of no use for the other method, and is deleted.
        let by_key = acme.change(server, &id, &json!({ "authMethod": "private_key_jwt" })).await?;
        assert_eq!(by_key.body["hasClientSecret"], false);
        let by_secret = acme.change(server, &id, &json!({ "authMethod": "client_secret_basic" })).await?;
        assert_eq!(by_secret.body["hasClientSecret"], false);
        assert_eq!(
            server.sql("select count(*) from connections where client_secret is not null").await?.as_deref(),
            Some("0")
        );
        Ok(())
    })
}

#[test]
fn wrong_fields_are_named() -> Result<()> {
    with_server(async |server| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let workspace: WorkspaceId = acme.id.parse()?;
        server.add_member(workspace, bob.user_id, Role::Member).await?;
        let id = acme.draft(server).await?;
        let key = json!({ "kty": "EC", "crv": "P-256", "x": "x", "y": "y" });
        let private = json!({ "keys": [{ "kty": "EC", "crv": "P-256", "x": "x", "y": "y", "d": "x" }] });
        for (body, field) in [
            (json!({ "name": "" }), "name"),
            (json!({ "name": "https://evil.test" }), "name"),
            (json!({ "clientId": "" }), "clientId"),
            (json!({ "clientId": "sérvice" }), "clientId"),
            (json!({ "clientSecret": "a\nb" }), "clientSecret"),
            (json!({ "clientSecret": " padded" }), "clientSecret"),
            (json!({ "clientSecret": "unused", "authMethod": "private_key_jwt" }), "clientSecret"),
            (json!({ "sessionHours": 0 }), "sessionHours"),
            (json!({ "sessionHours": 721 }), "sessionHours"),
            (json!({ "tokenDays": 0 }), "tokenDays"),
            (json!({ "tokenDays": 367 }), "tokenDays"),
            (json!({ "algorithms": [] }), "algorithms"),
            (json!({ "jwks": {} }), "jwks"),
            (json!({ "jwks": private }), "jwks"),
            (json!({ "breakGlass": [bob.user_id] }), "breakGlass"),
            (json!({ "breakGlass": [acme.owner.user_id, acme.owner.user_id] }), "breakGlass"),
            (json!({ "existing": "revoke" }), "existing"),
        ] {
            let refused = acme.change(server, &id, &body).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (422, "validation_failed"), "{body}");
            assert!(refused.body["details"]["fields"].get(field).is_some(), "{body}: {}", refused.text);
            if field != "existing" {
                let mut new = json!({ "name": "Acme", "issuer": ISSUER });
                new.as_object_mut().context("object")?.extend(body.as_object().context("object")?.clone());
                assert_eq!(acme.create(server, &new).await?.status, 422, "{new}");
            }
        }
        for body in [
            json!({ "algorithms": ["HS256"] }),
            json!({ "algorithms": ["none"] }),
            json!({ "defaultRole": "owner" }),
            json!({ "enabled": null }),
            json!({ "issuer": "https://other.test" }),
            json!({ "sessionHours": -1 }),
        ] {
            assert_eq!(acme.change(server, &id, &body).await?.error(), "invalid_request", "{body}");
        }
        let pasted =
            acme.change(server, &id, &json!({ "jwks": { "keys": [key] }, "algorithms": ["ES256", "ES256"] })).await?;
        assert_eq!((&pasted.body["jwks"]["keys"][0], &pasted.body["algorithms"]), (&key, &json!(["ES256"])));
        let discovered = acme.change(server, &id, &json!({ "jwks": null })).await?;
        assert!(discovered.status == 200 && discovered.body.get("jwks").is_none(), "{}", discovered.text);
        Ok(())
    })
}

#[test]
fn an_issuer_is_secure_and_belongs_to_one_tenant() -> Result<()> {
    let setup = Setup::default().set("sso.allowed_issuers", "http://127.0.0.1:9000=127.0.0.0/8");
    setup.run(async |server| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let create = async |issuer| acme.create(server, &json!({ "name": "Acme", "issuer": issuer })).await;
        for issuer in [
            "http://idp.acme.test",
            "http://127.0.0.1:9001",
            "http://127.0.0.1:9000/",
            "idp.acme.test",
            "https://idp.acme.test?x=1",
            "https://login.microsoftonline.com/common/v2.0",
            "https://login.microsoftonline.com/organizations/v2.0",
            "https://login.microsoftonline.com/consumers/v2.0",
        ] {
            let refused = create(issuer).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (422, "validation_failed"), "{issuer}");
            assert!(refused.body["details"]["fields"].get("issuer").is_some(), "{issuer}");
        }
        assert_eq!(create(TENANT).await?.status, 201);
        assert_eq!(create("http://127.0.0.1:9000").await?.status, 201, "an operator allows it");
        Ok(())
    })
}

#[test]
fn a_connection_is_enabled_only_after_it_was_tried_as_it_is() -> Result<()> {
    with_dns(async |server, dns| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let id = acme.draft(server).await?;
        let value = acme.claim_for(server, "acme.test", &id).await?;
        dns.serve(&[txt("acme.test", &value)])?;
        acme.verify(server, "acme.test").await?;
        let enable = json!({ "enabled": true });
        let refused = acme.change(server, &id, &enable).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (409, "conflict"));
        mark_tried(server, &id).await?;
        // Another secret has not been tried.
        let changed = acme.change(server, &id, &json!({ "clientSecret": "another-secret" })).await?;
        assert!(changed.body.get("triedAt").is_none(), "{}", changed.text);
        assert_eq!(acme.change(server, &id, &enable).await?.status, 409);
        mark_tried(server, &id).await?;
        assert_eq!(acme.change(server, &id, &json!({ "name": "Acme Inc", "tokenDays": 7 })).await?.status, 200);
        assert_eq!(route(server, "acme.test").await?, None);
        let enabled = acme.change(server, &id, &enable).await?;
        assert_eq!((enabled.status.as_u16(), enabled.body["enabled"].as_bool()), (200, Some(true)), "{}", enabled.text);
        assert_eq!(route(server, "acme.test").await?.map(|route| route.name), Some("Acme Inc".to_owned()));
        // An enabled connection stays enabled when its secret is replaced.
        assert_eq!(acme.change(server, &id, &json!({ "clientSecret": "third-secret" })).await?.body["enabled"], true);
        acme.change(server, &id, &json!({ "name": "Acme" })).await?;
        assert_eq!(route(server, "acme.test").await?.map(|route| route.name), Some("Acme".to_owned()));
        assert_eq!(acme.change(server, &id, &json!({ "enabled": false })).await?.body["enabled"], false);
        assert_eq!(route(server, "acme.test").await?, None);
        assert_eq!(count_events(server, "connection.enabled").await?, "2");
        Ok(())
    })
}

/// A company whose domain is verified and whose connection is enabled.
async fn routed(server: &TestServer, dns: &DnsServer) -> Result<(Company, String)> {
    let acme = Company::found(server, "ann@acme.test").await?;
    let id = acme.connect(server).await?;
    let value = acme.claim_for(server, "acme.test", &id).await?;
    dns.serve(&[txt("acme.test", &value)])?;
    acme.verify(server, "acme.test").await?;
    ensure!(route(server, "acme.test").await?.is_some());
    Ok((acme, id))
}

#[test]
fn requiring_a_connection_needs_a_way_in_and_a_decision() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, id) = routed(server, dns).await?;
        let require = json!({ "required": true, "existing": "keep" });
        let refused = acme.change(server, &id, &require).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (409, "conflict"), "no break-glass owner");
        let break_glass = json!({ "breakGlass": [acme.owner.user_id] });
        assert_eq!(acme.change(server, &id, &break_glass).await?.status, 200);
        let undecided = acme.change(server, &id, &json!({ "required": true })).await?;
        assert_eq!(undecided.status, 422);
        assert!(undecided.body["details"]["fields"].get("existing").is_some());
        assert_eq!(route(server, "acme.test").await?.map(|route| route.required), Some(false), "nothing was changed");
        let required = acme.change(server, &id, &require).await?;
        assert_eq!((required.status.as_u16(), &required.body["required"]), (200, &json!(true)), "{}", required.text);
        assert_eq!(route(server, "acme.test").await?.map(|route| route.required), Some(true));
        assert_eq!(server.sql("select revoke_before is null from connections").await?.as_deref(), Some("t"));
        // Repeating it, as after a lost response, changes nothing.
        let again = acme.change(server, &id, &require).await?;
        assert_eq!(again.body, required.body);
        assert_eq!(count_events(server, "connection.required").await?, "1");
        // The last break-glass owner stays named while it is required.
        assert_eq!(acme.change(server, &id, &json!({ "breakGlass": [] })).await?.status, 409);
        // Disabling it ends the requirement.
        let disabled = acme.change(server, &id, &json!({ "enabled": false })).await?;
        assert_eq!((&disabled.body["enabled"], &disabled.body["required"]), (&json!(false), &json!(false)));
        assert_eq!(acme.change(server, &id, &require).await?.status, 409, "not enabled");
        let both =
            acme.change(server, &id, &json!({ "enabled": true, "required": true, "existing": "revoke" })).await?;
        assert_eq!(both.body["required"], true, "{}", both.text);
        assert_eq!(server.sql("select revoke_before is not null from connections").await?.as_deref(), Some("t"));
        assert_eq!(acme.change(server, &id, &json!({ "required": false })).await?.body["required"], false);
        assert_eq!(server.sql("select revoke_before is null from connections").await?.as_deref(), Some("t"));
        Ok(())
    })
}

#[test]
fn the_last_break_glass_owner_cannot_leave_while_sso_is_required() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, id) = routed(server, dns).await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        server.add_member(acme.id.parse()?, bob.user_id, Role::Owner).await?;
        let required = json!({ "breakGlass": [bob.user_id], "required": true, "existing": "keep" });
        assert_eq!(acme.change(server, &id, &required).await?.status, 200);
        let member = format!("members/{}", bob.user_id);
        let refused = [
            acme.send(server, "PATCH", &member, Some(&json!({ "role": "member" }))).await?,
            acme.send(server, "DELETE", &member, None).await?,
            send(server, "DELETE", &acme.path(&member), &bob, None).await?,
        ];
        for refused in refused {
            assert_eq!((refused.status.as_u16(), refused.error()), (409, "conflict"), "{}", refused.text);
            ensure!(refused.field("error_description").contains("break-glass"), "{}", refused.text);
        }
        // With a second one, the first can go, and is no longer named.
        let both = json!({ "breakGlass": [bob.user_id, acme.owner.user_id] });
        assert_eq!(acme.change(server, &id, &both).await?.status, 200);
        assert_eq!(acme.send(server, "PATCH", &member, Some(&json!({ "role": "member" }))).await?.status, 200);
        let shown = acme.send(server, "GET", &format!("connections/{id}"), None).await?;
        assert_eq!(shown.body["breakGlass"], json!([acme.owner.user_id]));
        Ok(())
    })
}

#[test]
fn a_connection_is_deleted_with_its_identities_and_routes() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, id) = routed(server, dns).await?;
        let uuid = service_api::ids::Id::uuid(id.parse::<service_api::ids::ConnectionId>()?);
        let person = service_api::ids::Id::uuid(acme.owner.user_id);
        server
            .sql(&format!(
                "insert into identities select id, 'sub', shard, '{person}', 'ann@acme.test', created_at, created_at from connections;
                 insert into user_connections values ('{person}', 7, '{uuid}', 'sub', '2027-01-15', '2027-02-15')"
            ))
            .await?;
        let path = format!("connections/{id}");
        for _ in 0..2 {
            assert_eq!(acme.send(server, "DELETE", &path, None).await?.status, 204);
        }
        assert_eq!(count_events(server, "connection.deleted").await?, "1");
        assert_eq!(route(server, "acme.test").await?, None);
        assert_eq!(acme.send(server, "GET", &path, None).await?.status, 404);
        assert_eq!(acme.change(server, &id, &json!({ "name": "Acme" })).await?.status, 404);
        let domain = acme.domain(server, "acme.test").await?;
        assert_eq!((&domain["status"], domain.get("connectionId")), (&json!("verified"), None));
        let left = "select (select count(*) from identities) + (select count(*) from user_connections) +
                           (select count(*) from connections where client_secret is not null)";
        assert_eq!(server.sql(left).await?.as_deref(), Some("0"));
        for unknown in ["connections/conn_00000000000000000000000000", "connections/x"] {
            assert_eq!(acme.send(server, "DELETE", unknown, None).await?.status, 404);
        }
        // The rows go a month later.
        server.advance(lifetimes::ENDED_KEPT);
        service_server::tasks::housekeeping::clean_once(&server.app).await?;
        let left = "select (select count(*) from connections) + (select count(*) from trusted_issuers)";
        assert_eq!(server.sql(left).await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn other_token_days_move_the_deadline_of_the_connections_users() -> Result<()> {
    with_server(async |server| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let id = acme.draft(server).await?;
        let uuid = service_api::ids::Id::uuid(id.parse::<service_api::ids::ConnectionId>()?);
        let insert = format!(
            "insert into user_connections values ('{uuid}', 7, '{uuid}', 'sub', '2027-01-15T00:00:00Z', '2027-02-14T00:00:00Z')"
        );
        server.sql(&insert).await?;
        assert_eq!(acme.change(server, &id, &json!({ "tokenDays": 7 })).await?.body["tokenDays"], 7);
        let until = "select extract(epoch from tokens_until - signed_in_at)::bigint from user_connections";
        assert_eq!(server.sql(until).await?.as_deref(), Some("604800"));
        Ok(())
    })
}

#[test]
fn the_impact_counts_what_would_be_revoked() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, id) = routed(server, dns).await?;
        let impact = format!("connections/{id}/impact");
        let alone = acme.send(server, "GET", &impact, None).await?;
        let counted = |users: u64, sessions: u64, cli_tokens: u64, mcp_tokens: u64| {
            json!({ "domains": ["acme.test"], "users": users, "sessions": sessions, "cliTokens": cli_tokens,
                    "mcpTokens": mcp_tokens, "appGrants": 0 })
        };
        assert_eq!(alone.body, counted(1, 1, 0, 0), "{}", alone.text);
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        server.sign_in("bob@acme.test", "read write").await?;
        let (revoked, _) = cli_tokens::make(server, &bob, &json!({})).await?;
        cli_tokens::make(server, &bob, &json!({})).await?;
        let pair = cli_tokens::post(server, "/v1/mcp/tokens", &bob.access_token, &json!({})).await?;
        ensure!(pair.status == 201, "{}", pair.text);
        cli_tokens::delete(server, &revoked, &bob.access_token).await?;
        // Users of other domains, and of subdomains, do not count.
        server.sign_in("eve@evil.test", "read write").await?;
        server.sign_in("eve@mail.acme.test", "read write").await?;
        assert_eq!(acme.send(server, "GET", &impact, None).await?.body, counted(2, 3, 1, 1));
        // What began with a sign-in through the connection does not count either.
        let connection = service_api::ids::Id::uuid(id.parse::<service_api::ids::ConnectionId>()?);
        let grant = service_api::ids::Id::uuid(bob.grant_id);
        server.sql(&format!("update grants set connection_id = '{connection}' where id = '{grant}'")).await?;
        assert_eq!(acme.send(server, "GET", &impact, None).await?.body["sessions"], 2);
        Ok(())
    })
}

/// Every request about connections and domains: method, path below the workspace, body, and whether it needs a recent
/// sign-in.
fn requests(id: &str) -> Vec<(&'static str, String, Option<Value>, bool)> {
    vec![
        ("GET", "connections".into(), None, false),
        ("POST", "connections".into(), Some(json!({ "name": "Other", "issuer": ISSUER })), true),
        ("GET", format!("connections/{id}"), None, false),
        ("PATCH", format!("connections/{id}"), Some(json!({ "name": "Other" })), true),
        ("GET", format!("connections/{id}/impact"), None, false),
        ("GET", "domains".into(), None, false),
        ("POST", "domains".into(), Some(json!({ "domain": "other.test" })), true),
        ("POST", "domains/acme.test/verify".into(), None, false),
        ("PATCH", "domains/acme.test".into(), Some(json!({ "connectionId": null })), true),
        ("DELETE", "domains/acme.test".into(), None, true),
        ("DELETE", format!("connections/{id}"), None, true),
    ]
}

#[test]
fn only_owners_manage_connections_and_domains() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, id) = routed(server, dns).await?;
        let workspace: WorkspaceId = acme.id.parse()?;
        let (_, cli) = cli_tokens::make(server, &acme.owner, &json!({ "workspaceId": acme.id })).await?;
        let eve = server.sign_in("eve@evil.test", "read write").await?;
        for (email, role) in [("bob@acme.test", Role::Member), ("vic@acme.test", Role::Viewer)] {
            let member = server.sign_in(email, "read write").await?;
            server.add_member(workspace, member.user_id, role).await?;
            for (method, path, body, _) in requests(&id) {
                let refused = send(server, method, &acme.path(&path), &member, body.as_ref()).await?;
                assert_eq!((refused.status.as_u16(), refused.error()), (403, "forbidden"), "{email} {method} {path}");
            }
        }
        for (method, path, body, recent) in requests(&id) {
            let refused = send(server, method, &acme.path(&path), &eve, body.as_ref()).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (404, "not_found"), "{method} {path}");
            ensure!(refused.field("error_description").starts_with("Workspace not found"), "{}", refused.text);
            // A CLI token of an owner reads, and changes nothing.
            let mut by_token = acme.owner.clone();
            by_token.access_token.clone_from(&cli);
            let answer = send(server, method, &acme.path(&path), &by_token, body.as_ref()).await?;
            let expected = if method == "GET" { 200 } else { 403 };
            assert_eq!(answer.status.as_u16(), expected, "CLI token: {method} {path} {recent}");
        }
        assert_eq!(
            route(server, "acme.test").await?.map(|route| route.name),
            Some("Acme".to_owned()),
            "nothing changed"
        );
        // With an older sign-in an owner reads and checks, and changes nothing.
        server.advance(lifetimes::RECENT_SIGN_IN + 1);
        let stale = refreshed(server, &acme.owner.refresh_token).await?;
        for (method, path, body, recent) in requests(&id) {
            let answer = send(server, method, &acme.path(&path), &stale, body.as_ref()).await?;
            if recent {
                check_stale(&answer, &format!("{method} {path}"));
            } else {
                assert_eq!(answer.status, 200, "{method} {path}");
            }
        }
        Ok(())
    })
}

#[test]
fn a_connection_of_another_workspace_is_not_found() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, id) = routed(server, dns).await?;
        let eve = Company::found(server, "eve@evil.test").await?;
        for (method, path, body, _) in requests(&id).into_iter().filter(|(_, path, ..)| path.contains('/')) {
            let refused = eve.send(server, method, &path, body.as_ref()).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (404, "not_found"), "{method} {path}");
        }
        let body = json!({ "domain": "evil.test", "connectionId": id });
        assert_eq!(eve.send(server, "POST", "domains", Some(&body)).await?.status, 404);
        assert_eq!(acme.send(server, "GET", &format!("connections/{id}"), None).await?.field("name"), "Acme");
        Ok(())
    })
}

#[test]
fn a_workspace_has_at_most_ten_connections() -> Result<()> {
    with_server(async |server| {
        let acme = Company::found(server, "ann@acme.test").await?;
        let mut last = String::new();
        for _ in 0..10 {
            last = acme.draft(server).await?;
        }
        let body = json!({ "name": "Acme", "issuer": ISSUER });
        let refused = acme.create(server, &body).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (409, "conflict"));
        acme.send(server, "DELETE", &format!("connections/{last}"), None).await?;
        assert_eq!(acme.create(server, &body).await?.status, 201);
        Ok(())
    })
}

#[test]
fn an_operator_lists_and_disables_connections() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, id) = routed(server, dns).await?;
        let listed = admin::run(server, &["connection", "list", &acme.id])?;
        ensure!(listed.contains(&id) && listed.contains("enabled") && listed.contains(ISSUER), "{listed}");
        ensure!(!listed.contains("a-secret-of-acme"), "{listed}");
        let said = admin::run(server, &["--operator", "olga", "connection", "disable", &id])?;
        ensure!(said.contains("email code"), "{said}");
        assert_eq!(route(server, "acme.test").await?, None);
        let shown = acme.send(server, "GET", &format!("connections/{id}"), None).await?;
        assert_eq!((&shown.body["enabled"], &shown.body["required"]), (&json!(false), &json!(false)));
        let (success, said) = admin::admin(server, &["connection", "disable", &id])?;
        ensure!(!success && said.contains("not enabled"), "{said}");
        let events = "select count(*) from audit_events where event = 'connection.enabled' and user_id is null";
        assert_eq!(server.sql(events).await?.as_deref(), Some("1"));
        Ok(())
    })
}
