//! An account that exists is linked with an identity only by its owner: by one code, once, with a mail.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_server::flows::operator::Operator;
use service_testkit::{
    server::TestServer,
    tab::{Shown, Tab},
};

use crate::support::{
    otp::wrong,
    sso::{Company, at_provider, company, sign_in, signed_in_as, user, with_provider},
};

/// Signs in at the provider as a user whose account exists; the page that asks for a code, and the code.
async fn asked_for_code(server: &TestServer, acme: &Company, tab: &Tab, email: &str) -> Result<(String, String)> {
    let shown = sign_in(server, tab, &acme.start()).await?;
    let path = shown.next()?.to_owned();
    assert!(path.ends_with("/link"), "{path}");
    let page = tab.get(&path).await?;
    assert!(
        page.status == 200 && page.text.contains("Link your account") && page.text.contains(email),
        "{}",
        page.text
    );
    let code = server.mailbox.next_code_to(email).await?;
    server.leaks.register("otp code", &code);
    Ok((path, code))
}

/// Creates a CLI token on its page.
async fn new_cli_token(server: &TestServer, tab: &Tab) -> Result<String> {
    tab.get("/account/tokens").await?;
    let wanted = [("name", "ci"), ("space", "personal"), ("read", "true"), ("days", "9")];
    let created = tab.submit("/account/tokens", &wanted).await?;
    let (_, rest) = created.text.split_once("svc_cli_").context("no token")?;
    let token = format!("svc_cli_{}", rest.split(['"', '<', ' ']).next().unwrap_or_default());
    server.leaks.register("access_token", &token);
    Ok(token)
}

async fn identities(server: &TestServer) -> Result<Option<String>> {
    server
        .sql("select string_agg(subject || '=' || u.email, ' ') from identities i join users u on u.id = i.user_id")
        .await
}

#[test]
fn an_existing_account_is_linked_by_one_code_and_then_needs_none_so_05() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        let ann = server.sign_in("ann@acme.test", "read").await?;
        provider.sign_in_as(&user("ann-1", "ann@acme.test"));
        let tab = Tab::open(server)?;
        let (path, code) = asked_for_code(server, &acme, &tab, "ann@acme.test").await?;
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in", "signed in before the code");
        assert_eq!(identities(server).await?, None);
        tab.get(&path).await?;
        let refused = tab.submit(&path, &[("code", &wrong(&code, 1)?)]).await?;
        assert!(refused.status == 400 && refused.text.contains("wrong or has expired"), "{}", refused.text);
        assert_eq!(identities(server).await?, None);
        let entered = tab.submit(&path, &[("code", &code)]).await?;
        assert_eq!(tab.get(entered.next()?).await?.next()?, "/account");
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        assert_eq!(identities(server).await?.as_deref(), Some("ann-1=ann@acme.test"));
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        assert_eq!(mail.subject, "Your account was linked with your company’s sign-in");
        assert!(mail.text.contains("Acme ID"), "{}", mail.text);
        let linked = "select count(*) from audit_events where event = 'sso.linked' and workspace_id is not null";
        assert_eq!(server.sql(linked).await?.as_deref(), Some("1"));
        let role = "select role from memberships where user_id = (select user_id from identities)";
        assert_eq!(server.sql(role).await?.as_deref(), Some("member"), "{}", ann.user_id);
        // From then on it is the account of the identity.
        let other = Tab::open(server)?;
        let shown = sign_in(server, &other, &acme.start()).await?;
        assert!(!shown.next()?.ends_with("/link"));
        assert_eq!(signed_in_as(&other).await?.as_deref(), Some("ann@acme.test"));
        Ok(())
    })
}

#[test]
fn a_code_links_only_the_identity_and_the_address_it_was_sent_for() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        for email in ["ann@acme.test", "eve@acme.test"] {
            server.sign_in(email, "read").await?;
        }
        // Eve has a code of her own, and then signs in at the provider as Ann.
        provider.sign_in_as(&user("eve", "eve@acme.test"));
        let tab = Tab::open(server)?;
        let (path, eves) = asked_for_code(server, &acme, &tab, "eve@acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        tab.get(&path.replace("/link", "")).await?;
        let start = tab.submit(&path.replace("/link", "/sso"), &[("decision", "continue")]).await?;
        let back = tab.get(&at_provider(server, &start).await?).await?;
        assert_eq!(back.next()?, path);
        let anns = server.mailbox.next_code_to("ann@acme.test").await?;
        server.leaks.register("otp code", &anns);
        tab.get(&path).await?;
        let refused: Shown = tab.submit(&path, &[("code", &eves)]).await?;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert_eq!(identities(server).await?, None);
        // A code for linking signs no user in by itself: neither on the page nor at the token endpoint.
        let otp_id =
            server.sql("select id from otps where client_id = 'sso-link' and address = 'ann@acme.test'").await?;
        let id: uuid::Uuid = otp_id.context("no code")?.parse()?;
        let exchanged = server.exchange(&service_api::ids::OtpId::from(id).to_string(), &anns, "read").await?;
        assert_eq!((exchanged.status.as_u16(), exchanged.error()), (400, "invalid_grant"));
        let on_page = tab.submit(&path.replace("/link", "/code"), &[("code", &anns)]).await?;
        assert_eq!(on_page.status, 400, "{}", on_page.text);
        assert_eq!(tab.get("/account").await?.next()?, "/sign-in");
        tab.get(&path).await?;
        tab.submit(&path, &[("code", &anns)]).await?;
        assert_eq!(identities(server).await?.as_deref(), Some("ann=ann@acme.test"));
        Ok(())
    })
}

#[test]
fn a_flow_that_waits_for_a_code_is_continued_in_its_own_browser_only() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        server.sign_in("ann@acme.test", "read").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        let (path, code) = asked_for_code(server, &acme, &tab, "ann@acme.test").await?;
        let other = Tab::open(server)?;
        other.get(other.get("/sign-in").await?.next()?).await?;
        assert_eq!(other.get(&path).await?.status, 403);
        assert_eq!(other.submit(&path, &[("code", &code)]).await?.status, 403);
        // The connection is switched off meanwhile: nothing is linked.
        acme.change(server, |connection| connection.enabled_at = None).await?;
        let refused = tab.submit(&path, &[("code", &code)]).await?;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert_eq!(identities(server).await?, None);
        Ok(())
    })
}

#[test]
fn a_new_code_can_be_sent_and_the_old_one_is_wrong_then() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        server.sign_in("ann@acme.test", "read").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        let tab = Tab::open(server)?;
        let (path, first) = asked_for_code(server, &acme, &tab, "ann@acme.test").await?;
        tab.get(&path).await?;
        assert_eq!(tab.submit(&format!("{path}/resend"), &[]).await?.next()?, path);
        let second = server.mailbox.next_code_to("ann@acme.test").await?;
        server.leaks.register("otp code", &second);
        tab.get(&path).await?;
        assert_eq!(tab.submit(&path, &[("code", &first)]).await?.status, 400);
        assert_eq!(tab.submit(&path, &[("code", &second)]).await?.status, 303);
        // A link page without anything to link leads back.
        let begun = tab.get("/account").await?;
        assert_eq!(begun.status, 200);
        let other = Tab::open(server)?;
        let sign_in_path = other.get("/sign-in").await?.next()?.to_owned();
        assert_eq!(other.get(&format!("{sign_in_path}/link")).await?.next()?, sign_in_path);
        Ok(())
    })
}

#[test]
fn a_removed_member_is_not_joined_again_by_signing_in() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        provider.sign_in_as(&user("ann", "ann@acme.test"));
        sign_in(server, &Tab::open(server)?, &acme.start()).await?;
        let user_id = server.sql("select user_id from identities").await?.context("no identity")?;
        let user_id: uuid::Uuid = user_id.parse()?;
        service_server::flows::revocation::remove_member(
            &server.app,
            &Operator::default(),
            user_id.into(),
            acme.workspace_id,
        )
        .await?;
        let tab = Tab::open(server)?;
        sign_in(server, &tab, &acme.start()).await?;
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ann@acme.test"));
        let ended = "select ended_at is not null from memberships where user_id = (select user_id from identities)";
        assert_eq!(server.sql(ended).await?.as_deref(), Some("t"));
        Ok(())
    })
}

/// Someone who could choose the address that the provider sends, or had it before, keeps nothing once its owner links.
#[test]
fn an_account_has_one_identity_and_linking_another_revokes_what_the_first_left() -> Result<()> {
    with_provider(async |server, provider| {
        let acme = company(server, provider, "acme.test").await?;
        // Mallory is first to sign in with the address: the account is new.
        let now = server.now().as_second();
        provider.sign_in_as(&json!({ "sub": "mallory", "email": "ceo@acme.test", "auth_time": now }));
        let mallory = Tab::open(server)?;
        sign_in(server, &mallory, &acme.start()).await?;
        assert_eq!(signed_in_as(&mallory).await?.as_deref(), Some("ceo@acme.test"));
        let cli_token = new_cli_token(server, &mallory).await?;
        assert!(server.mailbox.next_mail_to("ceo@acme.test").await?.text.contains("A new CLI token was created"));
        assert_eq!(server.http.get("/v1/whoami", Some(&cli_token)).await?.status, 200);
        // The owner of the address has another subject, and links by a code.
        provider.sign_in_as(&user("ceo", "ceo@acme.test"));
        let tab = Tab::open(server)?;
        let (path, code) = asked_for_code(server, &acme, &tab, "ceo@acme.test").await?;
        tab.submit(&path, &[("code", &code)]).await?;
        assert_eq!(signed_in_as(&tab).await?.as_deref(), Some("ceo@acme.test"));
        assert_eq!(identities(server).await?.as_deref(), Some("ceo=ceo@acme.test"));
        assert_eq!(signed_in_as(&mallory).await?, None, "the first browser is still signed in");
        let refused = server.http.get("/v1/whoami", Some(&cli_token)).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (401, "invalid_token"), "{}", refused.text);
        let mail = server.mailbox.next_mail_to("ceo@acme.test").await?;
        assert!(mail.text.contains("all earlier sessions and tokens were revoked"), "{}", mail.text);
        // The first identity is that of a stranger now, who would have to enter a code.
        provider.sign_in_as(&user("mallory", "ceo@acme.test"));
        let again = sign_in(server, &mallory, &acme.start()).await?;
        assert!(again.next()?.ends_with("/link"), "{}", again.text);
        // The owner still signs in without one.
        provider.sign_in_as(&user("ceo", "ceo@acme.test"));
        let other = Tab::open(server)?;
        sign_in(server, &other, &acme.start()).await?;
        assert_eq!(signed_in_as(&other).await?.as_deref(), Some("ceo@acme.test"));
        Ok(())
    })
}
