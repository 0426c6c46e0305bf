//! The first walk through the house: e-mail, code, tokens, whoami, projects.

use anyhow::Result;
use service_rules::space::Space;
use service_testkit::server::with_server;

#[test]
fn a_person_signs_in_by_code_and_makes_an_authorised_call() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;

        let whoami = server.http.get("/v1/whoami", Some(&ann.access_token)).await?;
        assert_eq!(whoami.status, 200, "{}", whoami.text);
        assert_eq!(whoami.body["user"]["email"], "ann@acme.test");
        assert_eq!(whoami.body["credential"]["client"], "service-cli");
        assert_eq!(whoami.body["space"]["because"], "personal");

        server.make_project(Space::Personal, ann.user_id, "Launch").await?;
        let projects = server.http.get("/v1/projects", Some(&ann.access_token)).await?;
        assert_eq!(projects.status, 200, "{}", projects.text);
        assert_eq!(projects.body["data"][0]["name"], "Launch");
        assert_eq!(projects.body.get("nextCursor"), None);
        Ok(())
    })
}
