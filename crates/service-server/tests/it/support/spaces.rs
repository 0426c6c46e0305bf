//! Users, workspaces and tokens for tests of spaces.

use crate::support::access::{call_at, claims, signed};
use anyhow::Result;
use serde_json::Value;
use service_api::{
    endpoints::{self, Access, Endpoint},
    ids::{UserId, WorkspaceId},
    scope::{Action, Scope},
    workspaces::Role,
};
use service_rules::{bearer::Claims, space::Space};
use service_server::crypto::random;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer},
};

/// Ann is a member of the first and a viewer in the third; the second is Bob's alone.
pub(crate) struct Office {
    pub(crate) ann: SignedIn,
    pub(crate) bob: SignedIn,
    pub(crate) first: WorkspaceId,
    pub(crate) second: WorkspaceId,
    pub(crate) third: WorkspaceId,
    pub(crate) unknown: WorkspaceId,
}

impl Office {
    pub(crate) async fn open(server: &TestServer) -> Result<Self> {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "read write").await?, server.sign_in("bob@acme.test", "read").await?);
        let (a, b) = (ann.user_id, bob.user_id);
        let office = Self {
            first: server.make_workspace("First", &[(a, Role::Member)]).await?,
            second: server.make_workspace("Second", &[(b, Role::Owner)]).await?,
            third: server.make_workspace("Third", &[(a, Role::Viewer), (b, Role::Owner)]).await?,
            unknown: random::id(server.now())?,
            ann,
            bob,
        };
        for (id, name) in
            [(office.first, "Of the first"), (office.second, "Of the second"), (office.third, "Of the third")]
        {
            server.make_project(Space::Workspace(id), b, name).await?;
        }
        server.make_project(Space::Personal, a, "Ann's own").await?;
        server.make_project(Space::Personal, b, "Bob's own").await?;
        Ok(office)
    }

    /// The role that every endpoint should see: the memberships of `open`, written down a second time.
    pub(crate) fn role(&self, user_id: UserId, workspace: WorkspaceId) -> Option<Role> {
        let ann = user_id == self.ann.user_id;
        [
            (true, self.first, Role::Member),
            (false, self.second, Role::Owner),
            (true, self.third, Role::Viewer),
            (false, self.third, Role::Owner),
        ]
        .iter()
        .find(|(anns, id, _)| *anns == ann && *id == workspace)
        .map(|(.., role)| *role)
    }

    /// A token of Ann's that names a space by itself.
    pub(crate) fn anns_token_for(&self, server: &TestServer, workspace: WorkspaceId) -> Result<String> {
        let claims = claims(server, self.ann.user_id, "read write")?;
        signed(server, &Claims { workspace: Some(workspace), ..claims })
    }
}

/// Every endpoint that runs in a space.
pub(crate) fn in_spaces() -> impl Iterator<Item = (&'static Endpoint, Scope)> {
    endpoints::ALL.iter().filter(|endpoint| endpoint.query.contains(&"workspaceId")).filter_map(|endpoint| {
        match endpoint.access {
            Access::Bearer(needed) | Access::Owner(needed) => Some((*endpoint, needed)),
            // What makes a credential names the space that it is for, and runs in none. `whoami` needs no scope.
            _ => None,
        }
    })
}

pub(crate) async fn call(server: &TestServer, endpoint: &Endpoint, query: &str, token: &str) -> Result<TestResponse> {
    call_at(server, endpoint, query, Some(token)).await
}

/// What a request with this query answers at each endpoint that runs in a space.
pub(crate) async fn refusals(server: &TestServer, query: &str, token: &str) -> Result<Vec<(u16, String)>> {
    let mut responses = Vec::new();
    for (endpoint, _) in in_spaces() {
        let response = call(server, endpoint, query, token).await?;
        responses.push((response.status.as_u16(), response.error().to_owned()));
    }
    assert!(responses.len() >= 2);
    Ok(responses)
}

/// Fails unless every endpoint that reads in a space refuses in this way.
pub(crate) async fn all_readers_refuse(server: &TestServer, query: &str, token: &str, error: &str) -> Result<()> {
    for (endpoint, _) in in_spaces().filter(|(_, needed)| needed.action == Action::Read) {
        let response = call(server, endpoint, query, token).await?;
        assert_eq!((response.status.as_u16(), response.error()), (403, error), "{}{query}", endpoint.path);
    }
    Ok(())
}

/// Fails unless every endpoint that runs in a space refuses in this way.
pub(crate) async fn all_refuse(server: &TestServer, query: &str, token: &str, status: u16, error: &str) -> Result<()> {
    for response in refusals(server, query, token).await? {
        assert_eq!(response, (status, error.to_owned()), "{query}");
    }
    Ok(())
}

/// The space as whoami shows it, and the names of the projects there.
pub(crate) async fn seen(server: &TestServer, query: &str, token: &str) -> Result<(Value, Vec<String>)> {
    let whoami = server.http.get(&format!("/v1/whoami{query}"), Some(token)).await?;
    let projects = server.http.get(&format!("/v1/projects{query}"), Some(token)).await?;
    anyhow::ensure!(whoami.status == 200 && projects.status == 200, "{} {}", whoami.text, projects.text);
    let names = projects.body["data"].as_array().into_iter().flatten();
    let names = names.filter_map(|project| project["name"].as_str().map(str::to_owned)).collect();
    Ok((whoami.body["space"].clone(), names))
}
