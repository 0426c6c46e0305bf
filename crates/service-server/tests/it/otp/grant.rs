//! What a code is bound to (its request, its client) and what it is exchanged for (scopes, a workspace).

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_api::{
    oauth::{OTP_GRANT, SERVICE_CLI, SERVICE_MCP, SERVICE_WEB},
    workspaces::Role,
};
use service_testkit::{
    response::TestResponse,
    server::{Setup, TestServer, with_server},
};

use crate::support::otp::{ROOMY, ask, assert_refused, count, wrong};

/// A code that only `client_id` may redeem.
async fn request_code_for(server: &TestServer, email: &str, client_id: &str) -> Result<(String, String)> {
    let asked = server.http.post("/v1/otp-tokens", &json!({ "email": email, "clientId": client_id })).await?;
    anyhow::ensure!(asked.status == 201, "no code was sent: {}", asked.text);
    let code = server.mailbox.next_mail_to(email).await?.code().context("the mail holds no code")?;
    server.leaks.register("otp code", &code);
    Ok((asked.field("otpId").to_owned(), code))
}

/// Exchanges a code with further parameters.
async fn exchange_with(server: &TestServer, otp_id: &str, code: &str, more: Value) -> Result<TestResponse> {
    let mut body = json!({ "grant_type": OTP_GRANT, "otp_id": otp_id, "code": code });
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    server.http.post("/oauth/token", &body).await
}

async fn as_client(server: &TestServer, otp_id: &str, code: &str, client_id: &str) -> Result<TestResponse> {
    exchange_with(server, otp_id, code, json!({ "client_id": client_id })).await
}

#[test]
fn a_code_belongs_to_its_own_request_ot_09() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_address", ROOMY).run(async |server| {
        let (ann, bob) = (server.request_code("ann@acme.test").await?, server.request_code("bob@acme.test").await?);
        assert_refused(&server.exchange(&bob.0, &ann.1, "read").await?, 400, "invalid_grant");
        assert_refused(&server.exchange(&ann.0, &bob.1, "read").await?, 400, "invalid_grant");

        // Two live codes of one address, for two clients.
        let web = request_code_for(server, "ann@acme.test", SERVICE_WEB).await?;
        let cli = request_code_for(server, "ann@acme.test", SERVICE_CLI).await?;
        for (otp_id, code, client) in [(&web.0, &cli.1, SERVICE_WEB), (&cli.0, &web.1, SERVICE_CLI)] {
            assert_refused(&as_client(server, otp_id, code, client).await?, 400, "invalid_grant");
        }
        assert_eq!(count(server, "grants").await?, 0);
        // A code for a client has taken the place of the one that was for any.
        assert_refused(&as_client(server, &ann.0, &ann.1, SERVICE_WEB).await?, 400, "invalid_grant");
        for (otp, client) in [(web, SERVICE_WEB), (cli, SERVICE_CLI), (bob, SERVICE_CLI)] {
            assert_eq!(as_client(server, &otp.0, &otp.1, client).await?.status, 200, "{client}");
        }
        Ok(())
    })
}

#[test]
fn ids_that_name_no_code_are_answered_like_wrong_codes_ot_09() -> Result<()> {
    with_server(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let unknown = "otp_01h2xcejqtf2nbrexx3vqjhp41";
        let upper = otp_id.to_ascii_uppercase();
        let other_kind = otp_id.replace("otp_", "user_");
        let mut told = Vec::new();
        for id in [unknown, &upper, &other_kind, "otp_", "ann@acme.test", "' or 1=1 --"] {
            let response = server.exchange(id, &code, "read").await?;
            assert_refused(&response, 400, "invalid_grant");
            told.push(response.text.replace(response.field("request_id"), ""));
        }
        let wrong = server.exchange(&otp_id, &wrong(&code, 1)?, "read").await?;
        told.push(wrong.text.replace(wrong.field("request_id"), ""));
        assert!(told.iter().all(|response| *response == told[0]));
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_new_code_kills_the_old_one_and_a_refused_one_does_not_ot_11() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_context", "1/60").run(async |server| {
        let first = server.request_code("ann@acme.test").await?;
        let refused = ask(server, "ann@acme.test").await?;
        assert_refused(&refused, 429, "rate_limited");
        assert_eq!(refused.header("retry-after"), Some("60"));

        server.advance(60);
        let second = server.request_code("ann@acme.test").await?;
        assert_ne!(first.0, second.0);
        for (otp_id, code) in [(&first.0, &first.1), (&first.0, &second.1), (&second.0, &first.1)] {
            assert_refused(&server.exchange(otp_id, code, "read").await?, 400, "invalid_grant");
        }
        // The dead id costs the living code nothing; the last of the three was a try at it.
        assert_eq!(server.sql("select attempts from otps").await?.as_deref(), Some("1"));
        server.advance(30);
        assert_eq!(ask(server, "ann@acme.test").await?.header("retry-after"), Some("30"));
        assert_eq!(server.exchange(&second.0, &second.1, "read").await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_code_for_one_client_is_refused_from_another_ot_09() -> Result<()> {
    with_server(async |server| {
        let otp = request_code_for(server, "ann@acme.test", SERVICE_WEB).await?;
        assert_refused(&as_client(server, &otp.0, &otp.1, SERVICE_CLI).await?, 400, "invalid_grant");
        assert_refused(&exchange_with(server, &otp.0, &otp.1, json!({})).await?, 400, "invalid_grant");
        assert_eq!(server.sql("select attempts from otps").await?.as_deref(), Some("0"));
        let opened = as_client(server, &otp.0, &otp.1, SERVICE_WEB).await?;
        let whoami = server.http.get("/v1/whoami", Some(opened.field("access_token"))).await?;
        assert_eq!(whoami.body["credential"]["client"], SERVICE_WEB);
        Ok(())
    })
}

#[test]
fn only_live_clients_of_ours_exchange_codes_ot_15() -> Result<()> {
    with_server(async |server| {
        let insert = "insert into clients (id, name, kind, first_party, may_use_otp, created_at, disabled_at) values \
                      ('partner', 'Partner', 'registered', false, true, now(), null), \
                      ('service-old', 'Service of old', 'registered', true, true, now(), now())";
        server.sql(insert).await?;
        let otp = server.request_code("ann@acme.test").await?;
        let clients = [
            ("partner", 400, "unauthorized_client"),
            (SERVICE_MCP, 400, "unauthorized_client"),
            ("service-old", 401, "invalid_client"),
            ("unknown", 401, "invalid_client"),
            ("Service-CLI", 401, "invalid_client"),
        ];
        for (client, status, error) in clients {
            assert_refused(&as_client(server, &otp.0, &otp.1, client).await?, status, error);
            let ask = json!({ "email": "bob@acme.test", "clientId": client });
            assert_refused(&server.http.post("/v1/otp-tokens", &ask).await?, status, error);
        }
        let disguised =
            exchange_with(server, &otp.0, &otp.1, json!({ "client_id": SERVICE_CLI, "client_secret": "x" })).await?;
        assert_refused(&disguised, 401, "invalid_client");
        assert_eq!(server.sql("select attempts from otps").await?.as_deref(), Some("0"));
        assert_eq!(count(server, "otps where address = 'bob@acme.test'").await?, 0);

        server.sql("update clients set disabled_at = now() where id = 'service-cli'").await?;
        assert_refused(&exchange_with(server, &otp.0, &otp.1, json!({})).await?, 401, "invalid_client");
        assert_eq!(as_client(server, &otp.0, &otp.1, SERVICE_WEB).await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_code_gives_the_scopes_that_exist_and_survives_those_that_do_not_ot_05() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_address", ROOMY).run(async |server| {
        let otp = server.request_code("ann@acme.test").await?;
        for unknown in ["admin", "READ", "read\twrite", "*", "projects:admin"] {
            let response = exchange_with(server, &otp.0, &otp.1, json!({ "scope": unknown })).await?;
            assert_refused(&response, 400, "invalid_scope");
        }
        let elsewhere =
            exchange_with(server, &otp.0, &otp.1, json!({ "resource": "https://service.test/mcp" })).await?;
        assert_refused(&elsewhere, 400, "invalid_target");
        assert_eq!(server.sql("select attempts from otps").await?.as_deref(), Some("0"));
        assert_eq!(exchange_with(server, &otp.0, &otp.1, json!({})).await?.field("scope"), "read");

        for (asked, given) in [
            ("write read", "read write"),
            ("openid offline_access", "read"),
            ("projects:read admin", "projects:read"),
            ("write", "write"),
        ] {
            let otp = server.request_code("ann@acme.test").await?;
            let response = exchange_with(server, &otp.0, &otp.1, json!({ "scope": asked })).await?;
            assert_eq!((response.status.as_u16(), response.field("scope")), (200, given));
        }
        Ok(())
    })
}

#[test]
fn a_member_signs_in_to_a_workspace_ot_05() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_address", ROOMY).run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let workspace = server.make_workspace("Acme", &[(ann.user_id, Role::Viewer)]).await?;
        let otp = server.request_code("ann@acme.test").await?;
        let response = exchange_with(server, &otp.0, &otp.1, json!({ "workspace_id": workspace })).await?;
        assert_eq!((response.status.as_u16(), response.field("workspace_id")), (200, workspace.to_string().as_str()));
        let whoami = server.http.get("/v1/whoami", Some(response.field("access_token"))).await?;
        let space = json!({ "scope": "workspace", "workspaceId": workspace, "role": "viewer", "because": "token" });
        assert_eq!(whoami.body["space"], space);

        server.sql("update memberships set ended_at = now()").await?;
        let otp = server.request_code("ann@acme.test").await?;
        let left = exchange_with(server, &otp.0, &otp.1, json!({ "workspace_id": workspace })).await?;
        assert_refused(&left, 400, "invalid_request");
        Ok(())
    })
}

#[test]
fn a_stranger_to_a_workspace_keeps_the_code_for_personal_space_ot_05() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_address", ROOMY).run(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let workspace = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?.to_string();
        server.sign_in("bob@acme.test", "read").await?;
        for (email, grants) in [("bob@acme.test", 3), ("without-account@acme.test", 4)] {
            let otp = server.request_code(email).await?;
            let mut told = Vec::new();
            for id in [workspace.as_str(), "wsp_01h2xcejqtf2nbrexx3vqjhp41"] {
                let response = exchange_with(server, &otp.0, &otp.1, json!({ "workspace_id": id })).await?;
                assert_refused(&response, 400, "invalid_request");
                told.push(response.text.replace(response.field("request_id"), ""));
            }
            assert_eq!(told[0], told[1], "the response reveals which workspaces exist");
            let misspelt = exchange_with(server, &otp.0, &otp.1, json!({ "workspace_id": "personal" })).await?;
            assert_refused(&misspelt, 400, "invalid_request");

            let opened = exchange_with(server, &otp.0, &otp.1, json!({})).await?;
            assert_eq!((opened.status.as_u16(), opened.body.get("workspace_id")), (200, None));
            assert_eq!(count(server, "grants").await?, grants);
        }
        assert_eq!(count(server, "users").await?, 3);
        Ok(())
    })
}

#[test]
fn a_client_authenticates_in_one_way_at_most_tk_07() -> Result<()> {
    with_server(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let mut body = service_testkit::server::otp_exchange(&otp_id, &code, "read");
        body["client_secret"] = json!("hunter2");
        let request = server.http.request(reqwest::Method::POST, "/oauth/token");
        let response = server.http.send(request.basic_auth("service-cli", Some("hunter2")).json(&body)).await?;
        assert_refused(&response, 400, "invalid_request");
        assert_eq!(server.exchange(&otp_id, &code, "read").await?.status, 200, "the code was spent");
        Ok(())
    })
}
