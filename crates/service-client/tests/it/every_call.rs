//! Every call of the client, against a real server. An operation that no call reaches fails the test.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_api::{
    JsonObject,
    cli_tokens::{CreateCliToken, RotateCliToken, StatusFilter},
    connections::{ClaimDomain, DomainStatus, UpdateConnection},
    contents::Kind,
    endpoints::{Endpoint, OPERATIONS},
    errors::ErrorCode,
    ids::WorkspaceId,
    leaks::{Leaked, TokenLeaks},
    mcp_tokens::{CreateMcpTokens, RefreshMcpTokens},
    oauth::{AboutToken, SERVICE_CLI, TokenResponse},
    search::SearchPacks,
    sessions::MadeTreatment,
    token::{AccessToken, ClientSecret, CodeVerifier, OtpCode, PresentedToken},
    workspaces::{Invite, Role},
};
use service_client::{Client, ContentAddress, EnteredCode, Exchange, NewContent};
use service_server::flows::clients::{self, ClientToRegister};
use service_testkit::{
    dns_server::DnsServer,
    server::{Setup, TestServer},
    tab::Tab,
};

const ANN: &str = "ann@acme.test";
const BOB: &str = "bob@acme.test";
const CALLBACK: &str = "http://127.0.0.1/callback";
/// The example of RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// The requests that succeeded: method and path.
type Succeeded = Arc<Mutex<Vec<(String, String)>>>;

fn observed(server: &TestServer) -> Result<(Client, Succeeded)> {
    let succeeded = Succeeded::default();
    let log = succeeded.clone();
    let client = Client::new(&server.http.url)?.observed(move |exchange: &Exchange<'_>| {
        if exchange.status.is_some_and(|status| (200..300).contains(&status)) {
            let entry = (exchange.method.to_owned(), exchange.path.to_owned());
            log.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        }
    });
    Ok((client, succeeded))
}

/// Whether a request went to this endpoint. A path without an id, such as `/v1/packs/deleted`, is not one with an id.
fn reaches(method: &str, path: &str, endpoint: &Endpoint) -> bool {
    let fits = |row: &str| {
        row.split('/').count() == path.split('/').count()
            && row.split('/').zip(path.split('/')).all(|(row, sent)| row == sent || row.starts_with('{'))
    };
    let another = OPERATIONS.iter().any(|other| other.endpoint.path == path && other.endpoint.path != endpoint.path);
    endpoint.method.as_str() == method && fits(endpoint.path) && !another
}

#[test]
fn every_operation_has_a_call_that_succeeds() -> Result<()> {
    let dns = DnsServer::start()?;
    Setup::default().set("dns.servers", &dns.address.to_string()).run(async |server| {
        let (client, succeeded) = observed(server)?;
        documents(&client).await?;
        let ann = sign_in(server, &client, ANN).await?;
        let bob = sign_in(server, &client, BOB).await?;
        oauth(server, &client).await?;
        client.whoami(&ann.access_token, None).await?;
        for kind in Kind::ALL {
            contents(&client, &ann.access_token, kind).await?;
        }
        search(&client, &ann.access_token).await?;
        workspaces(server, &client, &ann, &bob).await?;
        connections(&client, &ann.access_token).await?;
        tokens(&client, &ann.access_token).await?;
        sessions(server, &client, &ann).await?;
        passkeys(server, &client, &ann).await?;
        address_change(&client, &ann.access_token).await?;
        let erased_on = client.delete_account(&bob.access_token).await?.erased_on;
        assert_eq!(erased_on.duration_since(server.now()).as_hours(), 14 * 24);
        let succeeded = succeeded.lock().unwrap_or_else(PoisonError::into_inner);
        for row in OPERATIONS {
            assert!(
                succeeded.iter().any(|(method, path)| reaches(method, path, &row.endpoint)),
                "no call of {} succeeded",
                row.id
            );
        }
        Ok(())
    })
}

async fn address_change(client: &Client, token: &AccessToken) -> Result<()> {
    let requested = client.change_address(token, "ann.lee@acme.test").await?;
    assert_eq!(client.read_address_change(token).await?, requested);
    client.stop_address_change(token).await?;
    assert!(client.read_address_change(token).await.is_err());
    Ok(())
}

async fn documents(client: &Client) -> Result<()> {
    assert_eq!(client.server_metadata().await?["response_types_supported"], json!(["code"]));
    assert!(client.resource_metadata().await?.iter().all(|document| document["resource"].is_string()));
    assert!(client.jwks().await?["keys"][0]["kid"].is_string());
    assert!(client.passkey_endpoints().await?["manage"].is_string());
    assert_eq!(client.openapi().await?["openapi"], "3.1.0");
    Ok(())
}

async fn sign_in(server: &TestServer, client: &Client, email: &str) -> Result<TokenResponse> {
    assert!(client.login_options(email, None).await?.contains(&json!({ "type": "otp" })));
    let requested = client.request_otp(email, SERVICE_CLI, None).await?;
    let code = server.mailbox.next_code_to(email).await?;
    server.leaks.register("otp code", &code);
    let entered = EnteredCode { otp_id: requested.otp_id, code: OtpCode::new(code) };
    let tokens = client.exchange_otp(SERVICE_CLI, entered, "read write", None).await?;
    server.leaks.register("access token", tokens.access_token.expose());
    server.leaks.register("refresh token", tokens.refresh_token.expose());
    Ok(tokens)
}

/// Refreshing, revoking, introspecting, and the authorization code grant of a client that registers itself.
async fn oauth(server: &TestServer, client: &Client) -> Result<()> {
    server.advance(61);
    let first = sign_in(server, client, ANN).await?;
    let second = client.refresh(SERVICE_CLI, &first.refresh_token).await?;
    let wanted = ClientToRegister {
        name: "Reports".into(),
        with_secret: true,
        may_introspect: true,
        ..ClientToRegister::default()
    };
    let reports = clients::create(&server.app, &wanted).await?;
    let secret = reports.secret.context("the client has no secret")?;
    let about = AboutToken {
        token: Some(PresentedToken::new(second.access_token.expose().to_owned())),
        client_id: Some(reports.id),
        client_secret: Some(ClientSecret::new(secret.expose().to_owned())),
        ..AboutToken::default()
    };
    assert!(client.introspect(&about).await?.active);
    client.revoke_access(SERVICE_CLI, &second.access_token).await?;
    assert!(!client.introspect(&about).await?.active);
    client.revoke(SERVICE_CLI, &second.refresh_token).await?;

    let metadata = object(json!({ "client_name": "Harbour Planner", "redirect_uris": [CALLBACK] }))?;
    let registered = client.register(&metadata).await?;
    let client_id = registered["client_id"].as_str().context("no client_id")?;
    let address = format!(
        "{}/oauth/authorize?client_id={client_id}&redirect_uri={CALLBACK}&response_type=code&scope=read\
         &state=here&code_challenge={CHALLENGE}&code_challenge_method=S256",
        server.http.url,
    );
    server.advance(61);
    let returned = Tab::open(server)?.agree_to(&server.mailbox, &address, ANN).await?;
    let code = returned.split(['?', '&']).find_map(|pair| pair.strip_prefix("code=")).context("no code")?;
    let verifier = CodeVerifier::new(VERIFIER.to_owned());
    let tokens = client.exchange_code(client_id, OtpCode::new(code.to_owned()), verifier, CALLBACK).await?;
    assert_eq!(tokens.scope, "read");
    Ok(())
}

fn object(value: Value) -> Result<JsonObject> {
    Ok(serde_json::from_value(value)?)
}

async fn contents(client: &Client, token: &AccessToken, kind: Kind) -> Result<()> {
    let mut fields = object(json!({ "name": "Tides" }))?;
    if kind == Kind::Pack {
        fields.insert("type".into(), "context".into());
    }
    let new = NewContent { kind, workspace: None, fields: &fields, idempotency_key: Some(kind.prefix()) };
    let created = client.create_content(token, new).await?.content;
    assert_eq!(client.create_content(token, new).await?.content.id, created.id, "the key created another one");
    let id = &created.id;
    let content = ContentAddress { kind, workspace: None, id };
    assert_eq!(client.list_contents(token, kind, None, None).await?.data.len(), 1);
    let read = client.read_content(token, content).await?;
    assert_eq!(read.content.name(), "Tides");
    let changes = object(json!({ "name": "Harbours" }))?;
    let updated = client.update_content(token, content, &changes, read.version.as_deref()).await?;
    assert_eq!(updated.content.name(), "Harbours");
    assert_ne!(updated.version, read.version);
    let stale = client.update_content(token, content, &changes, read.version.as_deref()).await;
    assert!(stale.is_err_and(|error| error.is_code(ErrorCode::PreconditionFailed)), "an older version was changed");
    client.delete_content(token, content).await?;
    assert_eq!(client.list_deleted_contents(token, kind, None, None).await?.data[0].content.id, *id);
    assert_eq!(client.restore_content(token, content).await?.id, *id);
    Ok(())
}

async fn search(client: &Client, token: &AccessToken) -> Result<()> {
    let search =
        SearchPacks { pack_type: "context".into(), query: "harbours".into(), scopes: None, limit: None, cursor: None };
    assert_eq!(client.search_packs(token, None, &search).await?.data[0].content.name(), "Harbours");
    Ok(())
}

async fn workspaces(server: &TestServer, client: &Client, ann: &TokenResponse, bob: &TokenResponse) -> Result<()> {
    let (ann, bob) = (&ann.access_token, &bob.access_token);
    let acme = client.create_workspace(ann, "Acme").await?.id;
    assert_eq!(client.list_workspaces(ann, None).await?.data[0].id, acme);
    assert_eq!(client.read_workspace(ann, acme).await?.role, Role::Owner);
    assert_eq!(client.rename_workspace(ann, acme, "Acme Works").await?.name, "Acme Works");
    server.sql("update users set requires_passkey = true").await?;
    assert!(client.require_workspace_passkey(ann, acme).await?.requires_passkey);
    client.allow_workspace_codes(ann, acme).await?;
    server.sql("update users set requires_passkey = false").await?;

    let invite = async |workspace: WorkspaceId, email: &str| -> Result<_> {
        // One address may get only a few mails.
        server.sql("delete from rates").await?;
        let invite = Invite { email: email.to_owned(), role: Some(Role::Member) };
        Ok(client.invite(ann, workspace, &invite).await?.id)
    };
    let eve = invite(acme, "eve@acme.test").await?;
    assert_eq!(client.list_invitations(ann, acme).await?.data[0].id, eve);
    client.revoke_invitation(ann, acme, eve).await?;

    let accepted = invite(acme, BOB).await?;
    assert_eq!(client.list_received_invitations(bob, None).await?.data[0].id, accepted);
    assert_eq!(client.accept_invitation(bob, accepted).await?.id, acme);
    let members = client.list_members(ann, acme, None).await?.data;
    let member = members.iter().find(|member| member.email == BOB).context("Bob is no member")?.user_id;
    assert_eq!(client.change_role(ann, acme, member, Role::Viewer).await?.role, Role::Viewer);
    client.remove_member(ann, acme, member).await?;

    let harbour = client.create_workspace(ann, "Harbour").await?.id;
    client.decline_invitation(bob, invite(harbour, BOB).await?).await?;
    let pier = client.create_workspace(ann, "Pier").await?.id;
    assert_eq!(client.block_invitation(bob, invite(pier, BOB).await?).await?.workspace_id, pier);
    assert_eq!(client.list_blocked_workspaces(bob, None).await?.data[0].workspace_id, pier);
    client.unblock_workspace(bob, pier).await?;
    client.delete_workspace(ann, harbour).await?;
    Ok(())
}

async fn connections(client: &Client, token: &AccessToken) -> Result<()> {
    let dock = client.create_workspace(token, "Dock").await?.id;
    let new = serde_json::from_value(json!({ "name": "Acme", "issuer": "https://idp.acme.test" }))?;
    let id = client.create_connection(token, dock, &new).await?.id;
    assert_eq!(client.list_connections(token, dock).await?.data[0].id, id);
    assert!(!client.read_connection(token, dock, id).await?.enabled);
    let update = UpdateConnection { session_hours: Some(8), ..UpdateConnection::default() };
    assert_eq!(client.update_connection(token, dock, id, &update).await?.session_hours, 8);
    assert_eq!(client.connection_impact(token, dock, id).await?.users, 0);

    let claim = ClaimDomain { domain: "Bücher.test".into(), connection_id: None };
    let domain = client.claim_domain(token, dock, &claim).await?.domain;
    assert_eq!(domain, "xn--bcher-kva.test");
    assert_eq!(client.list_domains(token, dock).await?.data[0].status, DomainStatus::Pending);
    assert_eq!(client.update_domain(token, dock, "bücher.test", Some(id)).await?.connection_id, Some(id));
    assert_eq!(client.update_domain(token, dock, &domain, None).await?.connection_id, None);
    assert_eq!(client.verify_domain(token, dock, &domain).await?.status, DomainStatus::Pending);
    client.remove_domain(token, dock, &domain).await?;
    client.delete_connection(token, dock, id).await?;
    Ok(())
}

async fn tokens(client: &Client, token: &AccessToken) -> Result<()> {
    let wanted = CreateCliToken { name: Some("Build server".into()), ..CreateCliToken::default() };
    let created = client.create_cli_token(token, &wanted).await?;
    let rotated = client.rotate_cli_token(token, created.id, &RotateCliToken::default()).await?;
    assert_eq!(client.list_cli_tokens(token, StatusFilter::All, None).await?.data.len(), 2);
    let leaked = PresentedToken::new(rotated.access_token.expose().to_owned());
    assert!(client.report_leaks(&TokenLeaks { tokens: vec![Leaked::Alone(leaked)] }).await?.received);
    client.revoke_cli_token(token, rotated.id).await?;

    let pair = client.create_mcp_tokens(token, &CreateMcpTokens::default()).await?;
    let refresh_token = PresentedToken::new(pair.tokens.refresh_token.expose().to_owned());
    let refreshed = client.refresh_mcp_tokens(token, &RefreshMcpTokens { refresh_token }).await?;
    assert_eq!(refreshed.client_id, pair.client_id);
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_vec();
    let mut answers = client.post_mcp(&refreshed.tokens.access_token, ping, &[]).await?;
    let answer: Value = serde_json::from_slice(&answers.next().await?.context("no answer")?)?;
    assert_eq!(answer["result"], json!({}));
    assert!(answers.next().await?.is_none());
    assert_eq!(client.public("POST", "/mcp", &[("accept", "*/*")], Some("{}")).await?.status, 401);
    Ok(())
}

async fn passkeys(server: &TestServer, client: &Client, ann: &TokenResponse) -> Result<()> {
    let token = &ann.access_token;
    let user_id = client.whoami(token, None).await?.user.id;
    let id = server.make_passkey(user_id, "MacBook").await?;
    assert_eq!(client.list_passkeys(token).await?.data[0].id, id);
    assert_eq!(client.rename_passkey(token, id, "Work laptop").await?.name, "Work laptop");
    let renamed = client.rename_account(token, "Ann Lee").await?;
    assert_eq!((renamed.name.as_deref(), client.read_account(token).await?), (Some("Ann Lee"), renamed.clone()));
    let too_new = client.require_passkey(token).await;
    assert!(too_new.is_err_and(|error| error.is_code(ErrorCode::Conflict)));
    server.sql("update passkeys set counts_from = created_at - interval '1 day'").await?;
    assert!(client.require_passkey(token).await?.requires_passkey);
    client.allow_codes(token).await?;
    let export = client.start_export(token).await?;
    let mut download = client.download_export(token, export.id).await?;
    let mut file = Vec::new();
    while let Some(part) = download.next().await? {
        file.extend(part);
    }
    assert!(file.starts_with(b"PK"), "{file:?}");
    assert_eq!(client.read_export(token, export.id).await?.downloads_left, 4);
    client.remove_passkey(token, id).await?;
    assert!(client.list_passkeys(token).await?.data.is_empty());
    Ok(())
}

async fn sessions(server: &TestServer, client: &Client, ann: &TokenResponse) -> Result<()> {
    let token = &ann.access_token;
    let consent = client.list_consents(token, None).await?.data[0].id;
    client.withdraw_consent(token, consent).await?;
    server.sql("delete from rates").await?;
    sign_in(server, client, ANN).await?;
    let sessions = client.list_sessions(token, None).await?.data;
    let other = sessions.iter().find(|session| !session.current).context("there is one session only")?.id;
    client.end_session(token, other, MadeTreatment::Recommended).await?;
    client.end_other_sessions(token, MadeTreatment::Keep).await?;
    assert_eq!(client.secure_account(token, Some(Vec::new())).await?.sessions, 0);
    assert_eq!(client.list_sessions(token, None).await?.data.len(), 1);
    let events = client.list_audit_events(token, &[("event", Some("session.ended"))]).await?.data;
    assert!(!events.is_empty());
    Ok(())
}
