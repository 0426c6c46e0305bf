//! What a session made, and what becomes of it when the session is revoked.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use reqwest::Method;
use serde_json::{Value, json};
use service_api::{sessions::MadeTreatment, workspaces::Role};
use service_rules::{
    email::Address,
    lineage::{self, Event, Made, consequence},
    signing::later,
};
use service_server::flows::{operator::Operator, revocation, support};
use service_testkit::{
    process::Process,
    response::{TestClient, TestResponse},
    server::{Setup, SignedIn, TestServer, otp_exchange, refresh_body, request_code, signed_in, with_server},
    tab::Tab,
};

use crate::support::{
    cli_tokens::{check, make, whoami},
    mcp_tokens::{pair, refresh, taken},
    refresh::{check_refused, refreshed},
};

const SERVICED: &str = env!("CARGO_BIN_EXE_serviced");

const REPLAYED: &str = "We signed you out to protect your account";

/// The next mail with this subject; others before it are passed over.
async fn mail(server: &TestServer, to: &str, subject: &str) -> Result<String> {
    loop {
        let mail = server.mailbox.next_mail_to(to).await?;
        if mail.subject == subject {
            return Ok(mail.text);
        }
    }
}

/// What a session made: a CLI token, an MCP pair and an invitation.
struct Loot {
    cli: String,
    mcp: SignedIn,
}

async fn sign_in_at(server: &TestServer, http: &TestClient, email: &str) -> Result<SignedIn> {
    let (otp_id, code) = request_code(http, &server.mailbox, &server.leaks, email).await?;
    signed_in(&http.post("/oauth/token", &otp_exchange(&otp_id, &code, "read write")).await?)
}

async fn send(http: &TestClient, method: Method, path: &str, by: &str, body: &Value) -> Result<TestResponse> {
    let request = http.request(method, path).bearer_auth(by);
    http.send(if body.is_null() { request } else { request.json(body) }).await
}

/// Makes whatever a session can make.
async fn plunder(http: &TestClient, session: &SignedIn, workspace: &str, guest: &str) -> Result<Loot> {
    let by = &session.access_token;
    let cli = send(http, Method::POST, "/v1/cli/tokens", by, &json!({ "name": "loot" })).await?;
    let mcp = send(http, Method::POST, "/v1/mcp/tokens", by, &json!({})).await?;
    let path = format!("/v1/workspaces/{workspace}/invitations");
    let invited = send(http, Method::POST, &path, by, &json!({ "email": guest, "role": "owner" })).await?;
    for response in [&cli, &mcp, &invited] {
        ensure!(response.status == 201, "{}", response.text);
    }
    Ok(Loot { cli: cli.field("access_token").to_owned(), mcp: taken(&mcp)? })
}

/// How long after this moment a node still accepts something of the loot.
async fn last_accepted(node: &Process, loot: &Loot, since: Instant) -> Result<Duration> {
    let mut last = Duration::ZERO;
    loop {
        let sent = since.elapsed();
        let cli = node.http.get("/v1/whoami", Some(&loot.cli)).await?.status;
        let body = json!({ "refresh_token": loot.mcp.refresh_token });
        let mcp = send(&node.http, Method::POST, "/v1/mcp/tokens/refresh", &loot.mcp.access_token, &body).await?;
        ensure!(mcp.status == 400 || mcp.status == 401, "the pair is refreshed: {}", mcp.text);
        if cli == 401 && mcp.status == 401 {
            return Ok(last);
        }
        last = sent;
        ensure!(last < Duration::from_secs(10), "the loot is accepted for ever");
    }
}

#[test]
fn what_a_stolen_session_made_is_dead_on_every_node_once_the_theft_is_noticed_rv_05() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let nodes: Vec<_> = (0..3)
            .map(|_| Process::start(Path::new(SERVICED), &server.settings, &server.leaks))
            .collect::<Result<_>>()?;
        let ann = sign_in_at(server, &nodes[0].http, "ann@acme.test").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?.to_string();
        let loot = plunder(&nodes[1].http, &ann, &acme, "bob@acme.test").await?;
        for node in &nodes {
            ensure!(node.http.get("/v1/whoami", Some(&loot.cli)).await?.status == 200, "it does not work at first");
        }
        // An attacker refreshes the session; its owner comes back with the token from before.
        let mut newest = ann.refresh_token.clone();
        for _ in 0..2 {
            newest = signed_in(&nodes[1].http.post("/oauth/token", &refresh_body(&newest)).await?)?.refresh_token;
        }
        let replayed = nodes[2].http.post("/oauth/token", &refresh_body(&ann.refresh_token)).await?;
        check_refused(&replayed, Some("replayed"));
        let noticed = Instant::now();
        let last = try_join_all(nodes.iter().map(|node| last_accepted(node, &loot, noticed))).await?;
        let last = last.into_iter().max().unwrap_or_default();
        println!("the loot was accepted for {last:?} after the replay was answered");
        assert!(last <= Duration::from_secs(1), "{last:?}");

        let text = mail(server, "ann@acme.test", REPLAYED).await?;
        for made in ["CLI token loot", "MCP token pair, created", "Invitation for bob@acme.test"] {
            assert!(text.contains(made), "{made} is not in the mail: {text}");
        }
        server.sql("delete from recent_hits").await?;
        let again = sign_in_at(server, &nodes[0].http, "ann@acme.test").await?;
        for node in &nodes {
            let path = format!("/v1/workspaces/{acme}/invitations");
            let listed = node.http.get(&path, Some(&again.access_token)).await?;
            assert_eq!(listed.body["data"], json!([]), "{}", listed.text);
        }
        let tab = Tab::at(&nodes[0].http.url, &server.leaks)?;
        server.sql("delete from recent_hits").await?;
        let begun = tab.get("/sign-in").await?;
        tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let text = tab.get("/account/activity").await?.text;
        for made in ["CLI token", "MCP token pair", "Invitation"] {
            assert!(text.contains(&format!("{made} ")), "{made} is not on the page: {text}");
        }
        for node in &nodes {
            server.leaks.assert_clean("a node's log", &node.log());
        }
        Ok(())
    })
}

/// Lets something happen to a session, through the door that it happens at.
async fn happen(server: &TestServer, event: Event, session: &SignedIn, other: &SignedIn, email: &str) -> Result<()> {
    let first = &session.refresh_token;
    match event {
        Event::Replayed => {
            let second = refreshed(server, first).await?;
            refreshed(server, &second.refresh_token).await?;
            check_refused(&server.refresh(first).await?, Some("replayed"));
        }
        Event::Superseded => {
            let second = refreshed(server, first).await?;
            server.advance(61);
            refreshed(server, first).await?;
            check_refused(&server.refresh(&second.refresh_token).await?, Some("superseded"));
        }
        Event::Leaked => {
            let response = server.http.post("/v1/token-leaks", &json!({ "tokens": [first] })).await?;
            assert_eq!(response.status, 202);
        }
        Event::RevokedByUser(made) => {
            let path = format!("/v1/sessions/{}?made={}", session.grant_id, made.as_str());
            let response = send(&server.http, Method::DELETE, &path, &other.access_token, &Value::Null).await?;
            assert_eq!(response.status, 204, "{}", response.text);
        }
        Event::SignedOut => {
            let body = json!({ "token": first, "client_id": "service-cli" });
            assert_eq!(server.http.post("/oauth/revoke", &body).await?.status, 200);
        }
        Event::RevokedByOperator => {
            let address = Address::parse(email).ok().context("no address")?;
            revocation::sign_out_user(&server.app, &Operator::default(), &address).await?;
        }
        Event::SingledOutByOperator => {
            let operator = Operator::default().because("ticket 4711").and_then(support::SupportOperator::new);
            let id = session.grant_id.to_string();
            support::sessions::revoke(&server.app, &operator.context("no reason")?, &id).await?;
        }
        Event::Expired => {
            let grant = session.grant_id.to_string();
            let id = service_api::ids::Id::uuid(grant.parse::<service_api::ids::GrantId>()?);
            server.sql(&format!("update grants set expires_at = rotated_at where id = '{id}'")).await?;
            check_refused(&server.refresh(first).await?, Some("expired"));
        }
    }
    Ok(())
}

/// Makes a CLI token look as if it had been made so many days ago.
async fn age(server: &TestServer, id: &str, days: i64) -> Result<()> {
    let id = service_api::ids::Id::uuid(id.parse::<service_api::ids::CliTokenId>()?);
    let statement = format!("update cli_tokens set created_at = created_at - interval '{days} days' where id = '{id}'");
    server.sql(&statement).await.map(drop)
}

#[test]
fn every_row_of_the_table_is_what_happens_rv_05() -> Result<()> {
    with_server(async |server| {
        for (number, event) in Event::ALL.into_iter().enumerate() {
            let email = format!("user{number}@acme.test");
            let session = server.sign_in(&email, "read write").await?;
            let owner = server.sign_in(&format!("owner{number}@acme.test"), "read write").await?;
            server.advance(120);
            let other = server.sign_in(&email, "read write").await?;
            let members = [(session.user_id, Role::Owner), (owner.user_id, Role::Owner)];
            let acme = server.make_workspace("Acme", &members).await?.to_string();
            let loot = plunder(&server.http, &session, &acme, &format!("guest{number}@acme.test")).await?;
            let (_, used) = make(server, &session, &json!({ "name": "used" })).await?;
            assert_eq!(whoami(server, &used).await?.status, 200);
            service_server::tasks::housekeeping::record_uses_once(&server.app).await?;
            let (old_id, old) = make(server, &session, &json!({ "name": "old" })).await?;
            age(server, &old_id, 40).await?;
            happen(server, event, &session, &other, &email).await?;

            let now = server.now();
            let fate = |made, made_at, used_at| consequence(event, made).revokes(made_at, used_at, now);
            let cell = |what: &str| format!("{event:?}: {what}");
            for (name, token, made_at, used_at) in [
                ("a new CLI token", &loot.cli, now, None),
                ("a CLI token in use", &used, now, Some(now)),
                ("an old CLI token", &old, later(now, -40 * 86_400), None),
            ] {
                let dead = whoami(server, token).await?.status == 401;
                assert_eq!(dead, fate(Made::CliToken, made_at, used_at), "{}", cell(name));
            }
            let refreshed = refresh(server, &loot.mcp.access_token, &loot.mcp.refresh_token).await?;
            assert_eq!(!refreshed.status.is_success(), fate(Made::McpPair, now, None), "{}", cell("the MCP pair"));
            let path = format!("/v1/workspaces/{acme}/invitations");
            let listed = server.http.get(&path, Some(&owner.access_token)).await?;
            let gone = listed.body["data"].as_array().context("no list")?.is_empty();
            assert_eq!(gone, fate(Made::Invitation, now, None), "{}", cell("the invitation"));
            server.advance(120);
        }
        Ok(())
    })
}

#[test]
fn a_replay_of_a_session_that_was_over_revokes_what_it_made_once_rv_05() -> Result<()> {
    with_server(async |server| {
        let thief = server.sign_in("ann@acme.test", "read write").await?;
        let (_, cli) = make(server, &thief, &json!({ "name": "loot" })).await?;
        let second = refreshed(server, &thief.refresh_token).await?;
        refreshed(server, &second.refresh_token).await?;
        server.advance(61);
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        happen(server, Event::RevokedByUser(MadeTreatment::Keep), &thief, &ann, "ann@acme.test").await?;
        assert_eq!(whoami(server, &cli).await?.status, 200);
        for _ in 0..3 {
            check_refused(&server.refresh(&thief.refresh_token).await?, Some("revoked_by_user"));
        }
        let dead = whoami(server, &cli).await?;
        check(&dead, 401, "invalid_token");
        assert_eq!(dead.body["details"]["reason"], "replayed");
        assert!(mail(server, "ann@acme.test", REPLAYED).await?.contains("CLI token loot"));
        let replays = server.sql("select count(*) from audit_events where event = 'refresh.replay'").await?;
        assert_eq!(replays.as_deref(), Some("1"), "it was noticed more than once");
        // The session that asked for nothing of this goes on.
        assert_eq!(whoami(server, &ann.access_token).await?.status, 200);
        Ok(())
    })
}

#[test]
fn older_tokens_of_a_compromised_session_stay_and_one_button_revokes_them_rv_05() -> Result<()> {
    with_server(async |server| {
        let thief = server.sign_in("ann@acme.test", "read write").await?;
        let (id, old) = make(server, &thief, &json!({ "name": "from long ago" })).await?;
        age(server, &id, 40).await?;
        let other = server.sign_in("bob@acme.test", "read write").await?;
        happen(server, Event::Replayed, &thief, &other, "ann@acme.test").await?;
        assert_eq!(whoami(server, &old).await?.status, 200);
        let text = mail(server, "ann@acme.test", REPLAYED).await?;
        assert!(text.contains("still work") && text.contains("CLI token from long ago"), "{text}");

        server.advance(61);
        let tab = Tab::open(server)?;
        let begun = tab.get("/sign-in").await?;
        tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        server.advance(1);
        let young =
            tab.submit("/account/tokens", &[("name", "young"), ("space", "personal"), ("read", "true"), ("days", "9")]);
        tab.get("/account/tokens").await?;
        assert_eq!(young.await?.status, 201);
        let page = tab.get("/account/tokens").await?;
        let place = |text: &str| page.text.find(text).with_context(|| format!("{text}: {}", page.text));
        assert!(place("from long ago")? < place("<bdi>young</bdi>")?, "what is suspected does not come first");
        assert!(page.text.contains("Created by a compromised session"), "{}", page.text);
        let path = "/account/suspected-tokens/revoke";
        assert!(page.text.contains(&format!("href=\"{path}\"")) && !page.text.contains(&format!("action=\"{path}\"")));
        let question = tab.get(path).await?;
        for said in ["Revoke these tokens?", "<bdi>from long ago ", "href=\"/account/tokens\">Cancel</a>"] {
            assert!(question.text.contains(said), "{said}: {}", question.text);
        }
        assert!(!question.text.contains("young"), "{}", question.text);
        assert_eq!(whoami(server, &old).await?.status, 200, "asking revokes");
        assert_eq!(Tab::open(server)?.get(path).await?.next()?, "/sign-in");
        let done = tab.submit(path, &[]).await?;
        assert!(tab.get(done.next()?).await?.text.contains("role=\"status\">Tokens revoked.</p>"));
        assert_eq!(tab.get(path).await?.next()?, "/account/tokens", "nothing is left to ask");
        assert_eq!(whoami(server, &old).await?.status, 401);
        assert!(!tab.get("/account/tokens").await?.text.contains("Created by a compromised session"));
        Ok(())
    })
}

#[test]
fn the_account_page_says_what_a_session_made_and_asks_what_becomes_of_it_rv_05() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (_, cli) = make(server, &ann, &json!({ "name": "deploy" })).await?;
        let mcp = pair(server, &ann, &json!({})).await?;
        let made = mail(server, "ann@acme.test", "New MCP client connected").await?;
        assert!(made.contains("127.0.0.1"), "{made}");
        server.advance(61);
        let tab = Tab::open(server)?;
        let begun = tab.get("/sign-in").await?;
        tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let page = tab.get("/account/sessions").await?;
        let path = format!("/account/sessions/{}/end", ann.grant_id);
        let question = tab.get(&path).await?;
        for expected in ["CLI token deploy", "MCP token pair, created"] {
            for page in [&page, &question] {
                assert!(page.text.contains(expected), "{expected}: {}", page.text);
            }
        }
        assert!(question.text.contains("name=\"made\""), "{}", question.text);
        tab.submit(&path, &[("made", "revoke")]).await?;
        assert_eq!(whoami(server, &cli).await?.status, 401);
        check(&refresh(server, &mcp.access_token, &mcp.refresh_token).await?, 401, "invalid_token");
        let events = "event in ('cli_token.created', 'mcp_tokens.created')";
        let makers = format!("select string_agg(details->>'madeBy', ' ') from audit_events where {events}");
        let listed = server.sql(&makers);
        let actor = ann.grant_id.to_string();
        assert_eq!(listed.await?, Some(format!("{actor} {actor}")));
        Ok(())
    })
}

#[test]
fn the_documentation_prints_the_table_rv_05() -> Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/decisions/0024-lineage.md");
    let text = std::fs::read_to_string(page)?;
    assert!(text.contains(&lineage::table()), "docs/decisions/0024-lineage.md should hold:\n{}", lineage::table());
    Ok(())
}

#[test]
fn signing_out_everywhere_revokes_what_browsers_made_rv_05() -> Result<()> {
    with_server(async |server| {
        let tab = Tab::open(server)?;
        let begun = tab.get("/sign-in").await?;
        tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        tab.get("/account/tokens").await?;
        let wanted = [("name", "deploy"), ("space", "personal"), ("read", "true"), ("days", "9")];
        assert_eq!(tab.submit("/account/tokens", &wanted).await?.status, 201);
        let alive = "select count(*) from cli_tokens where revoked_at is null";
        assert_eq!(server.sql(alive).await?.as_deref(), Some("1"));
        tab.get("/account/sessions").await?;
        assert_eq!(tab.submit("/account/sessions/end-all", &[]).await?.next()?, "/sign-in");
        assert_eq!(server.sql(alive).await?.as_deref(), Some("0"));
        Ok(())
    })
}

/// Signs in with the command by a code; the session, and the body by which the code was exchanged.
async fn sign_in_by_code(server: &TestServer, email: &str) -> Result<(SignedIn, Value)> {
    let tab = Tab::open(server)?;
    let at = "http://127.0.0.1:5000/callback";
    let address = crate::support::authorize::asking("service-cli", &[("redirect_uri", at), ("scope", "read write")]);
    let done = crate::support::authorize::go_through(server, &tab, &address, email).await?;
    let mut body = crate::support::authorize::exchange("service-cli", &crate::support::authorize::code(&done)?);
    body["redirect_uri"] = json!(at);
    Ok((signed_in(&server.http.post("/oauth/token", &body).await?)?, body))
}

#[test]
fn a_code_that_comes_back_revokes_what_its_session_made_and_its_user_hears_of_it_rv_05() -> Result<()> {
    with_server(async |server| {
        let (ann, body) = sign_in_by_code(server, "ann@acme.test").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?.to_string();
        let loot = plunder(&server.http, &ann, &acme, "bob@acme.test").await?;
        for _ in 0..2 {
            check_refused(&server.http.post("/oauth/token", &body).await?, None);
        }
        check(&whoami(server, &loot.cli).await?, 401, "invalid_token");
        let text = mail(server, "ann@acme.test", REPLAYED).await?;
        for made in ["CLI token loot", "MCP token pair, created", "Invitation for bob@acme.test"] {
            assert!(text.contains(made), "{made} is not in the mail: {text}");
        }
        assert_eq!(server.mailbox.mails().iter().filter(|mail| mail.subject == REPLAYED).count(), 1);
        Ok(())
    })
}

#[test]
fn a_code_that_comes_back_after_sign_out_follows_the_lineage_rv_05() -> Result<()> {
    with_server(async |server| {
        let (ann, body) = sign_in_by_code(server, "ann@acme.test").await?;
        let (_, cli) = make(server, &ann, &json!({ "name": "loot" })).await?;
        let given = json!({ "token": ann.refresh_token, "client_id": "service-cli" });
        assert_eq!(server.http.post("/oauth/revoke", &given).await?.status, 200);
        assert_eq!(whoami(server, &cli).await?.status, 200, "signing out leaves it alone");
        check_refused(&server.http.post("/oauth/token", &body).await?, None);
        check(&whoami(server, &cli).await?, 401, "invalid_token");
        assert!(mail(server, "ann@acme.test", REPLAYED).await?.contains("CLI token loot"));
        let recorded = "select count(*) from audit_events where event = 'code.replayed'";
        assert_eq!(server.sql(recorded).await?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn an_old_token_that_is_given_back_while_its_session_is_revoked_follows_the_lineage_rv_05() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (_, cli) = make(server, &ann, &json!({ "name": "loot" })).await?;
        let mut newest = ann.refresh_token.clone();
        for _ in 0..2 {
            newest = refreshed(server, &newest).await?.refresh_token;
        }
        let held = server.app.database.begin().await?;
        held.execute("select from grants for update", &[]).await?;
        let meanwhile = async {
            while server.sql("select count(*) from pg_locks where not granted").await?.as_deref() == Some("0") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            held.execute("update grants set revoked_at = created_at, revoked_because = 'revoked_by_user'", &[]).await?;
            Ok(held.commit().await?)
        };
        let given = json!({ "token": ann.refresh_token, "client_id": "service-cli" });
        let giving = server.http.post("/oauth/revoke", &given);
        let (response, ()) = tokio::try_join!(giving, meanwhile)?;
        assert_eq!(response.status, 200, "{}", response.text);
        check(&whoami(server, &cli).await?, 401, "invalid_token");
        assert!(mail(server, "ann@acme.test", REPLAYED).await?.contains("CLI token loot"));
        Ok(())
    })
}

#[test]
fn an_invitation_of_another_user_is_no_part_of_a_lineage_rv_05() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) = (
            server.sign_in("ann@acme.test", "read write").await?,
            server.sign_in("bob@acme.test", "read write").await?,
        );
        let members = [(ann.user_id, Role::Owner), (bob.user_id, Role::Owner)];
        let acme = server.make_workspace("Acme", &members).await?.to_string();
        let path = format!("/v1/workspaces/{acme}/invitations");
        for (by, guest) in [(&ann, "cid@acme.test"), (&bob, "dee@acme.test")] {
            let invited = send(&server.http, Method::POST, &path, &by.access_token, &json!({ "email": guest })).await?;
            assert_eq!(invited.status, 201, "{}", invited.text);
        }
        // Whatever the table says of its maker, what another user sent is theirs.
        server.sql(&format!("update invitations set made_by = '{}'", ann.grant_id)).await?;
        let second = refreshed(server, &ann.refresh_token).await?;
        refreshed(server, &second.refresh_token).await?;
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("replayed"));
        let listed = server.http.get(&path, Some(&bob.access_token)).await?;
        let left: Vec<_> = listed.body["data"].as_array().context("no list")?.iter().map(|one| &one["email"]).collect();
        assert_eq!(left, ["dee@acme.test"], "{}", listed.text);
        let text = mail(server, "ann@acme.test", REPLAYED).await?;
        assert!(text.contains("cid@acme.test") && !text.contains("dee@acme.test"), "{text}");
        Ok(())
    })
}

#[test]
fn what_a_session_made_is_revoked_by_few_statements_rv_05() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let acme = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?.to_string();
        plunder(&server.http, &ann, &acme, "bob@acme.test").await?;
        let mut tokens = Vec::new();
        for _ in 0..20 {
            tokens.push(make(server, &ann, &json!({ "name": "loot" })).await?.1);
        }
        let second = refreshed(server, &ann.refresh_token).await?;
        refreshed(server, &second.refresh_token).await?;
        let since = server.cluster.logged();
        check_refused(&server.refresh(&ann.refresh_token).await?, Some("replayed"));
        for token in &tokens {
            let dead = whoami(server, token).await?;
            check(&dead, 401, "invalid_token");
            assert_eq!(dead.body["details"]["reason"], "replayed");
        }
        for (part, times) in
            [("update cli_tokens set revoked_at", 1), ("insert into revocations", 1), ("insert into audit_events", 2)]
        {
            assert_eq!(crate::support::bearer::statements_with(server, since, part)?, times, "{part}");
        }
        let recorded = "select count(distinct subject) from audit_events where details->>'reason' = 'replayed'
                           and event = 'cli_token.revoked' and user_id is not null and sealed_address is not null";
        assert_eq!(server.sql(recorded).await?.as_deref(), Some("21"));
        Ok(())
    })
}
