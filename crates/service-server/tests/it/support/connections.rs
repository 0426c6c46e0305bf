//! Connections and domains of workspaces.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use service_server::{
    flows::sign_in::email_key::domain_key,
    store::{self, routed_domains::Route},
};
use service_testkit::{
    dns_server::{DnsServer, Record},
    response::TestResponse,
    server::{Setup, SignedIn, TestServer},
};

use crate::support::workspaces::{make, send};

pub(crate) const ISSUER: &str = "https://idp.acme.test";

/// A workspace and the owner who manages it.
pub(crate) struct Company {
    pub(crate) owner: SignedIn,
    pub(crate) email: String,
    pub(crate) id: String,
}

impl Company {
    /// Signs an owner in and makes a workspace.
    pub(crate) async fn found(server: &TestServer, email: &str) -> Result<Self> {
        let owner = server.sign_in(email, "read write").await?;
        let id = make(server, &owner, "Harbour").await?;
        Ok(Self { owner, email: email.to_owned(), id })
    }

    /// The owner signs in again, after time has passed.
    pub(crate) async fn sign_in_again(&mut self, server: &TestServer) -> Result<()> {
        self.owner = server.sign_in(&self.email, "read write").await?;
        Ok(())
    }

    pub(crate) fn path(&self, below: &str) -> String {
        format!("/v1/workspaces/{}/{below}", self.id)
    }

    pub(crate) async fn send(
        &self,
        server: &TestServer,
        method: &str,
        below: &str,
        body: Option<&Value>,
    ) -> Result<TestResponse> {
        send(server, method, &self.path(below), &self.owner, body).await
    }

    pub(crate) async fn create(&self, server: &TestServer, body: &Value) -> Result<TestResponse> {
        self.send(server, "POST", "connections", Some(body)).await
    }

    /// Creates a connection that is not enabled; returns its id.
    pub(crate) async fn draft(&self, server: &TestServer) -> Result<String> {
        let body =
            json!({ "name": "Acme", "issuer": ISSUER, "clientId": "service", "clientSecret": "a-secret-of-acme" });
        let made = self.create(server, &body).await?;
        ensure!(made.status == 201, "{}", made.text);
        Ok(made.field("id").to_owned())
    }

    pub(crate) async fn change(&self, server: &TestServer, id: &str, body: &Value) -> Result<TestResponse> {
        self.send(server, "PATCH", &format!("connections/{id}"), Some(body)).await
    }

    /// Creates a connection that counts as tried, and enables it; returns its id.
    pub(crate) async fn connect(&self, server: &TestServer) -> Result<String> {
        let id = self.draft(server).await?;
        mark_tried(server, &id).await?;
        let enabled = self.change(server, &id, &json!({ "enabled": true })).await?;
        ensure!(enabled.status == 200, "{}", enabled.text);
        Ok(id)
    }

    pub(crate) async fn claim(&self, server: &TestServer, domain: &str) -> Result<TestResponse> {
        self.send(server, "POST", "domains", Some(&json!({ "domain": domain }))).await
    }

    /// Claims a domain for a connection; returns the value of the record to add.
    pub(crate) async fn claim_for(&self, server: &TestServer, domain: &str, connection: &str) -> Result<String> {
        let body = json!({ "domain": domain, "connectionId": connection });
        let claimed = self.send(server, "POST", "domains", Some(&body)).await?;
        ensure!(claimed.status == 201, "{}", claimed.text);
        Ok(record_value(&claimed))
    }

    pub(crate) async fn verify(&self, server: &TestServer, domain: &str) -> Result<TestResponse> {
        self.send(server, "POST", &format!("domains/{domain}/verify"), None).await
    }

    /// The domain as the list shows it.
    pub(crate) async fn domain(&self, server: &TestServer, domain: &str) -> Result<Value> {
        let listed = self.send(server, "GET", "domains", None).await?;
        let found = listed.body["data"].as_array().into_iter().flatten().find(|known| known["domain"] == domain);
        Ok(found.cloned().unwrap_or_default())
    }
}

/// As if an owner had signed in through the connection.
pub(crate) async fn mark_tried(server: &TestServer, id: &str) -> Result<()> {
    let db = server.app.database.connect().await?;
    Ok(store::connections::mark_tried(&db, id.parse()?, server.now()).await?)
}

pub(crate) fn record_value(claimed: &TestResponse) -> String {
    claimed.body["record"]["value"].as_str().unwrap_or_default().to_owned()
}

/// Where the users of a domain sign in.
pub(crate) async fn route(server: &TestServer, domain: &str) -> Result<Option<Route>> {
    let db = server.app.database.connect().await?;
    let key = domain_key(&server.app, &db, domain).await?;
    Ok(store::routed_domains::find(&db, key.domain, key.shard).await?)
}

/// Runs a test against a service that asks a DNS server of the test.
pub(crate) fn with_dns(test: impl AsyncFnOnce(&TestServer, &DnsServer) -> Result<()>) -> Result<()> {
    let dns = DnsServer::start()?;
    Setup::default().set("dns.servers", &dns.address.to_string()).run(async |server| test(server, &dns).await)
}

pub(crate) fn txt<'a>(name: &'a str, value: &'a str) -> Record<'a> {
    Record::Txt { name, value }
}

pub(crate) async fn count_events(server: &TestServer, event: &str) -> Result<String> {
    let sql = format!("select count(*) from audit_events where event = '{event}'");
    Ok(server.sql(&sql).await?.unwrap_or_default())
}
