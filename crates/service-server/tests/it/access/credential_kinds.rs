//! Every kind of credential at every door: endpoints × kinds × scopes × spaces and the roles in them, against an oracle.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_api::{
    endpoints::{self, Access, Endpoint},
    ids::WorkspaceId,
    scope::{Action, Scope, Scopes},
    workspaces::Role,
};
use service_rules::{bearer::Claims, lifetimes, space::Space};
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer, with_server},
    tab::Tab,
};

use crate::support::{
    access::{call_at, claims, signed},
    authorize::{CALLBACK, asking, code, exchange, go_through, register},
    cli_tokens::{delete, make, post},
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
    /// Signed in with one of our own clients, and how long ago.
    Session(Scopes, Space, SignIn),
    CliToken(Scopes, Space),
    McpPair,
    /// Dead, or a secret that belongs to another door.
    Worthless,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SignIn {
    Fresh,
    /// Longer ago than 15 minutes.
    Stale,
}

/// The spaces of the test: Ann owns a workspace, is a member of another, a viewer of a third, and not in the last.
struct Spaces {
    owner: WorkspaceId,
    member: WorkspaceId,
    viewer: WorkspaceId,
    foreign: WorkspaceId,
}

impl Spaces {
    fn of_ann(&self) -> [Space; 4] {
        [Space::Personal, Space::Workspace(self.owner), Space::Workspace(self.member), Space::Workspace(self.viewer)]
    }
}

const SCOPES: [&str; 4] = ["read", "write", "read write", "projects:read"];

fn name(place: Space) -> String {
    match place {
        Space::Personal => "personal".into(),
        Space::Workspace(id) => id.to_string(),
    }
}

/// Access tokens of one session as it would get them now.
fn sessions(server: &TestServer, ann: &SignedIn, spaces: &Spaces, sign_in: SignIn) -> Result<Vec<Sent>> {
    let mut sent = Vec::new();
    for scopes in SCOPES {
        for place in spaces.of_ann() {
            let workspace = if let Space::Workspace(id) = place { Some(id) } else { None };
            let claims = Claims { grant: ann.grant_id, workspace, ..claims(server, ann.user_id, scopes)? };
            let kind = Kind::Session(Scopes::parse(scopes), place, sign_in);
            let name = format!("session {scopes} {place:?}");
            sent.push(Sent { name, token: Some(signed(server, &claims)?), kind });
        }
    }
    Ok(sent)
}

async fn living(server: &TestServer, ann: &SignedIn, spaces: &Spaces) -> Result<Vec<Sent>> {
    let mut sent = vec![Sent { name: "nothing".into(), token: None, kind: Kind::Nothing }];
    for scopes in SCOPES {
        for place in spaces.of_ann() {
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
    let request = server.http.request(reqwest::Method::DELETE, &path).bearer_auth(&ended.access_token);
    anyhow::ensure!(server.http.send(request).await?.status == 204, "not ended");
    let (id, revoked) = make(server, ann, &json!({ "scopes": ["read", "write"] })).await?;
    anyhow::ensure!(delete(server, &id, &ann.access_token).await?.status == 204, "not revoked");
    let (_, secret) = crate::support::revoke::reports(server).await?;
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
fn oracle(endpoint: &Endpoint, kind: Kind, asked: Option<Space>, spaces: &Spaces) -> Option<(u16, &'static str)> {
    let recent = matches!(endpoint.access, Access::RecentSignIn(_) | Access::RecentSignInForOwners(_));
    let signed_in = recent || matches!(endpoint.access, Access::SignedIn(_));
    let needed = match endpoint.access {
        Access::Public | Access::Browser | Access::Provider => return None,
        Access::Client => return Some((401, "invalid_client")),
        Access::McpPair => {
            return match kind {
                Kind::Nothing => Some((401, "missing_token")),
                Kind::Session(..) | Kind::McpPair => None,
                Kind::CliToken(..) | Kind::Worthless => Some((401, "invalid_token")),
            };
        }
        Access::Mcp => {
            return match kind {
                Kind::Nothing => Some((401, "missing_token")),
                Kind::McpPair => None,
                Kind::Session(..) | Kind::CliToken(..) | Kind::Worthless => Some((401, "invalid_token")),
            };
        }
        Access::AnyToken => Scope::any(Action::Read),
        Access::Bearer(needed)
        | Access::Owner(needed)
        | Access::SignedIn(needed)
        | Access::RecentSignIn(needed)
        | Access::RecentSignInForOwners(needed) => needed,
    };
    match kind {
        Kind::Nothing => Some((401, "missing_token")),
        Kind::Worthless | Kind::McpPair => Some((401, "invalid_token")),
        Kind::CliToken(..) if signed_in => Some((403, "forbidden")),
        Kind::Session(scopes, default, sign_in) => {
            let too_old = (recent && sign_in == SignIn::Stale).then_some((403, "insufficient_user_authentication"));
            let entered = || within(endpoint, asked.unwrap_or(default), spaces);
            lacking(endpoint, scopes, needed).or(too_old).or_else(entered)
        }
        // Plain `read` and `write` leave out what concerns the account itself.
        Kind::CliToken(scopes, bound) => lacking(endpoint, scopes.written_out(), needed).or_else(|| {
            let elsewhere = asked.is_some_and(|asked| asked != bound);
            elsewhere.then_some((403, "workspace_mismatch")).or_else(|| within(endpoint, bound, spaces))
        }),
    }
}

fn lacking(endpoint: &Endpoint, scopes: Scopes, needed: Scope) -> Option<(u16, &'static str)> {
    let lacks = endpoint.access != Access::AnyToken && !scopes.allow(needed);
    lacks.then_some((403, "insufficient_scope"))
}

fn within(endpoint: &Endpoint, place: Space, spaces: &Spaces) -> Option<(u16, &'static str)> {
    let owned = [Space::Personal, Space::Workspace(spaces.owner)].contains(&place);
    match endpoint.access {
        _ if !endpoint.query.contains(&"workspaceId") => None,
        _ if place == Space::Workspace(spaces.foreign) => Some((404, "not_found")),
        Access::Owner(_) if !owned => Some((403, "forbidden")),
        Access::Bearer(needed) if needed.action == Action::Write && place == Space::Workspace(spaces.viewer) => {
            Some((403, "forbidden"))
        }
        _ => None,
    }
}

fn check(response: &TestResponse, expected: Option<(u16, &str)>, cell: &str) {
    match expected {
        Some(refusal) => assert_eq!((response.status.as_u16(), response.error()), refusal, "{cell}: {}", response.text),
        None => assert!(!matches!(response.status.as_u16(), 401 | 403 | 405 | 500..), "{cell}: {}", response.text),
    }
}

/// Every one of these at every endpoint, in every space; returns how many cells that were.
async fn walk(server: &TestServer, spaces: &Spaces, sent: &[Sent]) -> Result<usize> {
    let mut cells = 0;
    for endpoint in endpoints::ALL.iter().filter(|endpoint| endpoint.access != Access::Browser) {
        let mut asked = vec![None];
        if endpoint.query.contains(&"workspaceId") {
            asked.extend(spaces.of_ann().map(Some));
            asked.push(Some(Space::Workspace(spaces.foreign)));
        }
        for sent in sent {
            for asked in &asked {
                let query = asked.map(|place| format!("?workspaceId={}", name(place))).unwrap_or_default();
                let response = call_at(server, endpoint, &query, sent.token.as_deref()).await?;
                let cell = format!("{} {}{query} with {}", endpoint.method.as_str(), endpoint.path, sent.name);
                check(&response, oracle(endpoint, sent.kind, *asked, spaces), &cell);
                cells += 1;
            }
        }
    }
    Ok(cells)
}

#[test]
fn every_kind_of_credential_is_refused_at_every_door_but_its_own_ws_01_mc_02_cl_01_rv_06() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let spaces = Spaces {
            owner: server.make_workspace("Owner", &[(ann.user_id, Role::Owner)]).await?,
            member: server.make_workspace("Member", &[(ann.user_id, Role::Member)]).await?,
            viewer: server.make_workspace("Viewer", &[(ann.user_id, Role::Viewer)]).await?,
            foreign: server.make_workspace("Foreign", &[(bob.user_id, Role::Owner)]).await?,
        };
        server.keep_account(ann.user_id).await?;
        let mut sent = living(server, &ann, &spaces).await?;
        sent.extend(others(server, &ann, &bob).await?);
        sent.extend(sessions(server, &ann, &spaces, SignIn::Fresh)?);
        let mut cells = walk(server, &spaces, &sent).await?;
        server.advance(lifetimes::RECENT_SIGN_IN + 1);
        cells += walk(server, &spaces, &sessions(server, &ann, &spaces, SignIn::Stale)?).await?;
        println!("{cells} cells of endpoints, kinds of credentials, ages, scopes, roles and spaces checked");
        let still = crate::support::refresh::refreshed(server, &ann.refresh_token).await?;
        let still = server.http.get("/v1/whoami", Some(&still.access_token)).await?;
        still.status.is_success().then_some(()).context("the caller ended itself")
    })
}

#[test]
fn plain_scopes_open_no_audit_events_to_apps_and_cli_tokens_rv_16() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let mut tokens = Vec::new();
        for scope in ["read write", "read audit:read"] {
            let address = asking(&client, &[("scope", scope), ("prompt", "consent")]);
            let done = go_through(server, &tab, &address, "ann@acme.test").await?;
            let response = server.http.post("/oauth/token", &exchange(&client, &code(&done)?)).await?;
            tokens.push(response.field("access_token").to_owned());
        }
        server.advance(61);
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        for scopes in [json!(["read", "write"]), json!(["read", "audit:read"])] {
            let body = json!({ "name": "ci", "scopes": scopes });
            let made = server.http.request(reqwest::Method::POST, "/v1/cli/tokens").bearer_auth(&ann.access_token);
            let made = server.http.send(made.json(&body)).await?;
            assert_eq!(made.status, 201, "{}", made.text);
            tokens.push(made.field("access_token").to_owned());
        }
        let expected = [403, 200, 403, 200];
        for (token, status) in tokens.iter().zip(expected) {
            let response = server.http.get("/v1/audit-events", Some(token)).await?;
            assert_eq!(response.status, status, "{}", response.text);
            assert_eq!(server.http.get("/v1/projects", Some(token)).await?.status, 200);
        }
        // One of our own clients needs no more than `read`.
        assert_eq!(server.http.get("/v1/audit-events", Some(&ann.access_token)).await?.status, 200);
        Ok(())
    })
}
