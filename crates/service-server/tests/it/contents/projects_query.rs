//! What a caller may write behind `GET /v1/projects?`: cursors that the list gave out, plain limits, nothing else.

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use service_api::{
    ids::{Id as _, ProjectId, WorkspaceId},
    workspaces::Role,
};
use service_rules::space::Space;
use service_testkit::server::{TestServer, with_server};

use crate::support::{
    bearer::statements_with,
    projects::{LIST, cursor_of, ids_of, make_projects, next, page},
};

/// Fails unless the query is refused as one that cannot be meant.
async fn refused(server: &TestServer, query: &str, token: &str) -> Result<()> {
    let response = server.http.get(&format!("{LIST}?{query}"), Some(token)).await?;
    anyhow::ensure!(response.status == 400, "{query}: {}", response.status);
    anyhow::ensure!(response.error() == "invalid_request", "{query}: {}", response.error());
    Ok(())
}

#[test]
fn a_cursor_belongs_to_one_list() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "read").await?, server.sign_in("bob@acme.test", "read").await?);
        let members = [(ann.user_id, Role::Member), (bob.user_id, Role::Member)];
        let first = server.make_workspace("First", &members).await?;
        let second = server.make_workspace("Second", &members).await?;
        for place in [Space::Personal, Space::Workspace(first), Space::Workspace(second)] {
            make_projects(server, place, ann.user_id, 3).await?;
        }
        make_projects(server, Space::Personal, bob.user_id, 3).await?;
        let in_space = |id: WorkspaceId| format!("limit=1&workspaceId={id}");
        let (a, b) = (&ann.access_token, &bob.access_token);
        let lists = [("limit=1".to_owned(), a), (in_space(first), a), (in_space(second), a), ("limit=1".to_owned(), b)];
        let mut cursors = Vec::new();
        for (query, token) in &lists {
            let response = page(server, query, token).await?;
            cursors.push(cursor_of(&response).context("no cursor")?.to_owned());
        }
        for (place, (query, token)) in lists.iter().enumerate() {
            for (origin, cursor) in cursors.iter().enumerate() {
                let query = format!("{query}&cursor={cursor}");
                if place == origin {
                    page(server, &query, token).await?;
                } else {
                    refused(server, &query, token).await?;
                }
            }
        }
        // A workspace's list is the same for all its members.
        page(server, &format!("{}&cursor={}", in_space(first), cursors[1]), b).await?;
        Ok(())
    })
}

/// Everything a forger could make of a cursor.
fn forged(cursor: &str) -> Result<Vec<String>> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor)?;
    let write = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let mut forged: Vec<String> = (0..bytes.len() * 8)
        .map(|bit| {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            write(&changed)
        })
        .collect();
    forged.extend((0..cursor.len()).map(|length| cursor[..length].to_owned()));
    forged.extend([1, 17, 18, 32].map(|length| write(&bytes[..length])));
    forged.push(write(&[&bytes[..], &[0]].concat()));
    forged.push(write(&[&bytes[..17], &[0; 16]].concat()));
    forged.push(write(&[&bytes[..17], &[0xff; 16]].concat()));
    forged.push(write(&[&[0], &bytes[1..]].concat()));
    forged.push(write(&[0; 33]));
    forged.push(write(&[0xff; 33]));
    for text in ["", "=", "==", "A", "%20", "%0A", "%00", "%ff"] {
        forged.push(format!("{cursor}{text}"));
    }
    forged.retain(|text| text != cursor);
    let others = ["0", "1", "-1", "null", "*", "%25", "'%3B%20drop%20table%20projects%3B%20--", "'%20or%20'1'%3D'1"];
    forged.extend(others.map(String::from));
    forged.push("A".repeat(4_000));
    Ok(forged)
}

#[test]
fn a_forged_cursor_never_reaches_the_database() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        make_projects(server, Space::Personal, ann.user_id, 3).await?;
        let genuine = next(server, 1, &ann.access_token).await?;
        let project: ProjectId = ids_of(&page(server, "limit=1", &ann.access_token).await?)?[0];
        let before = server.cluster.logged();
        let mut forged = forged(&genuine)?;
        forged.push(project.to_string());
        forged.push(project.uuid().to_string());
        for cursor in &forged {
            refused(server, &format!("cursor={cursor}"), &ann.access_token).await?;
        }
        refused(server, &format!("cursor={genuine}&cursor={genuine}"), &ann.access_token).await?;
        assert_eq!(statements_with(server, before, "from contents")?, 0, "a forged cursor was looked up");
        let errors = server.cluster.log_since(before)?;
        assert!(!errors.contains(&format!("] {} ERROR:", server.database)), "PostgreSQL complained");
        let behind = page(server, &format!("cursor={genuine}"), &ann.access_token).await?;
        assert_eq!(ids_of(&behind)?.len(), 2);
        assert_eq!(statements_with(server, before, "from contents")?, 1, "the counting is wrong");
        Ok(())
    })
}

#[test]
fn a_limit_is_a_plain_number_from_one_to_a_hundred() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        for limit in ["1", "9", "50", "100"] {
            page(server, &format!("limit={limit}"), &ann.access_token).await?;
        }
        for limit in [
            "",
            "0",
            "00",
            "101",
            "1000",
            "99999999999999999999",
            "65537",
            "abc",
            "+5",
            "%2B5",
            "05",
            "-1",
            "-0",
            "5.0",
            "5.",
            "1e1",
            "0x10",
            "5%20",
            "%205",
            "5,5",
            "5_0",
            "%D9%A5",
            "%EF%BC%95",
            "5%00",
            "null",
            "Infinity",
        ] {
            refused(server, &format!("limit={limit}"), &ann.access_token).await?;
        }
        for query in ["limit=5&limit=5", "limit=5&limit=6", "limit", "Limit=5", "limit[]=5", "%6Cimit=5&limit=5"] {
            refused(server, query, &ann.access_token).await?;
        }
        for query in
            ["offset=1", "page=2", "order=name", "Cursor=x", "cursor[]=x", "nextCursor=x", "x", "=", "%", "q=%ff"]
        {
            refused(server, query, &ann.access_token).await?;
        }
        Ok(())
    })
}
