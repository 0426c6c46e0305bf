//! Where a token may stand in a request, and what is no token at all.

use anyhow::{Context as _, Result};
use reqwest::Method;
use service_server::crypto::random;
use service_testkit::{
    response::TestResponse,
    server::{TestServer, with_server},
};

use crate::support::access::missing_token;
use crate::support::bearer::{accepted, list_projects, refused, statements_with};

async fn with_headers(server: &TestServer, values: &[&str]) -> Result<TestResponse> {
    let request = server.http.request(Method::GET, "/v1/projects");
    server.http.send(values.iter().fold(request, |request, value| request.header("authorization", *value))).await
}

/// The head of a request with this behind `Authorization: `, byte for byte.
fn raw_request(value: &[u8]) -> Vec<u8> {
    let head = b"GET /v1/projects HTTP/1.1\r\nHost: service.test\r\nConnection: close\r\nAuthorization: ";
    [&head[..], value, b"\r\n\r\n"].concat()
}

fn status_of(response: &str) -> Result<u16> {
    let status = response.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    Ok(status.context("no answer in HTTP")?.parse()?)
}

#[test]
fn who_sends_no_token_is_told_where_to_get_one_br_01() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        missing_token().check(&server.http.get("/v1/projects", None).await?, "no header");
        let token = &ann.access_token;
        for value in [
            String::new(),
            "Bearer".into(),
            "Bearer ".into(),
            "bearer     ".into(),
            "Basic YW5uOnNlY3JldA==".into(),
            "Token abc".into(),
            "Digest username=\"ann\"".into(),
            "DPoP abc".into(),
            "abc".into(),
            // A good token counts as one behind the right word only.
            token.clone(),
            format!("Basic {token}"),
            format!("Token {token}"),
            format!("DPoP {token}"),
            format!("Bearer{token}"),
            format!("Bearer:{token}"),
            format!("Bearer={token}"),
            format!("Bearer\t{token}"),
            format!("XBearer {token}"),
        ] {
            let scheme: String = value.chars().take_while(|mail| *mail != ' ').take(8).collect();
            missing_token().check(&with_headers(server, &[&value]).await?, &scheme);
        }
        Ok(())
    })
}

#[test]
fn the_scheme_has_any_case_and_any_number_of_spaces_br_02() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        for before in ["Bearer ", "bearer ", "BEARER ", "bEaReR ", "Bearer  ", "Bearer      "] {
            let response = with_headers(server, &[&format!("{before}{}", ann.access_token)]).await?;
            assert_eq!(response.status, 200, "{before}");
        }
        Ok(())
    })
}

#[test]
fn two_tokens_are_one_too_many_br_03() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "read").await?, server.sign_in("bob@acme.test", "read").await?);
        let (a, b) = (format!("Bearer {}", ann.access_token), format!("Bearer {}", bob.access_token));
        let (both, spaced) = (format!("{a}, {b}"), format!("{a} {}", bob.access_token));
        let (comma, empty) = (format!("{a},"), format!("{a},{b}"));
        for (name, values) in [
            ("two headers", &[&a[..], &b][..]),
            ("the same header twice", &[&a, &a]),
            ("a header without a token, then a good one", &["Basic YTpi", &a]),
            ("a good header, then one without a token", &[&a, "Basic YTpi"]),
            ("an empty header, then a good one", &["", &a]),
            ("a good header, then an empty one", &[&a, ""]),
            ("three headers", &[&a, &a, &b]),
            ("two behind a comma", &[&both]),
            ("two behind a bare comma", &[&empty]),
            ("two behind a space", &[&spaced]),
            ("a comma behind a good one", &[&comma]),
        ] {
            let response = with_headers(server, values).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"), "{name}");
        }
        Ok(())
    })
}

#[test]
fn a_token_counts_in_its_header_only_and_is_logged_nowhere_br_04() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        accepted(server, &ann.access_token, "the token in its header").await?;
        let canary = format!("canary-{}", random::bytes::<16>()?.map(|byte| format!("{byte:02x}")).concat());
        server.leaks.register("canary", &canary);
        for token in [&ann.access_token, &canary] {
            for path in ["/v1/projects", "/v1/whoami"] {
                let get = |query: &str| server.http.request(Method::GET, &format!("{path}{query}"));
                let form = format!("access_token={token}");
                let requests = [
                    ("query", get(&format!("?access_token={token}"))),
                    ("query, other name", get(&format!("?token={token}"))),
                    ("known query", get(&format!("?workspaceId={token}"))),
                    ("known query", get(&format!("?cursor={token}"))),
                    ("form", get("").header("content-type", "application/x-www-form-urlencoded").body(form)),
                    ("json", get("").json(&serde_json::json!({ "access_token": token }))),
                    ("cookie", get("").header("cookie", format!("access_token={token}; __Host-session={token}"))),
                    ("other header", get("").header("x-access-token", token).header("x-authorization", token)),
                    ("proxy's header", get("").header("proxy-authorization", format!("Bearer {token}"))),
                ];
                for (place, request) in requests {
                    missing_token().check(&server.http.send(request).await?, &format!("{path}: {place}"));
                }
                // Beside a good header it is not silently passed over either: an address ends up in histories.
                let beside = get(&format!("?access_token={token}")).bearer_auth(&ann.access_token);
                let response = server.http.send(beside).await?;
                assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"), "{path}");
            }
        }
        // A path is a place too.
        assert_eq!(server.http.get(&format!("/v1/projects/{canary}"), Some(&canary)).await?.status, 401);
        assert_eq!(server.http.get(&format!("/v1/whoami/{canary}"), Some(&canary)).await?.status, 404);
        let posted = server.http.post_form("/v1/projects", &format!("access_token={canary}")).await?;
        assert_eq!((posted.status.as_u16(), posted.error()), (401, "missing_token"));
        Ok(())
    })
}

#[test]
fn a_header_of_any_bytes_is_refused_and_breaks_nothing_br_05() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let token = ann.access_token.as_bytes();
        let good = server.http.raw(&raw_request(&[b"Bearer ", token].concat())).await?;
        assert_eq!(status_of(&good)?, 200, "the raw request is wrong");
        for byte in (0..=255_u8).filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e)) {
            let places = [
                [b"Bearer ", &[byte][..]].concat(),
                [b"Bearer ", token, &[byte][..]].concat(),
                [b"Bearer ", &[byte][..], token].concat(),
                [b"Bearer", &[byte][..], token].concat(),
                vec![byte; 40],
            ];
            for (place, value) in places.iter().enumerate() {
                let response = server.http.raw(&raw_request(value)).await?;
                assert!(matches!(status_of(&response)?, 400 | 401), "byte {byte:#04x} in place {place}");
            }
        }
        for broken in [&b"\r"[..], b"\n", b"\r\n ", b"\r\n\t", b"\0"] {
            let value = [b"Bearer ", &token[..40], broken, &token[40..]].concat();
            let response = server.http.raw(&raw_request(&value)).await?;
            assert!(matches!(status_of(&response)?, 400 | 401), "a token broken by {broken:?}");
        }
        accepted(server, &ann.access_token, "the next request").await
    })
}

#[test]
fn a_header_of_any_length_is_refused_and_breaks_nothing_br_05() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        for (length, expected) in [(8 * 1024 + 1, 401), (15 * 1024, 401), (16 * 1024, 431), (24 * 1024, 431)] {
            let response = server.http.raw(&raw_request(&[b"Bearer ", &vec![b'a'; length][..]].concat())).await?;
            assert_eq!(status_of(&response)?, expected, "{length}");
            assert!(response.contains("\"error\":\"") && response.contains("\"request_id\":\""), "{length}");
        }
        for length in [64 * 1024, 1024 * 1024] {
            let response = server.http.raw(&raw_request(&[b"Bearer ", &vec![b'a'; length][..]].concat())).await?;
            // The server may hang up on the rest before its answer could be read.
            assert!(response.is_empty() || status_of(&response)? == 431, "{length}");
        }
        accepted(server, &ann.access_token, "the next request").await
    })
}

#[test]
fn what_only_resembles_a_token_opens_nothing_and_costs_no_query_br_17() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let (refresh, access) = (&ann.refresh_token, &ann.access_token);
        let body = &refresh["svc_rt_".len()..];
        let before = server.cluster.logged();
        let mut changed = refresh.clone();
        let last = if changed.pop() == Some('0') { '1' } else { '0' };
        changed.push(last);
        let mut vectors: Vec<(String, String)> = vec![
            ("a genuine refresh token".into(), refresh.clone()),
            ("a wrong checksum".into(), changed),
            ("a refresh token cut short".into(), refresh[..refresh.len() - 1].into()),
            ("a refresh token and more".into(), format!("{refresh}0")),
            ("a refresh token in capitals".into(), refresh.to_uppercase()),
            ("a prefix".into(), "svc_rt_".into()),
            ("a user's id".into(), ann.user_id.to_string()),
            ("a pattern".into(), "~.+/=-_".into()),
            ("an access token and more".into(), format!("{access}A")),
            ("an access token twice".into(), format!("{access}{access}")),
        ];
        for prefix in ["svc_cli_", "svc_mrt_", "svc_ac_", "svc_rt", "SVC_RT_", "svc_", ""] {
            vectors.push((format!("the body behind {prefix}"), format!("{prefix}{body}")));
        }
        for prefix in ["svc_rt_", "svc_cli_", "svc_mrt_", "svc_ac_"] {
            let random = random::bytes::<32>()?.map(|byte| format!("{byte:02x}")).concat();
            vectors.push((format!("{prefix} and a random body"), format!("{prefix}{random}")));
        }
        let cuts = (1..access.len()).filter(|cut| cut % 17 == 0 || access.len() - cut < 8);
        vectors.extend(cuts.map(|cut| (format!("{cut} characters of a token"), access[..cut].to_owned())));
        for (name, token) in &vectors {
            refused(server, token, name).await?;
        }
        for table in ["grants", "otps", "users", "emails", "projects"] {
            let lookups = statements_with(server, before, &format!("from {table}"))?;
            assert_eq!(lookups, 0, "{table}");
        }
        assert_eq!(list_projects(server, access).await?.status, 200);
        Ok(())
    })
}
