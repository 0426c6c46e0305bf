//! Every route of the support listener refuses every caller that lacks one thing. The table is made from the listener's own
//! list of routes: a route without its checks fails here.

use anyhow::{Context as _, Result, ensure};
use jsonwebtoken::EncodingKey;
use serde_json::{Value, json};
use service_server::{
    crypto::random,
    flows::{
        clients::{self, ClientToRegister},
        support,
    },
    http::support::calls::SupportCall,
};
use service_testkit::{
    server::{Setup, TestServer, with_server},
    settings::BASE_URL,
};

use crate::support::{
    authority::Authority,
    forge::public_jwk,
    support_tool::{ASSERTION_TYPE, SUPPORT_URL, SupportTool, http, operator, send, url, with_listener},
};

/// The fields of a call that succeeds.
async fn fields(server: &TestServer, call: SupportCall) -> Result<Value> {
    Ok(match call {
        SupportCall::FindUser
        | SupportCall::ShowUser
        | SupportCall::ListSessions
        | SupportCall::ListTokens
        | SupportCall::ListEvents
        | SupportCall::ShowLimits
        | SupportCall::ResetLimits => json!({ "whom": "ann@acme.test" }),
        SupportCall::RevokeSession => json!({ "id": server.sign_in("ann@acme.test", "read").await?.grant_id }),
        SupportCall::ListMail => json!({ "to": "ann@acme.test" }),
        SupportCall::ResendMail => json!({ "all": true }),
    })
}

/// The number of events that a call of the listener recorded.
async fn recorded(server: &TestServer) -> Result<u32> {
    let sql = "select count(*) from audit_events where details ? 'operatorClient'";
    Ok(server.sql(sql).await?.context("no count")?.parse()?)
}

/// Assertions that authenticate no client, each with what is wrong.
fn wrong_assertions(tool: &SupportTool, server: &TestServer) -> Result<Vec<(&'static str, String)>> {
    let now = server.now().as_second();
    let stranger = EncodingKey::from_ec_der(&random::signing_key()?);
    let with = |name, value: Value| tool.assertion(server, &[(name, value)]);
    Ok(vec![
        ("for the public issuer", with("aud", json!(BASE_URL))?),
        ("for the public token endpoint", with("aud", json!(format!("{BASE_URL}/oauth/token")))?),
        ("for a URL with a slash", with("aud", json!(format!("{SUPPORT_URL}/")))?),
        ("for both listeners", with("aud", json!([SUPPORT_URL, BASE_URL]))?),
        ("expired", with("exp", json!(now - 31))?),
        ("valid for too long", with("exp", json!(now + 91))?),
        ("by another issuer", with("iss", json!("x"))?),
        ("about another subject", with("sub", json!("x"))?),
        ("without an id", with("jti", json!(""))?),
        ("signed by a stranger", tool.signed_by(&stranger, server, &[])?),
        ("not signed", "eyJhbGciOiJub25lIn0.e30.".into()),
        ("no assertion", "x".into()),
    ])
}

/// An OAuth client whose assertion is right in everything else; the body of its call.
async fn ordinary_client(server: &TestServer, tool: &SupportTool, body: &Value) -> Result<Value> {
    let pkcs8 = random::signing_key()?;
    let wanted = ClientToRegister {
        name: "Reports".into(),
        jwks: Some(json!({ "keys": [public_jwk(&pkcs8, "one")?] })),
        may_introspect: true,
        ..ClientToRegister::default()
    };
    let id = clients::create(&server.app, &wanted).await?.id;
    let claims = [("iss", json!(id)), ("sub", json!(id))];
    let mut body = body.clone();
    body["client_assertion"] = tool.signed_by(&EncodingKey::from_ec_der(&pkcs8), server, &claims)?.into();
    body["client_id"] = id.into();
    Ok(body)
}

/// Makes a call in every way that lacks something.
async fn check_refused(
    server: &TestServer,
    authority: &Authority,
    tool: &SupportTool,
    call: SupportCall,
) -> Result<()> {
    let (path, fields) = (call.path(), fields(server, call).await?);
    let (complete, other) = (|| tool.body(server, &fields), Authority::new()?);
    other.issue("tool", None, "tool")?;
    let refused = async |what: &str, body: &Value, expected: (u16, &str)| {
        let response = tool.send(server, path, body).await?;
        ensure!(response.error() == expected, "{path}, {what}: {} {}", response.status, response.body);
        Ok(())
    };

    for own in [None, Some((&other, "tool"))] {
        let answer = send(&http(authority, own)?, &url(server)?, path, &complete()?).await;
        ensure!(answer.is_err(), "{path} answers without a certificate of the authority: {own:?}", own = own.is_some());
    }

    let unauthenticated = (401, "invalid_client");
    for missing in ["client_assertion", "client_id"] {
        let mut body = complete()?;
        body.as_object_mut().context("not an object")?.remove(missing);
        refused(missing, &body, unauthenticated).await?;
    }
    let mut body = complete()?;
    body["client_assertion_type"] = "jwt".into();
    refused("another type of assertion", &body, (400, "invalid_request")).await?;
    for (what, assertion) in wrong_assertions(tool, server)? {
        let mut body = complete()?;
        body["client_assertion"] = assertion.into();
        refused(what, &body, unauthenticated).await?;
    }
    refused("an OAuth client", &ordinary_client(server, tool, &complete()?).await?, unauthenticated).await?;

    for field in ["operator", "reason"] {
        for value in [
            None,
            Some(json!(null)),
            Some(json!("")),
            Some(json!(" ")),
            Some(json!("a\nb")),
            Some(json!("x".repeat(201))),
        ] {
            let mut body = complete()?;
            match value {
                Some(value) => body[field] = value,
                None => drop(body.as_object_mut().context("not an object")?.remove(field)),
            }
            refused(field, &body, (422, "validation_failed")).await?;
        }
    }

    let revoked = SupportTool::register(server, authority).await?;
    support::clients::revoke(&server.app, &operator()?, revoked.id).await?;
    refused("a revoked client", &revoked.body(server, &fields)?, unauthenticated).await?;

    // Nothing of this was a call. What lacks nothing succeeds once, and not again with the same assertion.
    ensure!(recorded(server).await? == 0, "{path}: a refused call was recorded");
    let once = complete()?;
    let response = tool.send(server, path, &once).await?;
    ensure!(response.status == 200, "{path}: {} {}", response.status, response.body);
    ensure!(recorded(server).await? > 0, "{path} was not recorded");
    refused("used twice", &once, unauthenticated).await
}

#[test]
fn every_route_refuses_a_caller_that_lacks_anything() -> Result<()> {
    for call in SupportCall::ALL {
        let authority = Authority::new()?;
        with_listener(Setup::default(), &authority)?.run(async |server| {
            server.sign_in("ann@acme.test", "read").await?;
            let tool = SupportTool::register(server, &authority).await?;
            check_refused(server, &authority, &tool, call).await
        })?;
    }
    Ok(())
}

#[test]
fn the_calls_of_support_are_on_no_other_listener() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default(), &authority)?.run(async |server| {
        let tool = SupportTool::register(server, &authority).await?;
        for call in SupportCall::ALL {
            let body = tool.body(server, &fields(server, call).await?)?;
            for listener in [&server.http, &server.ops] {
                assert_eq!(listener.post(call.path(), &body).await?.status, 404, "{}", call.path());
            }
            let get = tool.http.get(format!("{}{}", url(server)?, call.path())).send().await?;
            assert_eq!(get.status(), 405, "{}", call.path());
        }
        for path in ["/healthz", "/metrics", "/oauth/token", "/v1/whoami", "/v1/user", "/"] {
            let body = tool.body(server, &json!({}))?;
            assert_eq!(tool.send(server, path, &body).await?.status, 404, "{path}");
        }
        Ok(())
    })
}

#[test]
fn a_server_without_the_setting_has_no_support_listener() -> Result<()> {
    with_server(async |server| {
        assert_eq!(server.support_address, None);
        ensure!(server.app.support_tls.get().is_none(), "TLS is configured");
        let body = json!({ "client_id": "supc_x", "client_assertion_type": ASSERTION_TYPE, "client_assertion": "x" });
        for call in SupportCall::ALL {
            assert_eq!(server.http.post(call.path(), &body).await?.status, 404, "{}", call.path());
        }
        Ok(())
    })
}
