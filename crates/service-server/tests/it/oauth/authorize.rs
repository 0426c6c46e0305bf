//! `/oauth/authorize`: what is refused, to whom that is told, and the way through.

use crate::support::authorize::{CALLBACK, asking, code, exchange, register};
use anyhow::Result;
use serde_json::json;
use service_testkit::{response::TestResponse, server::with_server, settings::BASE_URL, tab::Tab};

#[test]
fn a_person_signs_in_agrees_and_the_client_gets_tokens() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let begun = tab.get(&asking(&client, &[])).await?;
        assert_eq!(begun.status, 303);
        let path = begun.next()?.to_owned();
        assert!(path.starts_with("/sign-in/flow_"), "{path}");
        let page = tab.get(&path).await?;
        assert!(page.text.contains("Web app") && page.status == 200, "{}", page.text);
        let shown = tab.sign_in(&server.mailbox, &path, "ann@acme.test").await?;
        let consent = shown.next()?.to_owned();
        let page = tab.get(&consent).await?;
        for expected in ["Web app wants to access your account", "app.test", "ann@acme.test", "Your personal space"] {
            assert!(
                page.text.replace("<bdi>", "").replace("</bdi>", "").contains(expected),
                "{expected}: {}",
                page.text
            );
        }
        let done = tab.submit(&consent, &[("decision", "allow"), ("space", "personal")]).await?;
        assert_eq!(done.status, 303);
        let location = done.next()?;
        assert!(location.starts_with("https://app.test/cb?code=svc_ac_"), "{location}");
        assert_eq!(
            (done.parameter("state").as_deref(), done.parameter("iss").as_deref()),
            (Some("a state"), Some(BASE_URL))
        );
        assert!(location.ends_with("#_"), "a fragment could be inherited");
        let response: TestResponse = server.http.post("/oauth/token", &exchange(&client, &code(&done)?)).await?;
        assert_eq!(response.status, 200, "{}", response.text);
        assert_eq!((response.field("scope"), response.field("token_type")), ("read", "Bearer"));
        let who = server.http.get("/v1/whoami", Some(response.field("access_token"))).await?;
        assert_eq!(who.body["user"]["email"], "ann@acme.test");
        let refreshed = json!({ "grant_type": "refresh_token", "client_id": client, "refresh_token": response.field("refresh_token") });
        assert_eq!(server.http.post("/oauth/token", &refreshed).await?.status, 200);
        Ok(())
    })
}
