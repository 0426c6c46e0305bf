//! The pages for owners of a workspace: credentials of all members, and the workspace's audit events.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_api::{ids::UserId, workspaces::Role};
use service_rules::email::Address;
use service_server::{crypto::random, store};
use service_testkit::{
    server::{SignedIn, TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::{
    authorize::{CALLBACK, agree, asking, code, exchange, register},
    cli_tokens::{make, whoami},
};

/// A workspace of Ann, in which Bob is a member, and Carol a viewer.
struct Acme {
    ann: SignedIn,
    bob: SignedIn,
    path: String,
    id: String,
}

impl Acme {
    async fn make(server: &TestServer) -> Result<Self> {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let carol = server.sign_in("carol@acme.test", "read write").await?;
        let members = [(ann.user_id, Role::Owner), (bob.user_id, Role::Member), (carol.user_id, Role::Viewer)];
        let id = server.make_workspace("Acme", &members).await?.to_string();
        Ok(Self { ann, bob, path: format!("/workspaces/{id}"), id })
    }
}

/// A browser with a signed-in user.
async fn open(server: &TestServer, email: &str) -> Result<Tab> {
    server.advance(61);
    let tab = Tab::open(server)?;
    let path = tab.get("/sign-in").await?.next()?.to_owned();
    tab.sign_in(&server.mailbox, &path, email).await?;
    tab.get("/account/workspaces").await?;
    Ok(tab)
}

/// Lets an app into a workspace; returns its access token.
async fn connect(server: &TestServer, tab: &Tab, client: &str, workspace: &str) -> Result<String> {
    let begun = tab.get(&asking(client, &[("prompt", "consent")])).await?;
    let done = agree(tab, begun, &[("space", workspace)]).await?;
    let tokens = server.http.post("/oauth/token", &exchange(client, &code(&done)?)).await?;
    Ok(tokens.field("access_token").to_owned())
}

/// The ids in the forms of a page that revoke something.
fn revocable(page: &Shown, prefix: &str) -> Vec<String> {
    let beginning = format!("/credentials/{prefix}");
    let forms = page.text.split(&beginning).skip(1);
    forms.filter_map(|rest| Some(format!("{prefix}{}", rest.split('/').next()?))).collect()
}

#[test]
fn an_owner_sees_the_credentials_of_all_members_for_the_workspace_and_no_others() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let (bobs, _) = make(server, &acme.bob, &json!({ "name": "Robot", "workspaceId": acme.id })).await?;
        let (anns, _) = make(server, &acme.ann, &json!({ "name": "Nightly", "workspaceId": acme.id })).await?;
        make(server, &acme.bob, &json!({ "name": "Private", "scopes": ["read"] })).await?;
        let other = server.make_workspace("Other", &[(acme.bob.user_id, Role::Owner)]).await?.to_string();
        make(server, &acme.bob, &json!({ "name": "Elsewhere", "workspaceId": other })).await?;
        let bob = open(server, "bob@acme.test").await?;
        let client = register(server, "Planner", &[CALLBACK]).await?;
        connect(server, &bob, &client, &acme.id).await?;
        let private = register(server, "Diary", &[CALLBACK]).await?;
        connect(server, &bob, &private, "personal").await?;

        let ann = open(server, "ann@acme.test").await?;
        let page = ann.get(&format!("{}/credentials", acme.path)).await?;
        for shown in
            ["Robot", "Nightly", "Planner", "bob@acme.test", "CLI token", "<li>View and search your projects", "Never"]
        {
            assert!(page.text.contains(shown), "{shown}: {}", page.text);
        }
        for hidden in ["Private", "Elsewhere", "Diary", "carol@acme.test", "command line</h4>"] {
            assert!(!page.text.contains(hidden), "{hidden}: {}", page.text);
        }
        let mut listed = revocable(&page, "clit_");
        listed.sort();
        let mut made = [anns, bobs];
        made.sort();
        assert_eq!((listed.as_slice(), revocable(&page, "grant_").len()), (&made[..], 1));
        let current = format!("href=\"{}/credentials\" aria-current=\"page\"", acme.path);
        assert!(page.text.contains(&current), "{}", page.text);
        Ok(())
    })
}

#[test]
fn an_owner_revokes_a_members_token_and_the_member_learns_of_it() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let (id, token) = make(server, &acme.bob, &json!({ "name": "Robot", "workspaceId": acme.id })).await?;
        server.mailbox.next_mail_to("bob@acme.test").await?;
        assert_eq!(whoami(server, &token).await?.status, 200);
        let ann = open(server, "ann@acme.test").await?;
        ann.get(&format!("{}/credentials", acme.path)).await?;
        let revoked = ann.submit(&format!("{}/credentials/{id}/revoke", acme.path), &[]).await?;
        assert!(revoked.next()?.starts_with(&format!("{}/credentials?done=", acme.path)));
        let refused = whoami(server, &token).await?;
        assert_eq!((refused.status.as_u16(), &refused.body["details"]["reason"]), (401, &json!("revoked_by_admin")));
        let mail = server.mailbox.next_mail_to("bob@acme.test").await?;
        for said in ["ann@acme.test revoked your CLI token “Robot” for the workspace “Acme”", "/account/activity"]
        {
            assert!(mail.text.contains(said), "{said}: {}", mail.text);
        }
        assert!(!mail.text.contains("127.0.0.1"), "{}", mail.text);
        // Again: nothing changes, and nothing is mailed.
        ann.get(&format!("{}/credentials", acme.path)).await?;
        ann.submit(&format!("{}/credentials/{id}/revoke", acme.path), &[]).await?;
        let events = server
            .sql(
                "select string_agg(user_id || ' ' || (details->>'by') || ' ' || (sealed_address is null), ';')
                    from audit_events where event = 'cli_token.revoked'",
            )
            .await?;
        let bob = acme.bob.user_id.to_string();
        let found = events.context("not recorded")?;
        assert_eq!(found.matches(';').count(), 0, "{found}");
        assert!(found.ends_with(&format!("{} true", acme.ann.user_id)), "{found} {bob}");
        assert_eq!(server.sql("select count(*) from outbox").await?.as_deref(), Some("0"));
        // Both read it, the member without the owner's address.
        let page = ann.get(&format!("{}/activity?event=cli_token.revoked", acme.path)).await?;
        assert!(page.text.contains("CLI token revoked: Robot") && page.text.contains("by <bdi>ann@acme.test"));
        let own = server.http.get("/v1/audit-events?event=cli_token.revoked", Some(&acme.bob.access_token)).await?;
        assert_eq!(
            (own.body["data"][0]["subject"].as_str(), &own.body["data"][0]["address"]),
            (Some(id.as_str()), &json!(null))
        );
        Ok(())
    })
}

#[test]
fn an_owner_removes_an_app_of_a_member_and_it_cannot_come_back_silently() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let client = register(server, "Planner", &[CALLBACK]).await?;
        let bob = open(server, "bob@acme.test").await?;
        let access = connect(server, &bob, &client, &acme.id).await?;
        assert_eq!(whoami(server, &access).await?.status, 200);
        let silently = asking(&client, &[("prompt", "none")]);
        assert!(bob.get(&silently).await?.parameter("code").is_some(), "the consent is not remembered");
        let ann = open(server, "ann@acme.test").await?;
        let page = ann.get(&format!("{}/credentials", acme.path)).await?;
        let [id] = &revocable(&page, "grant_")[..] else { anyhow::bail!("{}", page.text) };
        ann.submit(&format!("{}/credentials/{id}/revoke", acme.path), &[]).await?;
        assert_eq!(whoami(server, &access).await?.status, 401);
        let again = bob.get(&silently).await?;
        assert_eq!(again.parameter("error").as_deref(), Some("consent_required"));
        let mail = server.mailbox.next_mail_to("bob@acme.test").await?;
        assert!(mail.text.contains("removed an app’s access") && !mail.text.contains("Planner"), "{}", mail.text);
        Ok(())
    })
}

#[test]
fn only_owners_see_these_pages_and_only_what_is_bound_to_the_workspace_can_be_revoked() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let (own, token) = make(server, &acme.bob, &json!({ "name": "Private", "scopes": ["read"] })).await?;
        let (bound, robot) = make(server, &acme.bob, &json!({ "name": "Robot", "workspaceId": acme.id })).await?;
        let bob = open(server, "bob@acme.test").await?;
        assert!(!bob.get(&acme.path).await?.text.contains("/credentials"), "the navigation is for owners");
        for page in ["credentials", "activity"] {
            assert_eq!(bob.get(&format!("{}/{page}", acme.path)).await?.status, 403, "{page}");
            assert_eq!(Tab::open(server)?.get(&format!("{}/{page}", acme.path)).await?.next()?, "/sign-in");
        }
        bob.get("/account/tokens").await?;
        assert_eq!(bob.submit(&format!("{}/credentials/{bound}/revoke", acme.path), &[]).await?.status, 403);
        let ann = open(server, "ann@acme.test").await?;
        ann.get(&acme.path).await?;
        // A session of the command line is not the workspace's, although the user is a member.
        let session = acme.bob.grant_id.to_string();
        for foreign in [own.as_str(), &session, "clit_00000000000000000000000000", "x"] {
            let refused = ann.submit(&format!("{}/credentials/{foreign}/revoke", acme.path), &[]).await?;
            assert_eq!(refused.status, 404, "{foreign}");
            assert!(refused.text.contains("role=\"alert\""), "{}", refused.text);
        }
        for live in [&token, &robot, &acme.bob.access_token] {
            assert_eq!(whoami(server, live).await?.status, 200);
        }
        let eve = open(server, "eve@other.test").await?;
        for page in ["credentials", "activity"] {
            assert_eq!(eve.get(&format!("{}/{page}", acme.path)).await?.status, 404, "{page}");
        }
        Ok(())
    })
}

#[test]
fn a_member_with_many_credentials_has_a_page_of_their_own() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        for number in 0..7 {
            let body = json!({ "name": format!("Robot {number}"), "workspaceId": acme.id });
            make(server, &acme.bob, &body).await?;
        }
        let ann = open(server, "ann@acme.test").await?;
        let path = format!("{}/credentials", acme.path);
        let page = ann.get(&path).await?;
        let all = format!("{path}?member={}", acme.bob.user_id);
        assert!(revocable(&page, "clit_").len() == 5 && page.text.contains(&all), "{}", page.text);
        assert!(page.text.contains("All 7 of bob@acme.test"), "{}", page.text);
        assert_eq!(revocable(&ann.get(&all).await?, "clit_").len(), 7);
        for gone in ["user_00000000000000000000000000", "x"] {
            assert_eq!(ann.get(&format!("{path}?member={gone}")).await?.next()?, path);
        }
        assert_eq!(ann.get(&format!("{path}?cursor=x")).await?.next()?, path);
        Ok(())
    })
}

#[test]
fn members_are_listed_page_by_page() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = server.make_workspace("Acme", &[(ann.user_id, Role::Owner)]).await?;
        make(server, &ann, &json!({ "name": "First", "workspaceId": id.to_string() })).await?;
        server.advance(1);
        for number in 0..55 {
            let address =
                Address::parse(&format!("user{number}@acme.test")).map_err(|_| anyhow::anyhow!("no address"))?;
            let user_id: UserId = random::id(server.now())?;
            let db = server.app.database.begin().await?;
            store::users::insert(&db, user_id, &address, server.now()).await?;
            store::memberships::join(&db, user_id, id, Role::Member, server.now()).await?;
            db.commit().await?;
        }
        let tab = open(server, "ann@acme.test").await?;
        let page = tab.get(&format!("/workspaces/{id}/credentials")).await?;
        assert!(page.text.contains("First"), "{}", page.text);
        let next = page.text.split("credentials?cursor=").nth(1).and_then(|rest| rest.split('"').next());
        let next = format!("/workspaces/{id}/credentials?cursor={}", next.context("there is no second page")?);
        let page = tab.get(&next).await?;
        assert!(page.status == 200 && page.text.contains("here."), "{}", page.text);
        assert!(!page.text.contains("First") && !page.text.contains("?cursor="), "{}", page.text);
        Ok(())
    })
}

/// What a page of activity lists, each as its text without markup.
fn listed(page: &Shown) -> Vec<String> {
    let entries = page.text.split("<li class=\"event\">").skip(1).filter_map(|rest| rest.split("</li>").next());
    entries
        .map(|entry| entry.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect())
        .collect()
}

#[test]
fn an_owner_filters_the_activity_of_the_workspace() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        make(server, &acme.bob, &json!({ "name": "Robot", "workspaceId": acme.id })).await?;
        make(server, &acme.bob, &json!({ "name": "Private" })).await?;
        let ann = open(server, "ann@acme.test").await?;
        ann.get(&acme.path).await?;
        server.advance(86_400);
        let ann_again = open(server, "ann@acme.test").await?;
        ann_again.get(&acme.path).await?;
        let member = format!("{}/members/{}/role", acme.path, acme.bob.user_id);
        assert_eq!(ann_again.submit(&member, &[("role", "viewer")]).await?.next()?, acme.path);
        let show = async |query: &str| {
            let page = ann_again.get(&format!("{}/activity{query}", acme.path)).await?;
            assert_eq!(page.status, 200, "{query}: {}", page.text);
            anyhow::Ok(listed(&page))
        };
        let all = show("").await?;
        let [changed, created] = &all[..] else { anyhow::bail!("{all:?}") };
        assert!(changed.contains("Role changed: Viewer (bob@acme.test) ann@acme.test from 127.0.0.1"), "{changed}");
        // The address of another user is not shown.
        assert!(
            created.contains("CLI token created: Robot bob@acme.test") && !created.contains("127.0.0.1"),
            "{created}"
        );
        assert_eq!(show("?member=bob%40acme.test&event=&since=&until=").await?, std::slice::from_ref(created));
        assert_eq!(show("?event=member.role_changed").await?, std::slice::from_ref(changed));
        assert_eq!(show("?until=2027-01-15").await?, std::slice::from_ref(created));
        assert_eq!(show("?since=2027-01-16").await?, std::slice::from_ref(changed));
        for nothing in
            ["?member=unknown%40acme.test", "?event=token.leaked", "?since=2027-02-01", "?member=eve%40other.test"]
        {
            assert!(show(nothing).await?.is_empty(), "{nothing}");
        }
        for wrong in ["?member=bob", "?event=x", "?since=yesterday", "?until=2027-02-30"] {
            let page = ann_again.get(&format!("{}/activity{wrong}", acme.path)).await?;
            assert!(page.status == 400 && page.text.contains("role=\"alert\""), "{wrong}: {}", page.text);
        }
        // What was sent stands in the form again, as text.
        let page = ann_again.get(&format!("{}/activity?member=%22%3E%3Cb%3E", acme.path)).await?;
        assert!(page.text.contains("value=\"&#34;&#62;&#60;b&#62;\""), "{}", page.text);
        Ok(())
    })
}

#[test]
fn activity_comes_in_pages_that_keep_the_filter() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let ann = open(server, "ann@acme.test").await?;
        let member = format!("{}/members/{}/role", acme.path, acme.bob.user_id);
        for role in ["viewer", "member"].repeat(26) {
            server.advance(1);
            ann.submit(&member, &[("role", role)]).await?;
        }
        let path = format!("{}/activity?member=ann%40acme.test&event=member.role_changed", acme.path);
        let page = ann.get(&path).await?;
        assert_eq!(listed(&page).len(), 50);
        let next =
            page.text.split("href=\"").filter_map(|rest| rest.split('"').next()).find(|link| link.contains("cursor="));
        let next = next.context("there is no second page")?.replace("&#38;", "&").replace("&amp;", "&");
        assert!(next.contains("event=member%2Erole%5Fchanged"), "{next}");
        let rest = ann.get(&next).await?;
        assert_eq!((rest.status.as_u16(), listed(&rest).len()), (200, 2), "{}", rest.text);
        assert_eq!(
            ann.get(&format!("{}/activity?cursor=x", acme.path)).await?.next()?,
            format!("{}/activity", acme.path)
        );
        Ok(())
    })
}
