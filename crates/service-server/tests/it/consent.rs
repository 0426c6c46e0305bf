//! What people agreed to: for whom it counts, when they are asked again, and what is added later.

use anyhow::Result;
use service_testkit::{server::with_server, tab::Tab};

use crate::authorize::{CALLBACK, agree, asking, code, go_through, register};

#[test]
fn consent_is_for_one_client_one_host_and_what_was_shown_az_16_az_17() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK, "https://elsewhere.test/cb"]).await?;
        let other = register(server, "Other app", &[CALLBACK]).await?;
        let local = register(server, "Local app", &["http://127.0.0.1/cb"]).await?;
        let tab = Tab::open(server)?;
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        assert!(tab.get(&asking(&client, &[])).await?.parameter("code").is_some(), "asked again");
        for (id, changes) in [
            (&other, vec![]),
            (&client, vec![("redirect_uri", "https://elsewhere.test/cb")]),
            (&client, vec![("scope", "read write")]),
            (&client, vec![("prompt", "consent")]),
        ] {
            let shown = tab.get(&asking(id, &changes)).await?;
            assert!(shown.next()?.starts_with("/consent/"), "{changes:?}: {:?}", shown.location);
        }
        let at = [("redirect_uri", "http://127.0.0.1:5000/cb")];
        for _ in 0..2 {
            let shown = tab.get(&asking(&local, &at)).await?;
            let path = shown.next()?.to_owned();
            assert!(path.starts_with("/consent/"), "a program on this machine is not asked about again");
            let page = tab.get(&path).await?;
            assert!(page.text.contains("127.0.0.1") && page.text.contains("Anybody can run an app"), "{}", page.text);
            let done = tab.submit(&path, &[("decision", "allow"), ("space", "personal")]).await?;
            assert!(done.next()?.starts_with("http://127.0.0.1:5000/cb?code="), "{:?}", done.location);
        }
        Ok(())
    })
}

#[test]
fn more_scopes_later_are_shown_alone_and_added() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        go_through(server, &tab, &asking(&client, &[("scope", "projects:read")]), "ann@acme.test").await?;
        let begun = tab.get(&asking(&client, &[("scope", "packs:read")])).await?;
        let page = tab.get(begun.next()?).await?;
        let (new, old) = page.text.split_once("It already may").unwrap_or_default();
        assert!(new.contains("See and search packs") && !new.contains("See projects"), "{}", page.text);
        assert!(old.contains("See projects"), "{}", page.text);
        let done = agree(&tab, begun, &[("space", "personal")]).await?;
        let answer = server.door.post("/oauth/token", &crate::authorize::exchange(&client, &code(&done)?)).await?;
        assert_eq!(answer.field("scope"), "projects:read packs:read");
        Ok(())
    })
}
