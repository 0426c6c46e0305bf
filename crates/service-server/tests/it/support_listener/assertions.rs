//! An assertion counts once, on one listener, and only while its client is not revoked.

use anyhow::Result;
use jsonwebtoken::EncodingKey;
use serde_json::{Value, json};
use service_server::{
    clock::Clock,
    crypto::random,
    flows::{
        clients::{self, ClientToRegister},
        support,
    },
    server::Server,
};
use service_testkit::{
    server::{Setup, TestServer, config},
    settings::BASE_URL,
};

use crate::support::{
    authority::Authority,
    forge::public_jwk,
    support_tool::{ASSERTION_TYPE, SupportTool, http, operator, send, url, with_listener},
};

const FIND: &str = "/v1/user/find";

#[test]
fn of_two_nodes_one_accepts_an_assertion() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default(), &authority)?.run(async |server| {
        server.sign_in("ann@acme.test", "read").await?;
        let tool = SupportTool::register(server, &authority).await?;
        let clock = Clock::manual(server.now());
        let second = Server::start(config(&server.settings)?, clock).await?;
        let second_url = format!("https://{}", second.support_address.ok_or_else(|| anyhow::anyhow!("off"))?);
        let (first_url, another) = (url(server)?, http(&authority, Some((&authority, "other")))?);
        for _ in 0..10 {
            let body = tool.body(server, &json!({ "whom": "ann@acme.test" }))?;
            let at_once =
                tokio::join!(send(&tool.http, &first_url, FIND, &body), send(&another, &second_url, FIND, &body),);
            let mut statuses = [at_once.0?.status, at_once.1?.status];
            statuses.sort_unstable();
            assert_eq!(statuses, [200, 401]);
        }
        // A revocation that one node commits counts on the other at once.
        support::clients::revoke(&server.app, &operator()?, tool.id).await?;
        let body = tool.body(server, &json!({ "whom": "ann@acme.test" }))?;
        assert_eq!(send(&another, &second_url, FIND, &body).await?.error(), (401, "invalid_client"));
        second.stop().await;
        Ok(())
    })
}

async fn introspect(server: &TestServer, id: &Value, assertion: String) -> Result<u16> {
    let body = json!({
        "token": "x", "client_id": id, "client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion,
    });
    let status = server.http.post("/oauth/introspect", &body).await?.status.as_u16();
    // Guesses are limited.
    server.sql("delete from rates").await?;
    Ok(status)
}

#[test]
fn an_assertion_for_one_listener_is_no_good_at_the_other() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default(), &authority)?.run(async |server| {
        let tool = SupportTool::register(server, &authority).await?;
        // A support client is not a client of the public endpoints, whatever its assertion is for.
        let id = json!(tool.id);
        for audience in [None, Some(BASE_URL.to_owned()), Some(format!("{BASE_URL}/oauth/token"))] {
            let changes: Vec<_> = audience.into_iter().map(|audience| ("aud", json!(audience))).collect();
            assert_eq!(introspect(server, &id, tool.assertion(server, &changes)?).await?, 401);
            let grant = json!({
                "grant_type": "refresh_token", "refresh_token": "x", "client_id": id,
                "client_assertion_type": ASSERTION_TYPE, "client_assertion": tool.assertion(server, &changes)?,
            });
            let response = server.http.post("/oauth/token", &grant).await?;
            assert!(response.status.is_client_error() && response.error() != "", "{}", response.text);
        }
        // A client of the public endpoints cannot use an assertion for the support listener there.
        let pkcs8 = random::signing_key()?;
        let wanted = ClientToRegister {
            name: "Reports".into(),
            jwks: Some(json!({ "keys": [public_jwk(&pkcs8, "one")?] })),
            may_introspect: true,
            ..ClientToRegister::default()
        };
        let client = json!(clients::create(&server.app, &wanted).await?.id);
        let key = EncodingKey::from_ec_der(&pkcs8);
        let own = |audience: Option<&str>| {
            let audience = audience.map(|audience| ("aud", json!(audience)));
            let claims: Vec<_> =
                [("iss", client.clone()), ("sub", client.clone())].into_iter().chain(audience).collect();
            tool.signed_by(&key, server, &claims)
        };
        assert_eq!(introspect(server, &client, own(None)?).await?, 401);
        assert_eq!(introspect(server, &client, own(Some(BASE_URL))?).await?, 200);
        Ok(())
    })
}
