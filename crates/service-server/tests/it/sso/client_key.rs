//! Connections that authenticate with a key of their own at the provider (`private_key_jwt`).

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_server::store::connections::StoredConnection;
use service_testkit::{server::TestServer, tab::Tab};

use crate::support::{
    connections::{Company as Workspace, mark_tried},
    provider::{CLIENT_ID, CLIENT_SECRET, Provider},
    sso::{Company, at_provider, company, sign_in, signed_in_as, user, with_provider},
};

/// A company that created its connection through the API, with a key.
struct Keyed {
    workspace: Workspace,
    company: Company,
    id: String,
    /// The connection as the API shows it.
    shown: Value,
}

impl Keyed {
    async fn found(server: &TestServer, provider: &Provider) -> Result<Self> {
        let workspace = Workspace::found(server, "owner@bolt.test").await?;
        let body = json!({
            "name": "Acme ID", "issuer": provider.issuer, "clientId": CLIENT_ID, "authMethod": "private_key_jwt",
        });
        let made = workspace.create(server, &body).await?;
        assert_eq!(made.status, 201, "{}", made.text);
        let id = made.field("id").to_owned();
        mark_tried(server, &id).await?;
        let enabled = workspace.change(server, &id, &json!({ "enabled": true })).await?;
        assert_eq!(enabled.status, 200, "{}", enabled.text);
        let company = Company {
            workspace_id: workspace.id.parse()?,
            connection_id: id.parse()?,
            owner_id: workspace.owner.user_id,
        };
        company.take_domain(server, "acme.test").await?;
        Ok(Self { workspace, company, id, shown: made.body })
    }

    async fn change(&self, server: &TestServer, body: &Value) -> Result<Value> {
        let changed = self.workspace.change(server, &self.id, body).await?;
        assert_eq!(changed.status, 200, "{}", changed.text);
        Ok(changed.body)
    }
}

/// What a browser is shown that signs in, and whether it is signed in.
async fn outcome(server: &TestServer, company: &Company) -> Result<(u16, Option<String>)> {
    let tab = Tab::open(server)?;
    let shown = sign_in(server, &tab, &company.start()).await?;
    Ok((shown.status.as_u16(), signed_in_as(&tab).await?))
}

#[test]
fn a_user_signs_in_at_a_provider_that_knows_only_the_public_key() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = Keyed::found(server, provider).await?;
        let (key, keys) = (&acme.shown["publicKey"]["keys"][0], &acme.shown["publicKey"]);
        assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1), "{keys}");
        let named = |name: &str| key[name].as_str().unwrap_or_default();
        assert_eq!((named("kty"), named("crv"), named("alg"), named("use")), ("EC", "P-256", "ES256", "sig"));
        assert!(!named("kid").is_empty() && key.get("d").is_none(), "{key}");
        assert_eq!(acme.shown["hasClientSecret"], false);
        provider.register_keys(keys);
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        for _ in 0..2 {
            assert_eq!(outcome(server, &acme.company).await?, (303, Some("ann@acme.test".into())));
        }
        // The key is generated once, and what is stored of it is sealed.
        let changed = acme.change(server, &json!({ "authMethod": "private_key_jwt", "sessionHours": 8 })).await?;
        assert_eq!(changed["publicKey"], *keys);
        let listed = acme.workspace.send(server, "GET", "connections", None).await?;
        assert_eq!(listed.body["data"][0]["publicKey"], *keys);
        let stored = server.sql("select encode(client_secret, 'hex') from connections").await?.context("no key")?;
        let place = StoredConnection::secret_place(acme.company.connection_id);
        let opened = server.app.root_keys.open(&place, &hex_bytes(&stored)?)?;
        assert!(opened.len() > 100 && !hex_bytes(&stored)?.windows(16).any(|part| part == &opened[..16]));
        // A provider with another key refuses it.
        provider.register_keys(&json!({ "keys": [provider.key().jwk] }));
        assert_eq!(outcome(server, &acme.company).await?, (400, None));
        Ok(())
    })
}

fn hex_bytes(text: &str) -> Result<Vec<u8>> {
    (0..text.len()).step_by(2).map(|at| Ok(u8::from_str_radix(&text[at..at + 2], 16)?)).collect()
}

#[test]
fn another_method_drops_the_key_and_coming_back_makes_a_new_one() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = Keyed::found(server, provider).await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let basic = json!({ "authMethod": "client_secret_basic" });
        let refused = acme.workspace.change(server, &acme.id, &basic).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (422, "validation_failed"), "users could not sign in");
        assert!(refused.body["details"]["fields"].get("clientSecret").is_some(), "{}", refused.text);
        let ascii = json!({ "authMethod": "client_secret_basic", "clientSecret": "a-secret-of-acme" });
        let changed = acme.change(server, &ascii).await?;
        assert_eq!((changed.get("publicKey"), &changed["hasClientSecret"]), (None, &json!(true)));
        let kept = acme.change(server, &json!({ "authMethod": "client_secret_post" })).await?;
        assert_eq!(kept["hasClientSecret"], true, "both methods use the same secret");
        let back = acme.change(server, &json!({ "authMethod": "private_key_jwt" })).await?;
        assert_eq!(back["hasClientSecret"], false);
        assert_ne!(back["publicKey"]["keys"][0]["x"], acme.shown["publicKey"]["keys"][0]["x"]);
        provider.register_keys(&acme.shown["publicKey"]);
        assert_eq!(outcome(server, &acme.company).await?, (400, None), "the old key");
        provider.register_keys(&back["publicKey"]);
        assert_eq!(outcome(server, &acme.company).await?, (303, Some("ann@acme.test".into())));
        // A draft can be without a credential for a while.
        acme.change(server, &json!({ "enabled": false })).await?;
        let draft = acme.change(server, &basic).await?;
        assert_eq!((draft.get("publicKey"), &draft["hasClientSecret"]), (None, &json!(false)));
        Ok(())
    })
}

#[test]
fn no_user_is_sent_to_a_provider_that_does_not_accept_the_key() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = Keyed::found(server, provider).await?;
        provider.register_keys(&acme.shown["publicKey"]);
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        for (methods, algorithms) in [
            (&[][..], &["ES256"][..]),
            (&["client_secret_basic"], &["ES256"]),
            (&["private_key_jwt"], &[]),
            (&["private_key_jwt"], &["RS256", "ES384"]),
        ] {
            provider.list_auth(methods, algorithms);
            // The discovery document is fetched again.
            server.advance(86_401);
            let shown = Tab::open(server)?.get(&acme.company.start()).await?;
            assert_eq!((shown.status.as_u16(), shown.location.as_deref()), (400, None), "{methods:?} {algorithms:?}");
            assert!(shown.text.contains("<h1>") && !shown.text.contains("http-equiv"), "{}", shown.text);
        }
        assert_eq!(acme.company.refusals(server).await?, ["provider_refused"; 4].join(" "));
        let health =
            "select last_error from trusted_issuers where last_error_at > last_success_at or last_success_at is null";
        let error = server.sql(health).await?.context("the owner is not told")?;
        assert!(error.contains("private_key_jwt with ES256") && error.contains("use a client secret"), "{error}");
        assert_eq!(provider.asked("state"), None);
        provider.list_auth(&["client_secret_basic", "private_key_jwt"], &["RS256", "ES256"]);
        server.advance(86_401);
        assert_eq!(outcome(server, &acme.company).await?, (303, Some("ann@acme.test".into())));
        Ok(())
    })
}

#[test]
fn a_connection_without_a_credential_is_not_set_up() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        let callback = at_provider(server, &tab.get(&acme.start()).await?).await?;
        acme.change(server, |connection| connection.client_secret = None).await?;
        let requests = provider.requests();
        for (what, path) in [("a callback", callback), ("a start", acme.start())] {
            let shown = tab.get(&path).await?;
            assert_eq!(shown.status, 400, "{what}: {}", shown.text);
            assert!(shown.text.contains("This sign-in isn’t available"), "{what}: {}", shown.text);
        }
        assert_eq!((provider.requests(), signed_in_as(&tab).await?), (requests, None));
        let place = StoredConnection::secret_place(acme.connection_id);
        let sealed = server.app.root_keys.seal(&place, CLIENT_SECRET.as_bytes())?;
        acme.change(server, |connection| connection.client_secret = Some(sealed)).await?;
        assert_eq!(outcome(server, &acme).await?, (303, Some("ann@acme.test".into())));
        Ok(())
    })
}
