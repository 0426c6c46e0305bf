//! What a few users do in a day: everything that stores a row. What they create, they delete or never use again.

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::json;
use service_server::crypto::digest::pkce_challenge;
use service_testkit::leaks::Leaks;
use service_testkit::server::{SignedIn, refresh_body, signed_in};
use service_testkit::tab::Tab;

use super::grow_account::change_accounts;
use super::grow_users::{CALLBACK, UsersOfDays};

const OWNER: &str = "ann@acme.test";
const MEMBER: &str = "bob@acme.test";
const GUEST: &str = "carl@acme.test";
const VERIFIER: &str = "a-verifier-of-forty-three-characters-or-more";

/// Lets everything happen that happens in a day.
pub(super) async fn spend_day(users: &mut UsersOfDays, day: u32) -> Result<()> {
    let owner = users.sign_in(OWNER).await?;
    let member = users.sign_in(MEMBER).await?;
    for user in [&owner, &member] {
        use_credentials(users, user).await?;
        write_content(users, user, day).await?;
    }
    share_a_workspace(users, &owner, &member, day).await?;
    change_accounts(users, &owner, day).await?;
    let app = match users.app.take() {
        Some(app) => app,
        None => users.register_app().await?,
    };
    use_app(users, &app).await?;
    users.app = Some(app);
    // Strangers register an app, and request a code, and that is all that they do.
    users.register_app().await?;
    users.http.post("/v1/otp-tokens", &json!({ "email": format!("stranger{day}@acme.test") })).await?;
    users.mailbox.clear();
    Ok(())
}

/// Refreshes the session, creates CLI tokens and an MCP pair, and revokes some of them.
async fn use_credentials(users: &UsersOfDays, user: &SignedIn) -> Result<()> {
    let refreshed = signed_in(&users.http.post("/oauth/token", &refresh_body(&user.refresh_token)).await?)?;
    // A stolen token: the session is revoked.
    let stolen = users.sign_in(GUEST).await?;
    let newer = signed_in(&users.http.post("/oauth/token", &refresh_body(&stolen.refresh_token)).await?)?;
    signed_in(&users.http.post("/oauth/token", &refresh_body(&newer.refresh_token)).await?)?;
    let replayed = users.http.post("/oauth/token", &refresh_body(&stolen.refresh_token)).await?;
    ensure!(replayed.status == 400, "a replay got {} {}", replayed.status, replayed.text);
    let kept = users.send(&refreshed, Method::POST, "/v1/cli/tokens", Some(json!({ "scopes": ["read"] }))).await?;
    let used = users.http.get("/v1/whoami", Some(kept.field("access_token"))).await?;
    ensure!(used.status == 200, "a CLI token does not work: {}", used.text);
    let revoked = users.create(&refreshed, "/v1/cli/tokens", json!({ "scopes": ["read"] })).await?;
    users.delete(&refreshed, &format!("/v1/cli/tokens/{revoked}")).await?;
    let pair = users.send(&refreshed, Method::POST, "/v1/mcp/tokens", Some(json!({ "scope": "read write" }))).await?;
    let pack = users.create(&refreshed, "/v1/packs", json!({ "name": "Tone", "type": "context" })).await?;
    // A deletion that an MCP client asks for waits for the user.
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "delete_pack", "arguments": { "packId": pack } },
    });
    let request = users.http.request(Method::POST, "/mcp").bearer_auth(pair.field("access_token"));
    let request = request.header("accept", "application/json, text/event-stream");
    let asked = users.http.send(request.header("mcp-protocol-version", "2025-11-25").json(&call)).await?;
    ensure!(asked.status == 200, "MCP: {} {}", asked.status, asked.text);
    users.delete(&refreshed, &format!("/v1/packs/{pack}")).await
}

/// Creates content, once with an idempotency key, and deletes it.
async fn write_content(users: &UsersOfDays, user: &SignedIn, day: u32) -> Result<()> {
    let project = users.create(user, "/v1/projects", json!({ "name": "Website" })).await?;
    users.delete(user, &format!("/v1/projects/{project}")).await?;
    let request = users.http.request(Method::POST, "/v1/projects").header("Idempotency-Key", format!("day-{day}"));
    let once = users.http.send(request.bearer_auth(&user.access_token).json(&json!({ "name": "Once" }))).await?;
    users.delete(user, &format!("/v1/projects/{}", once.field("id"))).await
}

/// A workspace for a day: members join, content is created, others are invited in vain, and it is deleted.
async fn share_a_workspace(users: &UsersOfDays, owner: &SignedIn, member: &SignedIn, day: u32) -> Result<()> {
    let workspace = users.create(owner, "/v1/workspaces", json!({ "name": "Harbour" })).await?;
    let path = format!("/v1/workspaces/{workspace}");
    let invitation = |email: &str| json!({ "email": email, "role": "member" });
    let invitations = format!("{path}/invitations");
    let accepted = users.create(owner, &invitations, invitation(MEMBER)).await?;
    users.send(member, Method::POST, &format!("/v1/invitations/{accepted}/accept"), None).await?;
    let blocked = users.create(owner, &invitations, invitation(GUEST)).await?;
    let guest = users.sign_in(GUEST).await?;
    users.send(&guest, Method::POST, &format!("/v1/invitations/{blocked}/block"), None).await?;
    users.create(owner, &invitations, invitation(&format!("newcomer{day}@acme.test"))).await?;
    users.create(member, &format!("/v1/cases?workspaceId={workspace}"), json!({ "name": "Pump 4" })).await?;
    users.delete(owner, &path).await
}

/// Signs in to an app in a browser that is new.
async fn use_app(users: &UsersOfDays, app: &str) -> Result<()> {
    let tab = Tab::at(&users.http.url, &Leaks::default())?;
    let challenge = pkce_challenge(VERIFIER);
    let query =
        format!("redirect_uri=https%3A%2F%2Fapp.test%2Fcb&response_type=code&scope=read&state=x&client_id={app}");
    let begun =
        tab.get(&format!("/oauth/authorize?{query}&code_challenge={challenge}&code_challenge_method=S256")).await?;
    let mut shown = tab.sign_in(&users.mailbox, begun.next()?, OWNER).await?;
    if shown.next()?.starts_with("/consent/") {
        let consent = shown.next()?.to_owned();
        tab.get(&consent).await?;
        shown = tab.submit(&consent, &[("decision", "allow"), ("space", "personal")]).await?;
    }
    let code = shown.parameter("code").with_context(|| format!("no code: {}", shown.text))?;
    let body = json!({
        "grant_type": "authorization_code", "client_id": app, "code": code,
        "redirect_uri": CALLBACK, "code_verifier": VERIFIER,
    });
    signed_in(&users.http.post("/oauth/token", &body).await?).map(drop)
}
