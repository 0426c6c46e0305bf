//! Shards: what belongs to a user or a workspace is in its shard, and an address says nothing about its user.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_api::ids::{Id as _, OtpId};
use service_testkit::{
    server::{Setup, TestServer},
    tab::Tab,
};

use crate::support::{
    cli_tokens,
    contents::{make, send},
};

/// Each table, and the id whose shard its rows are in.
const OWNERS: [(&str, &str); 21] = [
    ("users", "id"),
    ("workspaces", "id"),
    ("memberships", "user_id"),
    ("members", "workspace_id"),
    ("invitations", "workspace_id"),
    ("invitations", "id"),
    ("sent_invitations", "user_id"),
    ("user_devices", "user_id"),
    ("consents", "user_id"),
    ("grants", "id"),
    ("grants", "user_id"),
    ("cli_tokens", "id"),
    ("cli_tokens", "user_id"),
    ("otps", "id"),
    ("outbox", "id"),
    ("browser_sessions", "id"),
    ("browser_sessions", "user_id"),
    ("sign_in_flows", "id"),
    ("contents", "space_id"),
    ("deletions", "space_id"),
    ("space_usage", "space_id"),
];

/// Returns how many rows of a table are in another shard than this column says.
async fn misplaced(server: &TestServer, table: &str, column: &str) -> Result<(u32, u32)> {
    let sql = format!(
        "select count(*) || ' ' || count(*) filter (where shard <> shard_of({column})) from {table} where {column} is not null"
    );
    let counts = server.sql(&sql).await?.context("no count")?;
    let (rows, wrong) = counts.split_once(' ').context("no counts")?;
    Ok((rows.parse()?, wrong.parse()?))
}

#[test]
fn what_belongs_to_an_owner_is_in_the_owners_shard() -> Result<()> {
    Setup::default().set("limits.otp_sends_per_network", "1000+1000").run(async |server| {
        let (mut of_codes, mut of_users) = (Vec::new(), Vec::new());
        for number in 0..40 {
            let email = format!("user{number}@acme.test");
            let (otp_id, code) = server.request_code(&email).await?;
            let signed_in = service_testkit::server::signed_in(&server.exchange(&otp_id, &code, "read write").await?)?;
            of_codes.push(otp_id.parse::<OtpId>()?.shard());
            of_users.push(signed_in.user_id.shard());
            assert_eq!(signed_in.grant_id.shard(), signed_in.user_id.shard());
        }
        // Of forty pairs two may be equal by chance, one in a hundred thousand times.
        let equal = of_codes.iter().zip(&of_users).filter(|(code, user)| code == user).count();
        assert!(equal < 3, "the shard of an address is the shard of its user");
        assert!(of_users.iter().collect::<std::collections::BTreeSet<_>>().len() > 30, "users share shards");

        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let (_, token) = cli_tokens::make(server, &ann, &json!({ "scopes": ["read"] })).await?;
        assert_eq!(cli_tokens::whoami(server, &token).await?.status, 200);
        let (id, _) = make(server, "/v1/workspaces", &ann, &json!({ "name": "Harbour" })).await?;
        let invite = json!({ "email": "bob@acme.test", "role": "member" });
        assert_eq!(
            send(server, "POST", &format!("/v1/workspaces/{id}/invitations"), &ann, Some(&invite)).await?.status,
            201
        );
        let (content, _) = make(server, "/v1/projects", &ann, &json!({ "name": "Plan" })).await?;
        assert_eq!(send(server, "DELETE", &format!("/v1/projects/{content}"), &ann, None).await?.status, 204);
        make(server, "/v1/projects", &ann, &json!({ "name": "Plan" })).await?;
        // A browser has a shard of its own until its user has signed in.
        let tab = Tab::open(server)?;
        let begun = tab.get("/sign-in").await?;
        tab.sign_in(&server.mailbox, begun.next()?, "carl@acme.test").await?;
        assert_eq!(tab.get("/account").await?.status, 200);

        for (table, column) in OWNERS {
            let (rows, wrong) = misplaced(server, table, column).await?;
            assert_eq!(wrong, 0, "{wrong} of {rows} rows of {table} are in another shard than their {column}");
            assert!(rows > 0 || matches!(table, "outbox" | "consents"), "{table} is empty");
        }
        Ok(())
    })
}
