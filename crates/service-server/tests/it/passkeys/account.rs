//! Adding and removing passkeys on `/account/security`.

use anyhow::Result;
use service_testkit::{
    authenticator::{TestAuthenticator, USER_PRESENT, USER_VERIFIED, encode},
    server::{TestServer, with_server},
    tab::Tab,
};

use crate::support::passkeys::{
    ADD, NEW, REFUSED, SECURITY, add, ask_for_new, check_refused, events, remove_paths, sign_in, signed_in_tab,
    user_with_passkey,
};

const PASSKEYS: &str = "select count(*) from passkeys";

async fn check_count(server: &TestServer, expected: &str) -> Result<()> {
    assert_eq!(server.sql(PASSKEYS).await?.as_deref(), Some(expected));
    let found = server.sql("select count(*) from passkey_credentials").await?;
    assert_eq!(found.as_deref(), Some(expected), "credential ids lead to other passkeys than there are");
    Ok(())
}

#[test]
fn a_passkey_is_added_shown_mailed_and_recorded() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in_tab(server, "ann@acme.test").await?;
        let page = tab.get(SECURITY).await?;
        assert!(page.text.contains("No passkeys yet."), "{}", page.text);
        let options = ask_for_new(server, &tab).await?;
        assert_eq!(options["user"]["name"], "ann@acme.test");
        assert!(
            options["excludeCredentials"].as_array().is_some_and(Vec::is_empty) && options["attestation"] == "none"
        );
        let mut laptop = TestAuthenticator::new()?;
        let response = laptop.create(&options)?;
        let name = "Ann’s “laptop” & phone";
        let added = tab.submit(ADD, &[("name", name), ("response", &response)]).await?;
        let page = tab.get(added.next()?).await?.text;
        let shown = "Ann’s “laptop” &#38; phone";
        assert!(page.contains(&format!("role=\"status\">Passkey {shown} added.</p>")), "{page}");
        assert!(page.contains(&format!("<h3><bdi>{shown}</bdi></h3>")) && page.contains("<dd>Never</dd>"), "{page}");
        let mail = server.mailbox.next_mail_to("ann@acme.test").await?;
        let mail = if mail.code().is_some() { server.mailbox.next_mail_to("ann@acme.test").await? } else { mail };
        assert_eq!(mail.subject, "New passkey added");
        assert!(mail.text.contains(name) && mail.text.contains("127.0.0.1"), "{}", mail.text);
        assert_eq!(events(server, "passkey.added").await?, 1);
        let recorded = "select count(*) from audit_events a join passkeys p on a.user_id = p.user_id
                         where a.event = 'passkey.added' and a.details->>'madeBy' = p.made_by and p.made_by like 'sess_%'";
        assert_eq!(server.sql(recorded).await?.as_deref(), Some("1"));
        assert!(tab.get("/account/activity").await?.text.contains("Passkey added"));
        assert!(tab.get("/account").await?.text.contains("1 passkey"));
        // An authenticator that has it already is told so, and makes no second one.
        let again = ask_for_new(server, &tab).await?;
        assert_eq!(again["excludeCredentials"][0]["id"], encode(&laptop.credential_id));
        Ok(())
    })
}

#[test]
fn a_removed_passkey_does_not_sign_in_pk_29() -> Result<()> {
    with_server(async |server| {
        let (tab, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let mut phone = TestAuthenticator::new()?;
        server.advance(1);
        add(server, &tab, &mut phone, "Phone").await?;
        let paths = remove_paths(&tab).await?;
        let question = tab.get(&paths[1]).await?;
        assert!(question.text.contains("Remove the passkey Laptop?"), "{}", question.text);
        assert!(!question.text.contains("your only passkey"), "{}", question.text);
        check_count(server, "2").await?;
        let removed = tab.submit(&paths[1], &[]).await?;
        assert!(tab.get(removed.next()?).await?.text.contains("role=\"status\">Passkey Laptop removed.</p>"));
        check_count(server, "1").await?;
        let stranger = Tab::open(server)?;
        let refused = sign_in(server, &stranger, &mut laptop).await?;
        check_refused(&stranger, &refused, REFUSED).await?;
        assert_eq!(sign_in(server, &stranger, &mut phone).await?.status, 303, "the other one went with it");
        while server.mailbox.next_mail_to("ann@acme.test").await?.subject != "Passkey removed" {}
        assert_eq!(events(server, "passkey.removed").await?, 1);
        // It is gone, also for the page; the last one is removed with a warning.
        assert_eq!(tab.submit(&paths[1], &[]).await?.status, 404);
        assert!(tab.get(&paths[0]).await?.text.contains("It’s your only passkey."));
        tab.submit(&paths[0], &[]).await?;
        check_count(server, "0").await?;
        // The device may be used for a new one.
        assert_eq!(add(server, &tab, &mut laptop, "Laptop").await?.status, 303);
        Ok(())
    })
}

#[test]
fn a_user_cannot_see_or_remove_the_passkey_of_another_user() -> Result<()> {
    with_server(async |server| {
        let (ann, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let mallory = signed_in_tab(server, "mallory@evil.test").await?;
        let of_ann = remove_paths(&ann).await?;
        assert!(remove_paths(&mallory).await?.is_empty());
        let nobodys = format!("{ADD}/x/remove");
        for path in [&of_ann[0], &nobodys] {
            assert_eq!(mallory.get(path).await?.status, 404, "{path}");
            assert_eq!(mallory.submit(path, &[]).await?.status, 404, "{path}");
        }
        assert_eq!(sign_in(server, &Tab::open(server)?, &mut laptop).await?.status, 303);
        let stranger = Tab::open(server)?;
        for path in [SECURITY, &of_ann[0]] {
            assert_eq!(stranger.get(path).await?.next()?, "/sign-in");
        }
        Ok(())
    })
}

#[test]
fn a_credential_id_that_another_user_has_is_refused_at_registration_pk_26() -> Result<()> {
    with_server(async |server| {
        let (_, mut laptop) = user_with_passkey(server, "ann@acme.test").await?;
        let mallory = signed_in_tab(server, "mallory@evil.test").await?;
        let mut evil = TestAuthenticator { credential_id: laptop.credential_id.clone(), ..TestAuthenticator::new()? };
        let refused = add(server, &mallory, &mut evil, "Laptop").await?;
        assert_eq!(refused.status, 409, "{}", refused.text);
        assert!(refused.text.contains("That passkey already belongs to an account."), "{}", refused.text);
        check_count(server, "1").await?;
        assert_eq!(events(server, "passkey.added").await?, 1);
        assert_eq!(sign_in(server, &Tab::open(server)?, &mut laptop).await?.status, 303);
        let stranger = Tab::open(server)?;
        let refused = sign_in(server, &stranger, &mut evil).await?;
        check_refused(&stranger, &refused, REFUSED).await
    })
}

#[test]
fn a_user_has_at_most_twenty_passkeys() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in_tab(server, "ann@acme.test").await?;
        for number in 1..=20 {
            let added = add(server, &tab, &mut TestAuthenticator::new()?, &format!("Passkey {number}")).await?;
            assert_eq!(added.status, 303, "{number}: {}", added.text);
        }
        let refused = tab.submit(NEW, &[]).await?;
        assert_eq!(refused.status, 409, "{}", refused.text);
        assert!(refused.text.contains("You can have up to 20 passkeys."), "{}", refused.text);
        check_count(server, "20").await?;
        let paths = remove_paths(&tab).await?;
        assert_eq!(paths.len(), 20);
        tab.submit(&paths[0], &[]).await?;
        assert_eq!(add(server, &tab, &mut TestAuthenticator::new()?, "Another").await?.status, 303);
        Ok(())
    })
}

#[test]
fn adding_and_removing_need_a_recent_sign_in_pk_32() -> Result<()> {
    with_server(async |server| {
        let (tab, _) = user_with_passkey(server, "ann@acme.test").await?;
        let options = ask_for_new(server, &tab).await?;
        let response = TestAuthenticator::new()?.create(&options)?;
        let path = remove_paths(&tab).await?.remove(0);
        server.advance(15 * 60 + 1);
        for (path, fields) in
            [(NEW, &[][..]), (ADD, &[("name", "Phone"), ("response", response.as_str())][..]), (path.as_str(), &[][..])]
        {
            tab.get(SECURITY).await?;
            let asked = tab.submit(path, fields).await?;
            assert!(asked.next()?.starts_with("/sign-in/flow_"), "{path}: {}", asked.next()?);
        }
        check_count(server, "1").await?;
        assert_eq!(events(server, "passkey.removed").await?, 0);
        Ok(())
    })
}

#[test]
fn a_challenge_creates_one_passkey_and_none_after_another_change() -> Result<()> {
    with_server(async |server| {
        let (tab, _) = user_with_passkey(server, "ann@acme.test").await?;
        let options = ask_for_new(server, &tab).await?;
        let [first, second] =
            [TestAuthenticator::new()?.create(&options)?, TestAuthenticator::new()?.create(&options)?];
        let send = async |response: &str| tab.submit(ADD, &[("name", "Phone"), ("response", response)]).await;
        assert_eq!(send(&first).await?.status, 303);
        for response in [&first, &second] {
            let refused = send(response).await?;
            assert_eq!(refused.status, 400, "{}", refused.text);
            assert!(refused.text.contains("That passkey wasn’t accepted. Add it again."), "{}", refused.text);
        }
        check_count(server, "2").await?;
        // What another browser of the same user asked for is not for this one.
        let other = signed_in_tab(server, "ann@acme.test").await?;
        let response = TestAuthenticator::new()?.create(&ask_for_new(server, &other).await?)?;
        assert_eq!(send(&response).await?.status, 400);
        check_count(server, "2").await
    })
}

#[test]
fn what_an_authenticator_says_wrongly_creates_no_passkey() -> Result<()> {
    with_server(async |server| {
        let tab = signed_in_tab(server, "ann@acme.test").await?;
        let right = TestAuthenticator::new()?;
        let evil = Some("evil.test".to_owned());
        for (what, mut wrong) in [
            ("not verified", TestAuthenticator { flags: USER_PRESENT, ..right.clone() }),
            ("not present", TestAuthenticator { flags: USER_VERIFIED, ..right.clone() }),
            ("another origin", TestAuthenticator { origin: "https://evil.test".into(), ..right.clone() }),
            ("in a frame", TestAuthenticator { cross_origin: true, ..right.clone() }),
            ("another relying party", TestAuthenticator { relying_party: evil, ..right.clone() }),
        ] {
            let refused = add(server, &tab, &mut wrong, "Laptop").await?;
            assert_eq!(refused.status, 400, "{what}: {}", refused.text);
        }
        let options = ask_for_new(server, &tab).await?;
        let cut: String = right.clone().create(&options)?.chars().take(100).collect();
        for response in ["", "{}", "null", &cut, &"A".repeat(30_000)] {
            let refused = tab.submit(ADD, &[("name", "Laptop"), ("response", response)]).await?;
            assert!(refused.status.is_client_error(), "{}", refused.status);
        }
        let response = right.clone().create(&options)?;
        for name in ["", " ", &"a".repeat(61), "Laptop\u{202e}"] {
            let refused = tab.submit(ADD, &[("name", name), ("response", &response)]).await?;
            assert_eq!(refused.status, 400, "{name:?}");
            assert!(refused.text.contains("Enter a name of up to 60 characters."), "{name:?}: {}", refused.text);
        }
        check_count(server, "0").await?;
        assert_eq!(tab.submit(ADD, &[("name", "Laptop"), ("response", &response)]).await?.status, 303);
        Ok(())
    })
}
