//! Who may move content out of a workspace, what is recorded of it, and roles that change while content is written.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use service_api::workspaces::Role;
use service_testkit::server::with_server;

use crate::support::workspaces::send;

#[test]
fn only_its_creator_or_an_owner_takes_content_out_of_a_workspace_rv_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        let cyd = server.sign_in("cyd@acme.test", "read write").await?;
        let members = [(ann.user_id, Role::Owner), (bob.user_id, Role::Member), (cyd.user_id, Role::Member)];
        let id = server.make_workspace("Harbour", &members).await?;
        let shared = format!("/v1/projects?workspaceId={id}");
        let out = json!({ "scope": "personal" });
        for (creator, mover, status) in [(&bob, &cyd, 403), (&ann, &cyd, 403), (&bob, &ann, 200), (&bob, &bob, 200)] {
            let made = send(server, "POST", &shared, creator, Some(&json!({ "name": "Plan" }))).await?;
            let path = format!("/v1/projects/{}?workspaceId={id}", made.field("id"));
            let moved = send(server, "PATCH", &path, mover, Some(&out)).await?;
            assert_eq!(moved.status.as_u16(), status, "{}", moved.text);
            let stays = send(server, "GET", &path, creator, None).await?.status == 200;
            assert_eq!(stays, status == 403, "a refused move moved it, or a move left it there");
        }
        let gone = send(server, "POST", &shared, &bob, Some(&json!({ "name": "Old" }))).await?;
        let path = format!("/v1/projects/{}?workspaceId={id}", gone.field("id"));
        for _ in 0..2 {
            assert_eq!(send(server, "DELETE", &path, &cyd, None).await?.status, 204);
        }
        let events = async |name: &str| {
            let path = format!("/v1/audit-events?workspaceId={id}&event={name}");
            let response = send(server, "GET", &path, &ann, None).await?;
            anyhow::Ok(response.body["data"].as_array().with_context(|| response.text.clone())?.clone())
        };
        let moves = events("content.moved").await?;
        assert_eq!(moves.len(), 2, "{moves:?}");
        assert!(moves.iter().all(|event| event["details"] == json!({ "from": "workspace", "to": "personal" })));
        let deletions = events("content.deleted").await?;
        let told: Vec<_> = deletions.iter().map(|event| (&event["subject"], &event["userId"])).collect();
        assert_eq!(told, [(&gone.body["id"], &Value::from(cyd.user_id.to_string()))]);
        Ok(())
    })
}

#[test]
fn a_role_that_changes_while_content_is_written_counts_rv_43() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let id = server.make_workspace("Harbour", &[(ann.user_id, Role::Member)]).await?;
        let shared = format!("/v1/projects?workspaceId={id}");
        let made = send(server, "POST", &shared, &ann, Some(&json!({ "name": "Plan" }))).await?;
        let one = format!("/v1/projects/{}?workspaceId={id}", made.field("id"));
        let (client, connection) =
            tokio_postgres::connect(&server.cluster.url(&server.database), tokio_postgres::NoTls).await?;
        let driving = tokio::spawn(connection);
        let body = json!({ "name": "Changed" });
        for (method, path, body) in
            [("POST", &shared, Some(&body)), ("PATCH", &one, Some(&body)), ("DELETE", &one, None)]
        {
            client.batch_execute("begin; update memberships set role = 'viewer'").await?;
            // The request passes the door as a member, and then waits for what becomes of the role.
            let writing = send(server, method, path, &ann, body);
            let changing = async {
                let began = std::time::Instant::now();
                let waiting = "select count(*) from pg_locks where not granted";
                while server.sql(waiting).await?.as_deref() == Some("0") {
                    ensure!(began.elapsed().as_secs() < 5, "{method} does not wait for the role");
                }
                client.batch_execute("commit").await?;
                Ok(())
            };
            let (written, changed) = tokio::join!(writing, changing);
            let written = written?;
            assert_eq!((written.status.as_u16(), written.error()), (403, "forbidden"), "{method}: {}", written.text);
            changed?;
            client.batch_execute("update memberships set role = 'member'").await?;
        }
        drop(client);
        driving.await??;
        Ok(())
    })
}
