//! `POST /oauth/token`, whatever the grant, as a form and as JSON.

use anyhow::{Result, ensure};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use service_api::oauth::{OTP_GRANT, TokenRequest};
use service_testkit::{
    response::TestResponse,
    server::{TestServer, with_server},
};

const PATH: &str = "/oauth/token";

type Parameters<'a> = Vec<(&'a str, &'a str)>;

/// Builds a request with these parameters as a form, and one with them as JSON. JSON is put together by hand: a map could
/// not hold a parameter twice.
fn both(server: &TestServer, parameters: &[(&str, &str)]) -> [RequestBuilder; 2] {
    let escape = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let form: Vec<_> = parameters.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
    let json: Vec<_> = parameters.iter().map(|(name, value)| format!("{}:{}", json!(name), json!(value))).collect();
    let post = |media_type| server.http.request(Method::POST, PATH).header("content-type", media_type);
    [
        post("application/x-www-form-urlencoded").body(form.join("&")),
        post("application/json").body(format!("{{{}}}", json.join(","))),
    ]
}

async fn check_refused(server: &TestServer, parameters: &[(&str, &str)], status: u16, code: &str) -> Result<()> {
    for (place, request) in both(server, parameters).into_iter().enumerate() {
        let response = server.http.send(request).await?;
        let names: Vec<_> = parameters.iter().map(|(name, _)| *name).collect();
        ensure!(
            (response.status.as_u16(), response.error()) == (status, code),
            "{place} {names:?}: {}",
            response.error()
        );
        let challenge = (status == 401).then_some("Basic realm=\"service\"");
        ensure!(response.header("www-authenticate") == challenge, "another challenge");
    }
    Ok(())
}

fn right<'a>(otp_id: &'a str, code: &'a str) -> Parameters<'a> {
    vec![("grant_type", OTP_GRANT), ("otp_id", otp_id), ("code", code)]
}

/// No try was counted and nothing was spent: the code still signs in.
async fn check_untouched(server: &TestServer, otp_id: &str, code: &str) -> Result<()> {
    let touched = server.sql("select count(*) from otps where attempts > 0 or consumed_at is not null").await?;
    ensure!(touched.as_deref() == Some("0"), "a code was touched");
    let response = server.exchange(otp_id, code, "read").await?;
    ensure!(response.status == 200, "the code does not work any more: {}", response.error());
    Ok(())
}

#[test]
fn tokens_are_asked_for_by_post_only_tk_01() -> Result<()> {
    with_server(async |server| {
        for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
            let request = server.http.request(Method::from_bytes(method.as_bytes())?, PATH);
            let response = server.http.send(request).await?;
            assert_eq!(response.status, 405, "{method}");
            assert_eq!(response.header("allow"), Some("POST"), "{method}");
        }
        Ok(())
    })
}

#[test]
fn a_grant_type_that_leads_nowhere_is_refused_tk_02() -> Result<()> {
    with_server(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        for (grant_type, error) in [
            (None, "invalid_request"),
            (Some(""), "invalid_request"),
            (Some("password"), "unsupported_grant_type"),
            (Some("implicit"), "unsupported_grant_type"),
            (Some("otp"), "unsupported_grant_type"),
            (Some("urn:ietf:params:oauth:grant-type:token-exchange"), "unsupported_grant_type"),
            (Some(&format!(" {OTP_GRANT}")), "unsupported_grant_type"),
            (Some(&OTP_GRANT.to_uppercase()), "unsupported_grant_type"),
            (Some("client_credentials"), "unauthorized_client"),
        ] {
            let mut parameters = right(&otp_id, &code);
            parameters.retain(|(name, _)| *name != "grant_type");
            parameters.extend(grant_type.map(|grant_type| ("grant_type", grant_type)));
            check_refused(server, &parameters, 400, error).await?;
        }
        for grant_type in [json!(null), json!(1), json!([OTP_GRANT]), json!({ "a": OTP_GRANT })] {
            let body = json!({ "grant_type": grant_type, "otp_id": otp_id, "code": code });
            let response = server.http.post(PATH, &body).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"), "{grant_type}");
        }
        check_untouched(server, &otp_id, &code).await
    })
}

#[test]
fn a_parameter_sent_twice_is_refused_tk_03() -> Result<()> {
    with_server(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        for name in TokenRequest::PARAMETERS.iter().copied().chain(["unknown"]) {
            let value = match name {
                "grant_type" => OTP_GRANT,
                "otp_id" => &otp_id,
                "code" => &code,
                _ => "read",
            };
            // The same twice, an empty one behind it, and an empty one in front.
            for pair in [[value, value], [value, ""], ["", value]] {
                let mut parameters = right(&otp_id, &code);
                parameters.retain(|(other, _)| *other != name);
                parameters.extend(pair.map(|value| (name, value)));
                check_refused(server, &parameters, 400, "invalid_request").await?;
            }
        }
        let escaped =
            format!(r#"{{"grant_type":"{OTP_GRANT}","otp_id":"{otp_id}","code":"{code}","\u0063ode":"{code}"}}"#);
        let request = server.http.request(Method::POST, PATH).header("content-type", "application/json");
        assert_eq!(server.http.send(request.body(escaped)).await?.error(), "invalid_request");
        check_untouched(server, &otp_id, &code).await
    })
}

#[test]
fn nothing_is_taken_from_the_query_tk_04() -> Result<()> {
    with_server(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let whole = right(&otp_id, &code);
        // Each parameter alone in the query with the rest in the body, all of them, and one that is in both places.
        let mut cases: Vec<(Parameters, Parameters)> =
            vec![(whole.clone(), Vec::new()), (whole.clone(), whole.clone())];
        for moved in &whole {
            cases.push((vec![*moved], whole.iter().copied().filter(|other| other != moved).collect()));
        }
        cases.push((vec![("scope", "read write")], whole.clone()));
        cases.push((vec![("unknown", "")], whole.clone()));
        for (query, body) in cases {
            let query: Vec<_> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
            for request in both(server, &body) {
                let (client, request) = request.build_split();
                let mut request = request?;
                request.url_mut().set_query(Some(&query.join("&")));
                let response = server.http.send(RequestBuilder::from_parts(client, request)).await?;
                assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_request"));
            }
        }
        check_untouched(server, &otp_id, &code).await
    })
}

#[test]
fn a_public_client_with_a_secret_is_not_that_client_tk_09() -> Result<()> {
    with_server(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        for secret in ["hush", " ", "0", "null"] {
            for client_id in [None, Some("service-cli"), Some("service-web"), Some("service-mcp"), Some("unknown")] {
                let mut parameters = right(&otp_id, &code);
                parameters.push(("client_secret", secret));
                parameters.extend(client_id.map(|client_id| ("client_id", client_id)));
                check_refused(server, &parameters, 401, "invalid_client").await?;
            }
        }
        check_untouched(server, &otp_id, &code).await
    })
}

#[test]
fn a_parameter_without_a_value_counts_as_left_out_tk_09() -> Result<()> {
    with_server(async |server| {
        for (place, email) in ["form@acme.test", "json@acme.test"].into_iter().enumerate() {
            let (otp_id, code) = server.request_code(email).await?;
            let mut parameters = right(&otp_id, &code);
            parameters
                .extend(["client_secret", "client_id", "scope", "resource", "workspace_id"].map(|name| (name, "")));
            let [form, json] = both(server, &parameters);
            let response = server.http.send(if place == 0 { form } else { json }).await?;
            assert_eq!(
                (response.status.as_u16(), response.field("scope")),
                (200, "read"),
                "{email}: {}",
                response.error()
            );
        }
        for missing in ["otp_id", "code"] {
            let (otp_id, code) = ("otp_00000000000000000000000000", "00000000");
            let mut parameters = right(otp_id, code);
            parameters.retain(|(name, _)| *name != missing);
            parameters.push((missing, ""));
            check_refused(server, &parameters, 400, "invalid_request").await?;
        }
        Ok(())
    })
}

#[test]
fn a_client_gets_only_the_grants_it_may_use_tk_10() -> Result<()> {
    with_server(async |server| {
        server
            .sql(
                "insert into clients (id, name, kind, first_party, may_use_otp, created_at)
                  values ('other', 'Another', 'registered', false, true, now()),
                         ('other2', 'Another', 'registered', false, false, now())",
            )
            .await?;
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        for client_id in ["service-mcp", "other", "other2"] {
            let parameters = [right(&otp_id, &code), vec![("client_id", client_id)]].concat();
            check_refused(server, &parameters, 400, "unauthorized_client").await?;
        }
        check_untouched(server, &otp_id, &code).await
    })
}

#[test]
fn a_disabled_or_unknown_client_gets_nothing_and_spends_nothing_tk_11() -> Result<()> {
    with_server(async |server| {
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        server.sql("update clients set disabled_at = now() where id = 'service-cli'").await?;
        check_refused(server, &right(&otp_id, &code), 401, "invalid_client").await?;
        for client_id in ["service-cli", "SERVICE-CLI", "service-web ", "service-cl", "' or true --", "\u{1}", "é"] {
            let parameters = [right(&otp_id, &code), vec![("client_id", client_id)]].concat();
            check_refused(server, &parameters, 401, "invalid_client").await?;
        }
        server.sql("update clients set disabled_at = null").await?;
        check_untouched(server, &otp_id, &code).await
    })
}

/// One answer of each kind this endpoint gives.
async fn responses(
    server: &TestServer,
    decorate: impl Fn(RequestBuilder) -> RequestBuilder,
) -> Result<Vec<TestResponse>> {
    let (otp_id, code) = server.request_code("ann@acme.test").await?;
    let wrong = right(&otp_id, "00000000");
    let mut requests = vec![server.http.request(Method::GET, PATH)];
    for parameters in [
        Vec::new(),
        vec![("grant_type", "password")],
        wrong.clone(),
        [wrong, vec![("client_id", "unknown")]].concat(),
        right(&otp_id, &code),
    ] {
        let [form, json] = both(server, &parameters);
        requests.extend([form, json]);
    }
    let mut responses = Vec::new();
    for request in requests {
        responses.push(server.http.send(decorate(request)).await?);
    }
    let statuses: Vec<_> = responses.iter().map(|response| response.status.as_u16()).collect();
    ensure!(statuses == [405, 400, 400, 400, 400, 400, 400, 401, 401, 200, 400], "{statuses:?}");
    Ok(responses)
}

#[test]
fn no_answer_is_stored_on_the_way_tk_12() -> Result<()> {
    with_server(async |server| {
        for response in responses(server, |request| request).await? {
            for (header, value) in [
                ("cache-control", "no-store"),
                ("pragma", "no-cache"),
                ("x-content-type-options", "nosniff"),
                ("content-type", "application/json"),
            ] {
                assert_eq!(response.header(header), Some(value), "{} {header}", response.status);
            }
            for header in ["set-cookie", "etag", "last-modified", "expires", "server", "location"] {
                assert_eq!(response.header(header), None, "{} {header}", response.status);
            }
        }
        Ok(())
    })
}

#[test]
fn cookies_and_origins_change_nothing_tk_13_tk_14() -> Result<()> {
    with_server(async |server| {
        let grants_access = |name: &str| name.starts_with("access-control-") || name == "set-cookie";
        for (name, value) in [("cookie", "__Host-session=a; b=c"), ("origin", "https://evil.test"), ("origin", "null")]
        {
            server.advance(60);
            for response in responses(server, |request| request.header(name, value)).await? {
                assert!(!response.headers.keys().any(|name| grants_access(name.as_str())), "{:?}", response.headers);
            }
        }
        let preflight = server.http.request(Method::OPTIONS, PATH).header("origin", "https://evil.test");
        let preflight = preflight.header("access-control-request-method", "POST");
        let response = server.http.send(preflight.header("access-control-request-headers", "authorization")).await?;
        assert_eq!(response.status, 405);
        assert!(!response.headers.keys().any(|name| grants_access(name.as_str())), "{:?}", response.headers);
        Ok(())
    })
}

#[test]
fn public_clients_cannot_authenticate_by_basic_in_any_encoding_tk_08() -> Result<()> {
    with_server(async |server| {
        let (long, client, grant) = ("A".repeat(8_000), (401, "invalid_client"), (400, "invalid_grant"));
        for text in ["", "!!!!", "Og==", "c2VydmljZS13ZWI6", "JTp4", "AAAA", "w6k6/w==", "a b c", &long] {
            for (scheme, told) in [("Basic", client), ("bASIC", client), ("Bearer", grant), ("", grant)] {
                for request in both(server, &right("otp_00000000000000000000000000", "00000000")) {
                    let response =
                        server.http.send(request.header("authorization", format!("{scheme} {text}"))).await?;
                    assert_eq!((response.status.as_u16(), response.error()), told, "{scheme} {text:.20}");
                }
            }
        }
        Ok(())
    })
}
