//! What the workspace pages ask before they revoke or remove something, and what they say afterwards.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::json;
use service_api::workspaces::Role;
use service_testkit::{
    server::{SignedIn, TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::{
    authorize::{CALLBACK, agree, asking, code, exchange, register},
    cli_tokens::make,
};

/// A workspace of Ann, in which Bob is a member, and Carol a viewer. Ann has another workspace, and Eve one of her own.
struct Acme {
    ann: SignedIn,
    bob: SignedIn,
    carol: SignedIn,
    id: String,
    path: String,
    others: [String; 2],
}

impl Acme {
    async fn make(server: &TestServer) -> Result<Self> {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let eve = server.sign_in("eve@other.test", "read write").await?;
        let carol = server.sign_in("carol@acme.test", "read write").await?;
        let members = [(ann.user_id, Role::Owner), (bob.user_id, Role::Member), (carol.user_id, Role::Viewer)];
        let id = server.make_workspace("Acme", &members).await?;
        let second = server.make_workspace("Second", &[(ann.user_id, Role::Owner)]).await?;
        let eves = server.make_workspace("Evil", &[(eve.user_id, Role::Owner)]).await?;
        let others = [second, eves].map(|id| format!("/workspaces/{id}"));
        Ok(Self { ann, bob, carol, path: format!("/workspaces/{id}"), id: id.to_string(), others })
    }

    /// Checks that a question is asked only to owners of the workspace, and that others learn nothing by asking.
    async fn check_only_owners_are_asked(&self, server: &TestServer, question: &str, secret: &str) -> Result<()> {
        let path = format!("{}{question}", self.path);
        assert_eq!(Tab::open(server)?.get(&path).await?.next()?, "/sign-in", "{question}");
        let bob = open(server, "bob@acme.test").await?;
        let refused = bob.get(&path).await?;
        assert!(refused.status == 403 && !refused.text.contains(&format!("{question}\"")), "{}", refused.text);
        // To a user who is not in the workspace, what is there is as unknown as what is not.
        let eve = open(server, "eve@other.test").await?;
        let (there, unknown) = (eve.get(&path).await?, eve.get(&path.replace(&self.id, UNKNOWN_WORKSPACE)).await?);
        assert_eq!((there.status.as_u16(), unknown.status.as_u16()), (404, 404), "{question}");
        assert_eq!(without_ids(&there), without_ids(&unknown), "{question}");
        // In other workspaces it is not found: in Eve's own, and in another one of Ann's.
        let ann = open(server, "ann@acme.test").await?;
        for (tab, other) in [(&ann, &self.others[0]), (&eve, &self.others[1])] {
            let (foreign, none) =
                (tab.get(&format!("{other}{question}")).await?, unknown_in(tab, other, question).await?);
            assert!(foreign.status == 404 && !foreign.text.contains(secret), "{question}: {}", foreign.text);
            assert_eq!(without_ids(&foreign), without_ids(&none), "{question}");
        }
        Ok(())
    }
}

const UNKNOWN_WORKSPACE: &str = "wsp_00000000000000000000000000";

/// Opens a question about an id that does not exist.
async fn unknown_in(tab: &Tab, workspace: &str, question: &str) -> Result<Shown> {
    let id = question.split(['/', '?']).find(|part| part.contains('_')).context("no id")?;
    let (prefix, _) = id.split_once('_').context("no prefix")?;
    tab.get(&format!("{workspace}{}", question.replace(id, &format!("{prefix}_00000000000000000000000000")))).await
}

/// A page without what differs from one response to the next.
fn without_ids(page: &Shown) -> String {
    let words = page.text.split(['"', '<', '>', ' ']).filter(|word| {
        let is_id = word.contains("req_") || word.len() > 30 && !word.contains('/');
        !is_id
    });
    words.collect::<Vec<_>>().join(" ")
}

async fn open(server: &TestServer, email: &str) -> Result<Tab> {
    server.advance(61);
    let tab = Tab::open(server)?;
    let path = tab.get("/sign-in").await?.next()?.to_owned();
    tab.sign_in(&server.mailbox, &path, email).await?;
    tab.get("/account/workspaces").await?;
    Ok(tab)
}

/// What a page says was done.
async fn said(tab: &Tab, done: &Shown, page: &str) -> Result<String> {
    let address = done.next()?.to_owned();
    let path = address.split('?').next().unwrap_or_default();
    assert!(path == page && !address.contains('@') && !address.contains("Robot"), "{address}");
    let shown = tab.get(&address).await?;
    let said = shown.text.split("role=\"status\">").nth(1).and_then(|rest| rest.split('<').next());
    Ok(said.with_context(|| format!("nothing is said: {}", shown.text))?.to_owned())
}

/// Checks a question: it is linked from `page`, asks `title`, leads back, and asking changes nothing.
async fn ask(server: &TestServer, tab: &Tab, page: &str, path: &str, title: &str) -> Result<Shown> {
    let state =
        "select (select count(*) from members where ended_at is null) || ' ' || (select count(*) from invitations)
                 || ' ' || (select count(*) from cli_tokens where revoked_at is null) || ' '
                 || (select count(*) from grants where revoked_at is null) || ' ' || (select count(*) from connections)
                 || ' ' || (select count(*) from workspace_domains) || ' ' || (select count(*) from audit_events)";
    let listed = tab.get(page).await?;
    assert!(listed.text.contains(&format!("href=\"{path}\"")), "{path} is not linked: {}", listed.text);
    assert!(!listed.text.contains(&format!("action=\"{path}\"")), "{path} is not asked: {}", listed.text);
    let before = server.sql(state).await?;
    let question = tab.get(path).await?;
    assert_eq!(question.status, 200, "{}", question.text);
    assert!(question.text.contains(&format!("<h1><bdi>{title}</bdi></h1>")), "{title}: {}", question.text);
    assert!(question.text.contains(&format!("<a class=\"button\" href=\"{page}\">Cancel</a>")), "{}", question.text);
    assert_eq!(server.sql(state).await?, before, "asking changes something");
    Ok(question)
}

#[test]
fn removing_a_member_and_leaving_ask_first_and_say_so_afterwards_fh_10() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let question = format!("/members/{}/remove", acme.carol.user_id);
        acme.check_only_owners_are_asked(server, &question, "carol@acme.test").await?;
        let (ann, path) = (open(server, "ann@acme.test").await?, format!("{}{question}", acme.path));
        ask(server, &ann, &acme.path, &path, "Remove carol@acme.test from Acme?").await?;
        // The owner's own removal is leaving.
        let own = format!("{}/members/{}/remove", acme.path, acme.ann.user_id);
        assert_eq!(ann.get(&own).await?.next()?, format!("{}/leave", acme.path));
        let done = ann.submit(&path, &[]).await?;
        assert_eq!(said(&ann, &done, &acme.path).await?, "carol@acme.test removed from the workspace.");
        // Again: nothing is left to ask, and nothing is said.
        assert_eq!(ann.get(&path).await?.status, 404);
        assert_eq!(ann.submit(&path, &[]).await?.next()?, acme.path);

        let leave = format!("{}/leave", acme.others[1]);
        assert_eq!(ann.get(&leave).await?.status, 404);
        assert_eq!(Tab::open(server)?.get(&leave).await?.next()?, "/sign-in");
        let leave = format!("{}/leave", acme.path);
        ask(server, &ann, &acme.path, &leave, "Leave Acme?").await?;
        let form = [("sure", "true")];
        assert_eq!(ann.submit(&leave, &form).await?.status, 409, "the last owner left");
        let members = [(acme.ann.user_id, Role::Owner), (acme.carol.user_id, Role::Viewer)];
        let shared = server.make_workspace("Shared", &members).await?;
        let carols = open(server, "carol@acme.test").await?;
        let question = carols.get(&format!("/workspaces/{shared}/leave")).await?;
        assert!(question.text.contains("name=\"sure\" value=\"true\""), "{}", question.text);
        let done = carols.submit(&format!("/workspaces/{shared}/leave"), &form).await?;
        assert_eq!(said(&carols, &done, "/workspaces").await?, "You left Shared.");
        Ok(())
    })
}

#[test]
fn revoking_an_invitation_asks_first_and_says_so_afterwards_fh_10() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let ann = open(server, "ann@acme.test").await?;
        ann.submit(&format!("{}/invitations", acme.path), &[("email", "guest@acme.test"), ("role", "viewer")]).await?;
        let id = server.sql("select id from invitations").await?.context("no invitation")?;
        let id: service_api::ids::InvitationId = id.parse::<uuid::Uuid>()?.into();
        let question = format!("/invitations/{id}/revoke");
        acme.check_only_owners_are_asked(server, &question, "guest@acme.test").await?;
        // The activity names the address while the invitation waits.
        let activity = ann.get(&format!("{}/activity?event=member.invited", acme.path)).await?;
        assert!(activity.text.contains("Invited guest@acme.test (role: Viewer)"), "{}", activity.text);
        let path = format!("{}{question}", acme.path);
        ask(server, &ann, &acme.path, &path, "Revoke the invitation for guest@acme.test?").await?;
        let done = ann.submit(&path, &[]).await?;
        assert_eq!(said(&ann, &done, &acme.path).await?, "Invitation for guest@acme.test revoked.");
        assert_eq!(ann.get(&path).await?.status, 404);
        assert_eq!(ann.submit(&path, &[]).await?.next()?, acme.path);
        let activity = ann.get(&format!("{}/activity", acme.path)).await?;
        for said in ["Invitation sent: Viewer", "Invitation revoked"] {
            assert!(activity.text.contains(said), "{said}: {}", activity.text);
        }
        assert!(!activity.text.contains("guest@acme.test"), "{}", activity.text);
        Ok(())
    })
}

#[test]
fn revoking_a_members_token_or_app_asks_first_and_says_so_afterwards_fh_10() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let page = format!("{}/credentials", acme.path);
        let (token, _) = make(server, &acme.bob, &json!({ "name": "Robot", "workspaceId": acme.id })).await?;
        let (private, _) = make(server, &acme.bob, &json!({ "name": "Private", "scopes": ["read"] })).await?;
        let client = register(server, "Planner", &[CALLBACK]).await?;
        let bob = open(server, "bob@acme.test").await?;
        let allowed = agree(&bob, bob.get(&asking(&client, &[])).await?, &[("space", &acme.id)]).await?;
        server.http.post("/oauth/token", &exchange(&client, &code(&allowed)?)).await?;
        let ann = open(server, "ann@acme.test").await?;
        let listed = ann.get(&page).await?;
        let app = listed.text.split("/credentials/grant_").nth(1).and_then(|rest| rest.split('/').next());
        let app = format!("grant_{}", app.context("no app")?);
        for (id, secret) in [(&token, "Robot"), (&app, "Planner")] {
            acme.check_only_owners_are_asked(server, &format!("/credentials/{id}/revoke"), secret).await?;
        }
        // A member's credentials for other spaces stay unknown to the owner.
        for foreign in [private.as_str(), &acme.bob.grant_id.to_string(), "clit_00000000000000000000000000", "x"] {
            let asked = ann.get(&format!("{page}/{foreign}/revoke")).await?;
            assert!(asked.status == 404 && !asked.text.contains("Private"), "{foreign}: {}", asked.text);
        }
        for (id, title, done) in [
            (&token, "Revoke the token “Robot” of bob@acme.test?", "Token “Robot” revoked."),
            (&app, "Remove access of Planner for bob@acme.test?", "Access of Planner removed."),
        ] {
            let path = format!("{page}/{id}/revoke");
            let question = ask(server, &ann, &page, &path, title).await?;
            assert!(question.text.contains("We’ll email bob@acme.test that you did it."), "{}", question.text);
            let revoked = ann.submit(&path, &[]).await?;
            assert_eq!(said(&ann, &revoked, &page).await?, done);
            assert_eq!(ann.get(&path).await?.status, 404);
            assert_eq!(ann.submit(&path, &[]).await?.next()?, page);
        }
        // The owner is not mailed about an own token.
        let (own, _) = make(server, &acme.ann, &json!({ "name": "Mine", "workspaceId": acme.id })).await?;
        let question = ann.get(&format!("{page}/{own}/revoke")).await?;
        assert!(question.text.contains("Revoke the token “Mine”") && !question.text.contains("We’ll email"));
        Ok(())
    })
}

#[test]
fn removing_a_domain_and_deleting_a_connection_ask_first_and_say_so_afterwards_fh_10() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let (ann, page) = (open(server, "ann@acme.test").await?, format!("{}/connections", acme.path));
        let made = ann.submit(&page, &[("name", "Robot provider"), ("issuer", "https://login.acme.example")]).await?;
        let connection = made.next()?.to_owned();
        ann.submit(&format!("{connection}/domains"), &[("domain", "acme.example")]).await?;
        let question = connection.strip_prefix(&acme.path).context("another workspace")?;
        let remove = format!("{question}/remove-domain?domain=acme.example");
        acme.check_only_owners_are_asked(server, &remove, "acme.example").await?;
        acme.check_only_owners_are_asked(server, &format!("{question}/delete"), "Robot provider").await?;
        // Signing in others takes time. Changes to connections need a recent sign-in, questions do not.
        server.advance(15 * 60 + 1);
        let path = format!("{connection}/remove-domain");
        let asked = format!("{path}?domain=acme.example");
        let shown = ask(server, &ann, &connection, &asked, "Remove acme.example?").await?;
        assert!(shown.text.contains("name=\"domain\" value=\"acme.example\""), "{}", shown.text);
        assert!(ann.submit(&path, &[("domain", "acme.example")]).await?.next()?.starts_with("/sign-in/flow_"));
        let ann = open(server, "ann@acme.test").await?;
        for unknown in ["?domain=other.example", "", "?domain=%22%3E%3Cb%3E"] {
            let shown = ann.get(&format!("{path}{unknown}")).await?;
            assert!(shown.status == 404 && !shown.text.contains("<h1><bdi>Remove"), "{unknown}: {}", shown.text);
        }
        let done = ann.submit(&path, &[("domain", "acme.example")]).await?;
        assert_eq!(said(&ann, &done, &connection).await?, "acme.example removed.");
        let path = format!("{connection}/delete");
        let shown = ask(server, &ann, &connection, &path, "Delete the connection Robot provider?").await?;
        assert!(shown.text.contains("name=\"sure\" value=\"true\""), "{}", shown.text);
        let done = ann.submit(&path, &[("sure", "true")]).await?;
        assert_eq!(said(&ann, &done, &page).await?, "Connection Robot provider deleted.");
        assert_eq!(ann.get(&path).await?.status, 404);
        Ok(())
    })
}

#[test]
fn workspace_pages_tell_moments_from_now_fh_10() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        make(server, &acme.bob, &json!({ "name": "Robot", "workspaceId": acme.id, "scopes": ["projects:read"] }))
            .await?;
        let ann = open(server, "ann@acme.test").await?;
        ann.submit(&format!("{}/invitations", acme.path), &[("email", "guest@acme.test"), ("role", "viewer")]).await?;
        server.advance(2 * 3_600);
        let ann = open(server, "ann@acme.test").await?;
        for (page, parts) in [
            ("", &["2 hours ago</time>", "in 6 days</time>", "title=\"15 January 2027, 08:0"][..]),
            ("/credentials", &["2 hours ago</time>", "<li>View your projects</li>", "title=\"15 January 2027, 08:0"]),
            ("/activity", &["2 hours ago</time>", "title=\"15 January 2027, 08:0"]),
        ] {
            let shown = ann.get(&format!("{}{page}", acme.path)).await?;
            for part in parts {
                assert!(shown.text.contains(part), "{page} lacks {part}: {}", shown.text);
            }
        }
        let german = ann.request(Method::GET, &acme.path).header("accept-language", "de");
        let page = ann.send(german).await?;
        assert!(
            page.text.contains("<dt>Beigetreten</dt>") && page.text.contains("vor 2 Stunden</time>"),
            "{}",
            page.text
        );
        Ok(())
    })
}
