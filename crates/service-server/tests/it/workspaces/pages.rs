//! The pages about workspaces: invitations that wait, members, and leaving.

use anyhow::{Context as _, Result};
use service_testkit::{
    server::{TestServer, with_server},
    tab::Tab,
};

use crate::support::workspaces::{invite, join, make, members};

/// A browser with a signed-in user.
async fn open(server: &TestServer, email: &str) -> Result<Tab> {
    server.advance(61);
    let tab = Tab::open(server)?;
    let path = tab.get("/sign-in").await?.next()?.to_owned();
    tab.sign_in(&server.mailbox, &path, email).await?;
    tab.get("/workspaces").await?;
    Ok(tab)
}

/// What stands behind a part of a page, up to a quote.
fn behind<'a>(text: &'a str, part: &str) -> Result<&'a str> {
    text.split(part).nth(1).and_then(|rest| rest.split(['"', '/']).next()).with_context(|| format!("no {part}: {text}"))
}

#[test]
fn invitations_wait_on_the_pages_and_are_answered_there_rv_02() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (first, second, third) = (
            make(server, &ann, "First").await?,
            make(server, &ann, "Second").await?,
            make(server, &ann, "Third").await?,
        );
        for id in [&first, &second, &third] {
            invite(server, &ann, id, "bob@acme.test", "member").await?;
            server.mailbox.next_mail_to("bob@acme.test").await?;
        }
        let bob = open(server, "bob@acme.test").await?;
        assert_eq!(members(server, &ann, &first).await?.len(), 1, "signing in joined a workspace");
        for path in ["/account", "/workspaces"] {
            let page = bob.get(path).await?;
            for part in ["First", "Second", "Third", "ann@acme.test", "Block this workspace"] {
                assert!(page.text.contains(part), "{path} lacks {part}: {}", page.text);
            }
        }
        for (name, decision) in [("First", "accept"), ("Second", "decline"), ("Third", "block")] {
            let page = bob.get("/workspaces").await?;
            let entry = page.text.split(&format!("<bdi>{name}</bdi>")).nth(1).context("not listed")?;
            let id = behind(entry, "action=\"/invitations/")?;
            let done = bob.submit(&format!("/invitations/{id}/{decision}"), &[]).await?;
            assert!(done.next()?.starts_with("/workspaces"), "{decision}");
        }
        assert_eq!(members(server, &ann, &first).await?.len(), 2);
        assert_eq!((members(server, &ann, &second).await?.len(), members(server, &ann, &third).await?.len()), (1, 1));
        let activity = bob.get("/account/activity").await?;
        for said in ["You accepted the invitation to First", "You declined an invitation to a workspace"] {
            assert!(activity.text.contains(said), "{said}: {}", activity.text);
        }
        let page = bob.get("/workspaces").await?;
        assert!(
            page.text.contains("Blocked workspaces") && !page.text.contains("Invitations for you"),
            "{}",
            page.text
        );
        bob.submit(&format!("/workspaces/{third}/unblock"), &[]).await?;
        assert!(bob.get("/workspaces").await?.text.contains("Invitations for you"), "a lifted block still hides it");
        let stranger = Tab::open(server)?;
        assert_eq!(stranger.get("/workspaces").await?.next()?, "/sign-in");
        Ok(())
    })
}

#[test]
fn owners_manage_members_on_the_page_and_every_member_can_leave_rv_02() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = make(server, &ann, "Harbour").await?;
        let path = format!("/workspaces/{id}");
        let tab = open(server, "ann@acme.test").await?;
        let invited = [("email", "bob@acme.test"), ("role", "member")];
        assert_eq!(tab.submit(&format!("{path}/invitations"), &invited).await?.next()?, path);
        let page = tab.get(&path).await?;
        assert!(page.text.contains("bob@acme.test") && page.text.contains("Send invitation"), "{}", page.text);
        let bob = join(server, "bob@acme.test").await?;
        let member = format!("{path}/members/{}", bob.user_id);
        tab.submit(&format!("{member}/role"), &[("role", "viewer")]).await?;
        assert!(members(server, &ann, &id).await?.contains(&("bob@acme.test".into(), "viewer".into())));
        let own = tab.submit(&format!("{path}/leave"), &[("sure", "true")]).await?;
        assert_eq!(own.status, 409, "the last owner left");
        assert!(own.text.contains("role=\"alert\""), "{}", own.text);
        let bobs = open(server, "bob@acme.test").await?;
        let page = bobs.get(&path).await?;
        assert!(page.text.contains("Workspace of") && page.text.contains("ann@acme.test"), "{}", page.text);
        assert!(!page.text.contains("Send invitation") && !page.text.contains("/remove"), "{}", page.text);
        // What the page does not offer is refused all the same.
        for (action, fields) in [("invitations", &invited[..]), ("members", &[])] {
            let action =
                if action == "members" { format!("members/{}/remove", ann.user_id) } else { action.to_owned() };
            assert_eq!(bobs.submit(&format!("{path}/{action}"), fields).await?.status, 403, "{action}");
        }
        assert_eq!(bobs.submit(&format!("{path}/leave"), &[]).await?.next()?, path, "left without being sure");
        let left = bobs.submit(&format!("{path}/leave"), &[("sure", "true")]).await?;
        assert!(left.next()?.starts_with("/workspaces?done="), "{}", left.text);
        assert_eq!(members(server, &ann, &id).await?.len(), 1);
        assert_eq!(bobs.get(&path).await?.status, 404);
        // A form from elsewhere does nothing.
        let carol = invite(server, &ann, &id, "carol@acme.test", "member").await?;
        assert_eq!(bobs.submit(&format!("{path}/invitations/{carol}/revoke"), &[]).await?.status, 404);
        tab.submit(&format!("{path}/invitations/{carol}/revoke"), &[]).await?;
        assert!(!tab.get(&path).await?.text.contains("carol@acme.test"));
        Ok(())
    })
}
