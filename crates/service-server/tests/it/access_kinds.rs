//! Every kind of credential at every door: endpoints × kinds × scopes × spaces and the roles in them, against an oracle.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_api::{
    endpoints::{self, Access, Endpoint},
    ids::WorkspaceId,
    scope::{Action, Scope, Scopes},
    workspaces::Role,
};
use service_rules::{bearer::Claims, lifetimes, space::Place};
use service_testkit::{
    answer::Answer,
    server::{SignedIn, TestServer, with_server},
};

use crate::{
    access::{call_at, claims, signed},
    cli_tokens::{make, post},
    cli_tokens_owner::delete,
};

/// What is sent as the bearer, and what it is.
struct Sent {
    name: String,
    token: Option<String>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    /// Signed in with one of our own clients.
    Session(Scopes, Place),
    CliToken(Scopes, Place),
    McpPair,
    /// Dead, or a secret that belongs to another door.
    Worthless,
}

/// The spaces of the test: Ann owns a workspace, is a member of another, a viewer of a third, and not in the last.
struct Spaces {
    owner: WorkspaceId,
    member: WorkspaceId,
    viewer: WorkspaceId,
    foreign: WorkspaceId,
}

impl Spaces {
    fn of_ann(&self) -> [Place; 4] {
        [Place::Personal, Place::Workspace(self.owner), Place::Workspace(self.member), Place::Workspace(self.viewer)]
    }
}

const SCOPES: [&str; 4] = ["read", "write", "read write", "projects:read"];

fn name(place: Place) -> String {
    match place {
        Place::Personal => "personal".into(),
        Place::Workspace(id) => id.to_string(),
    }
}

async fn living(server: &TestServer, ann: &SignedIn, spaces: &Spaces) -> Result<Vec<Sent>> {
    let mut sent = vec![Sent { name: "nothing".into(), token: None, kind: Kind::Nothing }];
    for scopes in SCOPES {
        for place in spaces.of_ann() {
            let workspace = if let Place::Workspace(id) = place { Some(id) } else { None };
            let claims = Claims { grant: ann.grant_id, workspace, ..claims(server, ann.user_id, scopes)? };
            let kind = Kind::Session(Scopes::parse(scopes), place);
            sent.push(Sent {
                name: format!("session {scopes} {place:?}"),
                token: Some(signed(server, &claims)?),
                kind,
            });
            let words: Vec<_> = scopes.split(' ').collect();
            let (_, token) = make(server, ann, &json!({ "scopes": words, "workspaceId": name(place) })).await?;
            let kind = Kind::CliToken(Scopes::parse(scopes), place);
            sent.push(Sent { name: format!("CLI token {scopes} {place:?}"), token: Some(token), kind });
        }
    }
    Ok(sent)
}

async fn others(server: &TestServer, ann: &SignedIn, bob: &SignedIn) -> Result<Vec<Sent>> {
    let pair = post(server, "/v1/mcp/tokens", &bob.access_token, &json!({ "scope": "read write" })).await?;
    let good = Claims { grant: ann.grant_id, ..claims(server, ann.user_id, "read write")? };
    let expired = signed(server, &Claims { exp: good.iat - lifetimes::CLOCK_SKEW - 1, ..good.clone() })?;
    let ended = server.sign_in("eve@acme.test", "read write").await?;
    let path = format!("/v1/sessions/{}", ended.grant_id);
    let request = server.door.request(reqwest::Method::DELETE, &path).bearer_auth(&ended.access_token);
    anyhow::ensure!(server.door.send(request).await?.status == 204, "not ended");
    let (id, revoked) = make(server, ann, &json!({ "scopes": ["read", "write"] })).await?;
    anyhow::ensure!(delete(server, &id, &ann.access_token).await?.status == 204, "not revoked");
    let (_, secret) = crate::revoke::reports(server).await?;
    let (otp_id, _) = server.request_code("zoe@acme.test").await?;
    let mut sent = vec![Sent {
        name: "MCP access token".into(),
        token: Some(pair.field("access_token").to_owned()),
        kind: Kind::McpPair,
    }];
    for (name, token) in [
        ("expired access token", expired),
        ("access token of an ended session", ended.access_token),
        ("revoked CLI token", revoked),
        ("refresh token", ann.refresh_token.clone()),
        ("MCP refresh token", pair.field("refresh_token").to_owned()),
        ("client secret", secret),
        ("OTP id", otp_id),
    ] {
        sent.push(Sent { name: name.into(), token: Some(token), kind: Kind::Worthless });
    }
    Ok(sent)
}

/// The verdict of the contract; `None`: the request runs.
fn oracle(endpoint: &Endpoint, kind: Kind, asked: Option<Place>, spaces: &Spaces) -> Option<(u16, &'static str)> {
    let signed_in = matches!(endpoint.access, Access::SignedIn(_));
    let needed = match endpoint.access {
        Access::Public | Access::Browser => return None,
        Access::Client => return Some((401, "invalid_client")),
        Access::McpPair => {
            return match kind {
                Kind::Nothing => Some((401, "missing_token")),
                Kind::Session(..) | Kind::McpPair => None,
                Kind::CliToken(..) | Kind::Worthless => Some((401, "invalid_token")),
            };
        }
        Access::Bearer(needed) | Access::Owner(needed) | Access::SignedIn(needed) => needed,
    };
    match kind {
        Kind::Nothing => Some((401, "missing_token")),
        Kind::Worthless | Kind::McpPair => Some((401, "invalid_token")),
        Kind::CliToken(..) if signed_in => Some((403, "forbidden")),
        Kind::Session(scopes, default) => {
            lacking(scopes, needed).or_else(|| within(endpoint, asked.unwrap_or(default), spaces))
        }
        Kind::CliToken(scopes, bound) => lacking(scopes, needed).or_else(|| {
            let elsewhere = asked.is_some_and(|asked| asked != bound);
            elsewhere.then_some((403, "workspace_mismatch")).or_else(|| within(endpoint, bound, spaces))
        }),
    }
}

fn lacking(scopes: Scopes, needed: Scope) -> Option<(u16, &'static str)> {
    (!scopes.allow(needed)).then_some((403, "insufficient_scope"))
}

fn within(endpoint: &Endpoint, place: Place, spaces: &Spaces) -> Option<(u16, &'static str)> {
    let owned = [Place::Personal, Place::Workspace(spaces.owner)].contains(&place);
    match endpoint.access {
        _ if !endpoint.query.contains(&"workspaceId") => None,
        _ if place == Place::Workspace(spaces.foreign) => Some((404, "not_found")),
        Access::Owner(_) if !owned => Some((403, "forbidden")),
        Access::Bearer(needed) if needed.action == Action::Write && place == Place::Workspace(spaces.viewer) => {
            Some((403, "forbidden"))
        }
        _ => None,
    }
}

fn check(answer: &Answer, expected: Option<(u16, &str)>, cell: &str) {
    match expected {
        Some(refusal) => assert_eq!((answer.status.as_u16(), answer.error()), refusal, "{cell}: {}", answer.text),
        None => assert!(!matches!(answer.status.as_u16(), 401 | 403 | 405 | 500..), "{cell}: {}", answer.text),
    }
}

#[test]
fn every_kind_of_credential_is_refused_at_every_door_but_its_own_ws_01_mc_02_cl_01() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let spaces = Spaces {
            owner: server.make_workspace("Owner", &[(ann.user_id, Role::Owner)]).await?,
            member: server.make_workspace("Member", &[(ann.user_id, Role::Member)]).await?,
            viewer: server.make_workspace("Viewer", &[(ann.user_id, Role::Viewer)]).await?,
            foreign: server.make_workspace("Foreign", &[(bob.user_id, Role::Owner)]).await?,
        };
        let mut sent = living(server, &ann, &spaces).await?;
        sent.extend(others(server, &ann, &bob).await?);
        let mut cells = 0;
        for endpoint in endpoints::ALL.iter().filter(|endpoint| endpoint.access != Access::Browser) {
            let mut asked = vec![None];
            if endpoint.query.contains(&"workspaceId") {
                asked.extend(spaces.of_ann().map(Some));
                asked.push(Some(Place::Workspace(spaces.foreign)));
            }
            for sent in &sent {
                for asked in &asked {
                    let query = asked.map(|place| format!("?workspaceId={}", name(place))).unwrap_or_default();
                    let answer = call_at(server, endpoint, &query, sent.token.as_deref()).await?;
                    let cell = format!("{} {}{query} with {}", endpoint.method.as_str(), endpoint.path, sent.name);
                    check(&answer, oracle(endpoint, sent.kind, *asked, &spaces), &cell);
                    cells += 1;
                }
            }
        }
        println!("{cells} cells of endpoints, kinds of credentials, scopes, roles and spaces checked");
        let still = server.door.get("/v1/whoami", Some(&ann.access_token)).await?;
        still.status.is_success().then_some(()).context("the caller ended itself")
    })
}
