//! What is in an export: what the API shows, what only tables hold, and nothing else.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_api::ids::Id as _;
use service_server::store;
use service_testkit::server::{Setup, SignedIn, TestServer, with_server};

use crate::support::{
    admin::{admin, run, with_reason},
    authorize::{CALLBACK, asking, go_through, register},
    cli_tokens,
    contents::{kinds, make, send},
    exports::{Files, begin, export, fill, raw_files, started, unzip},
    mcp, mcp_tokens,
    new_sign_ins::{ANN, HOUR},
    passkeys::signed_in_tab,
    workspaces,
};

const BOB: &str = "bob@acme.test";

/// Ann, who used everything. Returns a session that she has just opened.
async fn ann(server: &TestServer) -> Result<SignedIn> {
    let old = server.sign_in(ANN, "read write").await?;
    server.make_passkey(old.user_id, "Laptop").await?;
    server.sql("update passkeys set counts_from = counts_from + interval '1 year'").await?;
    server.advance(HOUR);
    let tab = signed_in_tab(server, ANN).await?;
    let ann = server.sign_in(ANN, "read write").await?;
    ensure!(send(server, "DELETE", &format!("/v1/sessions/{}", old.grant_id), &ann, None).await?.status == 204);
    cli_tokens::make(server, &ann, &json!({ "name": "Build server", "scopes": ["read"] })).await?;
    let (revoked, _) = cli_tokens::make(server, &ann, &json!({ "name": "Old script" })).await?;
    ensure!(send(server, "DELETE", &format!("/v1/cli/tokens/{revoked}"), &ann, None).await?.status == 204);
    let pair = mcp_tokens::pair(server, &ann, &json!({ "scope": "read write" })).await?;
    let client = register(server, "Planner", &[CALLBACK]).await?;
    go_through(server, &tab, &asking(&client, &[]), ANN).await?;
    contents(server, &ann).await?;
    let (asked, _) = make(server, "/v1/packs", &ann, &json!({ "name": "Tone", "type": "context" })).await?;
    mcp::refused(server, &pair.access_token, "delete_pack", &json!({ "packId": asked })).await?;
    memberships(server, &ann).await?;
    let (connection, now) = (ann.user_id.uuid(), server.now());
    server
        .sql(&format!(
            "insert into identities values ('{connection}', 'sub-of-ann', 7, '{connection}', 'ann@corp.test', '{now}', '{now}');
             insert into user_connections values ('{connection}', shard_of('{connection}'), '{connection}', 'sub-of-ann', '{now}', '{now}')"
        ))
        .await?;
    Ok(ann)
}

/// Three contents of each kind in Ann's personal space, one of them deleted.
async fn contents(server: &TestServer, ann: &SignedIn) -> Result<()> {
    for (_, path, body) in kinds() {
        for _ in 0..2 {
            make(server, path, ann, &body).await?;
        }
        let (gone, _) = make(server, path, ann, &body).await?;
        ensure!(send(server, "DELETE", &format!("{path}/{gone}"), ann, None).await?.status == 204, "{path}");
    }
    Ok(())
}

/// Workspaces of Ann, one that she left, and invitations of every kind.
async fn memberships(server: &TestServer, ann: &SignedIn) -> Result<()> {
    let own = workspaces::make(server, ann, "Harbour").await?;
    workspaces::invite(server, ann, &own, BOB, "member").await?;
    let bob = workspaces::join(server, BOB).await?;
    workspaces::invite(server, ann, &own, "dave@acme.test", "member").await?;
    make(server, &format!("/v1/projects?workspaceId={own}"), &bob, &json!({ "name": "Secret of Bob" })).await?;
    make(server, "/v1/projects", &bob, &json!({ "name": "Secret of Bob" })).await?;
    cli_tokens::make(server, &bob, &json!({ "name": "Token of Bob" })).await?;
    let left = workspaces::make(server, &bob, "Left").await?;
    workspaces::invite(server, &bob, &left, ANN, "member").await?;
    ensure!(workspaces::accept_all(server, ann).await? == 1, "Ann did not join");
    let own_row = format!("/v1/workspaces/{left}/members/{}", ann.user_id);
    ensure!(send(server, "DELETE", &own_row, ann, None).await?.status == 204, "Ann did not leave");
    let blocked = workspaces::make(server, &bob, "Blocked").await?;
    let invitation = workspaces::invite(server, &bob, &blocked, ANN, "member").await?;
    let block = format!("/v1/invitations/{invitation}/block");
    ensure!(send(server, "POST", &block, ann, None).await?.status == 200, "not blocked");
    let waiting = workspaces::make(server, &bob, "Waiting").await?;
    workspaces::invite(server, &bob, &waiting, ANN, "viewer").await.map(drop)
}

/// Everything that a list of the API has.
async fn listed(server: &TestServer, who: &SignedIn, path: &str) -> Result<Vec<Value>> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let and = if path.contains('?') { '&' } else { '?' };
        let page = server.http.get(&format!("{path}{and}limit=2{cursor}"), Some(&who.access_token)).await?;
        ensure!(page.status == 200, "{path}: {}", page.text);
        all.extend(page.body["data"].as_array().context("no list")?.iter().cloned());
        match page.body["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(all),
        }
    }
}

fn entries(files: &Files, name: &str) -> Result<Vec<Value>> {
    Ok(files.get(name).and_then(Value::as_array).with_context(|| format!("no list {name}"))?.clone())
}

/// Whether an entry has everything that the API shows of it.
fn has(entry: &Value, shown: &Value) -> bool {
    match (entry, shown) {
        (Value::Object(entry), Value::Object(shown)) => {
            shown.iter().all(|(name, value)| entry.get(name).is_some_and(|found| has(found, value)))
        }
        (entry, shown) => entry == shown,
    }
}

#[test]
fn files_show_what_the_api_lists_ex_01() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        let files = export(server, &ann).await?;
        for (file, path) in [
            ("sessions.json", "/v1/sessions"),
            ("cli-tokens.json", "/v1/cli/tokens?status=all"),
            ("workspaces.json", "/v1/workspaces"),
            ("received-invitations.json", "/v1/invitations"),
            ("blocked-workspaces.json", "/v1/blocked-workspaces"),
            ("apps.json", "/v1/consents"),
            ("audit-events.json", "/v1/audit-events"),
        ] {
            let shown = listed(server, &ann, path).await?;
            ensure!(!shown.is_empty(), "{path} lists nothing");
            assert_eq!(entries(&files, file)?, shown, "{file}");
        }
        let passkeys = server.http.get("/v1/account/passkeys", Some(&ann.access_token)).await?;
        assert_eq!(files["passkeys.json"], passkeys.body["data"]);
        for (_, path, _) in kinds() {
            let name = path.rsplit('/').next().unwrap_or_default();
            let shown = listed(server, &ann, &format!("{path}?workspaceId=personal")).await?;
            ensure!(shown.len() >= 2, "{path}");
            assert_eq!(entries(&files, &format!("contents/{name}.json"))?, shown, "{name}");
            let deleted = listed(server, &ann, &format!("{path}/deleted?workspaceId=personal")).await?;
            let found = entries(&files, &format!("deleted/{name}.json"))?;
            assert_eq!((deleted.len(), found.len()), (1, 1), "{name}");
            assert!(has(&found[0], &deleted[0]), "{name}: {} {}", found[0], deleted[0]);
        }
        let sessions = server.http.get("/v1/sessions", Some(&ann.access_token)).await?;
        let (browsers, shown) = (entries(&files, "browsers.json")?, &sessions.body["browsers"]);
        assert_eq!(browsers.len(), shown.as_array().map_or(0, Vec::len));
        assert!(browsers.len() == 1 && has(&browsers[0], &shown[0]), "{browsers:?} {shown}");
        let index = &files["index.json"];
        let counts = index["files"].as_array().context("no files")?;
        assert_eq!(counts.len() + 1, files.len());
        for file in counts {
            let name = file["name"].as_str().unwrap_or_default();
            let found = files[name].as_array().map_or(1, Vec::len);
            assert_eq!(file["entries"], found, "{name}");
        }
        Ok(())
    })
}

#[test]
fn files_have_what_only_tables_hold_ex_02() -> Result<()> {
    Setup::default().set("mail.bounce_to", "bounces@mail.service.example").run(async |server| {
        let ann = ann(server).await?;
        // A code was entered at this moment, and bounces of mails from before it do not count.
        server.advance(1);
        let name = service_server::mail::return_path::name_of(&server.app.root_keys, ANN);
        let db = server.app.database.connect().await?;
        let bounced = store::suppressed_addresses::BouncedMail { name: name.as_slice(), sent_at: server.now() };
        ensure!(store::suppressed_addresses::suppress(&db, &bounced, server.now()).await?.is_some(), "not suppressed");
        drop(db);
        let files = export(server, &ann).await?;
        let account = &files["account.json"];
        assert_eq!(account["email"], ANN);
        for field in ["createdAt", "emailVerifiedAt", "mailSuppressedUntil", "singleSignOn"] {
            assert!(!account[field].is_null(), "{field}: {account}");
        }
        let counted = |name: &str| entries(&files, name).map(|found| found.len());
        let ended = entries(&files, "ended-sessions.json")?;
        assert!(ended.iter().any(|session| session["reason"] == "revoked_by_user"), "{ended:?}");
        assert_eq!(entries(&files, "identities.json")?[0]["subject"], "sub-of-ann");
        // The first sign-in, the browser, and the session in use.
        assert_eq!(counted("devices.json")?, 3);
        assert!(counted("sign-in-reports.json")? >= 2);
        assert_eq!(entries(&files, "sent-invitations.json")?[0]["email"], "dave@acme.test");
        let memberships = entries(&files, "memberships.json")?;
        let over = memberships.iter().filter(|membership| membership["endedAt"].is_string()).count();
        assert_eq!((memberships.len(), over), (2, 1), "{memberships:?}");
        assert!(entries(&files, "deleted/packs.json")?[0]["text"].is_string(), "without its text");
        assert_eq!((counted("confirmations.json")?, counted("account-exports.json")?), (1, 1));
        assert!(counted("codes.json")? >= 1 && counted("own-clients.json")? <= 1);
        assert!(entries(&files, "browsers.json")?[0]["signedInFrom"].is_string());
        Ok(())
    })
}

/// Every value of the columns of digests, keys and MACs, as text that JSON could hold.
const DIGESTS: &str = "select string_agg(query_to_xml(format(
        'select encode(%1$I, ''hex'') as h, encode(%1$I, ''base64'') as b from %2$I', attname, relname), true, true, '')::text, ' ')
    from pg_attribute a join pg_class c on c.oid = a.attrelid
   where a.atttypid = 'bytea'::regtype and attnum > 0 and relkind in ('r', 'p') and not relispartition
     and relnamespace = 'public'::regnamespace";

#[test]
fn an_export_has_no_secret_and_no_digest_ex_03() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        let id = started(server, &ann).await?;
        let bytes = begin(server, &ann, &id).await?.bytes().await?;
        let digests = server.sql(DIGESTS).await?.context("no digests")?;
        let digests: BTreeSet<&str> = digests
            .split(['<', '>'])
            .map(str::trim)
            .filter(|text| text.len() >= 16 && !text.contains([' ', '"']))
            .collect();
        ensure!(digests.len() > 20, "only {} digests", digests.len());
        for (name, text) in raw_files(&bytes)? {
            server.leaks.assert_clean(&name, text.as_bytes());
            for digest in &digests {
                assert!(!text.contains(digest), "{name} has {digest}");
            }
            assert!(!text.contains("svc_"), "{name}: {text}");
        }
        Ok(())
    })
}

#[test]
fn an_export_has_nothing_of_other_users_that_lists_do_not_show_ex_04() -> Result<()> {
    with_server(async |server| {
        let ann = ann(server).await?;
        let files = export(server, &ann).await?;
        let bob = server.sql(&format!("select id from users where email = '{BOB}'")).await?.context("no Bob")?;
        let bob = service_api::ids::UserId::from(bob.parse::<uuid::Uuid>()?).to_string();
        for (name, file) in &files {
            let text = file.to_string();
            assert!(!text.contains("of Bob"), "{name}");
            // Who invites is shown to those who are invited, and what a member did to its owners.
            let may_name = ["received-invitations.json", "audit-events.json"].contains(&name.as_str());
            assert!(may_name || (!text.contains(BOB) && !text.contains(&bob)), "{name}: {text}");
        }
        let bobs = server.sign_in(BOB, "read write").await?;
        let text = json!(export(server, &bobs).await?).to_string();
        for own in ["Build server", "sub-of-ann", "dave@acme.test", "Tides"] {
            assert!(!text.contains(own), "{own}");
        }
        assert!(text.contains("Token of Bob"));
        Ok(())
    })
}

/// Columns that lead to a user, and why an export leaves their table out.
const LEFT_OUT: [(&str, &str); 25] = [
    ("authorization_codes", "a digest, for a minute; the session that it opened is exported"),
    ("audit_user_keys", "a key"),
    ("connections", "settings of a workspace"),
    ("contents", "by space"),
    ("deleted_contents", "by space"),
    ("deletions", "ids only, so that a deletion can be repeated"),
    ("emails", "in account.json"),
    ("idempotency_keys", "a digest, for a day; what was created is exported"),
    ("invitations", "as sent and as received invitations"),
    ("members", "as memberships"),
    ("outbox", "sealed, until it is sent"),
    ("passkey_credentials", "a digest"),
    ("passkey_recoveries", "in account.json"),
    ("passkey_users", "random bytes for authenticators"),
    ("pack_search", "an index of the packs"),
    ("account_deletions", "who has a row is signed out, and starts no export"),
    ("address_changes", "in account.json"),
    ("recovery_codes", "digests; how many are left is in account.json"),
    ("sign_in_flows", "a sign-in in progress, by browser, for an hour"),
    ("suppressed_addresses", "in account.json"),
    ("user_connections", "in account.json"),
    ("user_devices", "as devices"),
    ("users", "in account.json"),
    ("workspace_domains", "settings of a workspace"),
    ("space_usage", "a number that the contents add up to"),
];
const EXPORTED: [&str; 13] = [
    "account_exports",
    "audit_events",
    "blocked_workspaces",
    "browser_sessions",
    "cli_tokens",
    "confirmations",
    "consents",
    "devices",
    "grants",
    "identities",
    "memberships",
    "passkeys",
    "received_invitations",
];

#[test]
fn every_table_about_users_is_exported_or_left_out_for_a_reason_ex_05() -> Result<()> {
    with_server(async |server| {
        let tables = server
            .sql(
                "select string_agg(distinct relname, ' ') from pg_attribute a join pg_class c on c.oid = a.attrelid
                  where relkind in ('r', 'p') and not relispartition and relnamespace = 'public'::regnamespace
                    and attname in ('user_id', 'email', 'address', 'created_by', 'deleted_by', 'invited_by', 'space_id')",
            )
            .await?
            .context("no tables")?;
        let known: BTreeSet<_> = EXPORTED
            .into_iter()
            .chain(["otps", "sent_invitations", "sign_in_reports"])
            .chain(LEFT_OUT.iter().map(|(table, _)| *table))
            .collect();
        for table in tables.split(' ') {
            assert!(
                known.contains(table),
                "{table} is about users: add it to flows/account/export/files.rs, or say here why an export leaves it out"
            );
        }
        Ok(())
    })
}

#[test]
fn a_new_user_has_an_export_too_ex_06() -> Result<()> {
    with_server(async |server| {
        let zoe = server.sign_in("zoe@acme.test", "read write").await?;
        let files = export(server, &zoe).await?;
        assert_eq!(files["account.json"]["email"], "zoe@acme.test");
        assert_eq!(files["contents/projects.json"], json!([]));
        Ok(())
    })
}

/// The files that say by what they were written, or what has happened since.
const DIFFERENT: [&str; 4] = ["index.json", "account-exports.json", "audit-events.json", "sessions.json"];

#[test]
fn an_operator_exports_what_the_user_would_with_a_reason_to_a_file_of_their_own_ex_24() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        server.make_passkey(ann.user_id, "Laptop").await?;
        fill(server, &ann, 3).await?;
        let own = export(server, &ann).await?;
        let folder = tempfile::tempdir()?;
        let (first, second) = (folder.path().join("ann.zip"), folder.path().join("again.zip"));
        let first_path = first.to_str().context("no path")?;
        let (success, printed) = admin(server, &["user", "export", ANN, "--to", first_path])?;
        ensure!(!success && printed.contains("--reason"), "{printed}");
        let (success, printed) = admin(server, &with_reason(&["user", "export", "who@acme.test", "--to", first_path]))?;
        ensure!(!success && printed.contains("user not found") && !first.exists(), "{printed}");

        run(server, &with_reason(&["user", "export", ANN, "--to", first_path]))?;
        assert_eq!(fs::metadata(&first)?.permissions().mode() & 0o777, 0o600);
        let written = unzip(&fs::read(&first)?)?;
        assert_eq!(written.keys().collect::<Vec<_>>(), own.keys().collect::<Vec<_>>());
        for (name, file) in &own {
            assert!(DIFFERENT.contains(&name.as_str()) || written[name] == *file, "{name}: {}", written[name]);
        }
        assert_eq!(written["sessions.json"][0]["id"], own["sessions.json"][0]["id"]);
        assert!(!written["audit-events.json"].to_string().contains("support.viewed"), "the user sees the operator");
        let recorded =
            "select count(*) from audit_events where event = 'support.viewed' and details->>'viewed' = 'export'
                           and details->>'operatorReason' = 'ticket 4711' and details->>'found' is null";
        assert_eq!(server.sql(recorded).await?.as_deref(), Some("1"));

        let (success, printed) = admin(server, &with_reason(&["user", "export", ANN, "--to", first_path]))?;
        ensure!(!success && printed.contains("could not write"), "{printed}");
        assert_eq!(unzip(&fs::read(&first)?)?.len(), own.len(), "a file that is there is kept");
        // A user who cannot sign in has the right to it, too.
        run(server, &["user", "disable", ANN])?;
        let json =
            run(server, &with_reason(&["user", "export", ANN, "--json", "--to", second.to_str().context("no path")?]))?;
        // On a slow machine, standard error has the progress.
        let said = json.lines().find(|line| line.starts_with('{')).context("no JSON")?;
        let said: Value = serde_json::from_str(said)?;
        assert_eq!(
            (said["userId"].as_str(), said["bytes"].as_u64()),
            (Some(&*ann.user_id.to_string()), Some(fs::metadata(&second)?.len()))
        );
        Ok(())
    })
}
