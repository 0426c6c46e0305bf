//! Bodies: what is read, what is refused, and that a form and JSON are one request.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher as _, Hasher as _, RandomState},
};

use anyhow::Result;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};
use service_api::oauth::{OTP_GRANT, TokenRequest};
use service_testkit::{
    response::TestResponse,
    server::{Setup, TestServer, with_server},
};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

async fn send(server: &TestServer, path: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Result<TestResponse> {
    let request = server.http.request(Method::POST, path).header("content-type", content_type);
    server.http.send(request.body(body.into())).await
}

async fn count(server: &TestServer, table: &str) -> Result<Option<String>> {
    server.sql(&format!("select count(*) from {table}")).await
}

#[test]
fn json_that_two_readers_could_understand_differently_is_refused_ht_01() -> Result<()> {
    with_server(async |server| {
        let deep = format!(r#"{{"email":"a@acme.test","x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let vectors: &[&[u8]] = &[
            br#"{"email":"a@acme.test","email":"b@acme.test"}"#,
            br#"{"email":"a@acme.test","email":"a@acme.test"}"#,
            br#"{"email":"a@acme.test","\u0065mail":"b@acme.test"}"#,
            br#"{"email":"a@acme.test","admin":true}"#,
            br#"{"email":"a@acme.test","Email":"b@acme.test"}"#,
            br#"{"email":"a@acme.test\u0000"}"#,
            br#"{"email":"a@acme.test","\u0000":1}"#,
            br#"{"email":"\ud800@acme.test"}"#,
            b"\xef\xbb\xbf{\"email\":\"a@acme.test\"}",
            b"{\"email\":\"a\xff@acme.test\"}",
            b"\xff\xfe{\0\"\0e\0",
            br#"{"email":"a@acme.test"} x"#,
            br#"{"email":"a@acme.test"}{"email":"b@acme.test"}"#,
            br#"{"email":"a@acme.test",}"#,
            br#"{"email":"a@acme.test"/**/}"#,
            br"{'email':'a@acme.test'}",
            br#"{"email":1e999}"#,
            br#"{"email":NaN}"#,
            br#"{"email":["a@acme.test"]}"#,
            br#"{"email":{"a":"a@acme.test"}}"#,
            br#"{"email":null}"#,
            br#"["a@acme.test"]"#,
            br#""a@acme.test""#,
            b"null",
            b"{}",
            b"",
            deep.as_bytes(),
        ];
        for vector in vectors {
            for path in ["/v1/otp-tokens", "/v1/login-options"] {
                let response = send(server, path, JSON, *vector).await?;
                let shown = String::from_utf8_lossy(vector);
                // An object can be read, and a field is missing.
                let expected = if *vector == b"{}" { (422, "validation_failed") } else { (400, "invalid_request") };
                assert_eq!((response.status.as_u16(), response.error()), expected, "{path} {shown:.80}");
            }
        }
        assert_eq!(count(server, "otps").await?.as_deref(), Some("0"));
        assert_eq!(count(server, "outbox").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn what_was_sent_is_not_echoed_in_the_complaint_ht_01() -> Result<()> {
    with_server(async |server| {
        for body in [
            r#"{"email":"a@acme.test","canary name":"canary-value"}"#,
            r#"{"email":["canary-value"]}"#,
            r#"{"email":"canary-value","email":"canary-value"}"#,
            r#"{"email":"canary-value"}"#,
            r"canary-value",
        ] {
            let response = send(server, "/v1/otp-tokens", JSON, body).await?;
            assert_eq!(response.status, 400, "{body}");
            assert!(!response.text.contains("canary"), "{}", response.text);
        }
        for content_type in ["canary/value", "application/json; charset=canary"] {
            let response = send(server, "/v1/otp-tokens", content_type, "{}").await?;
            assert_eq!(response.status, 415, "{content_type}");
            assert!(!response.text.contains("canary"), "{}", response.text);
        }
        Ok(())
    })
}

#[test]
fn only_the_documented_media_types_are_read_ht_02() -> Result<()> {
    with_server(async |server| {
        let body = r#"{"email":"a@acme.test"}"#;
        let post = |path| server.http.request(Method::POST, path).body(body);
        for path in ["/v1/otp-tokens", "/v1/login-options", "/oauth/token"] {
            let mut refused = vec![server.http.send(post(path)).await?];
            for content_type in [
                "",
                "text/plain",
                "text/json",
                "application/json; charset=utf-16",
                "application/json; charset=iso-8859-1",
                "application/json, text/plain",
                "application/jsonp",
                "application/merge-patch+json",
                "multipart/form-data; boundary=x",
                "application/x-www-form-urlencoded; charset=utf-16",
            ] {
                refused.push(server.http.send(post(path).header("content-type", content_type)).await?);
            }
            let twice = post(path).header("content-type", JSON).header("content-type", "text/plain");
            refused.push(server.http.send(twice).await?);
            let same_twice = post(path).header("content-type", JSON).header("content-type", JSON);
            refused.push(server.http.send(same_twice).await?);
            for (place, response) in refused.iter().enumerate() {
                let got = (response.status.as_u16(), response.error());
                assert_eq!(got, (415, "unsupported_media_type"), "{path}, vector {place}");
            }
        }
        // Forms are for `/oauth` only.
        assert_eq!(send(server, "/v1/otp-tokens", FORM, "email=a%40acme.test").await?.status, 415);
        assert_eq!(count(server, "otps").await?.as_deref(), Some("0"));
        for content_type in [JSON, "Application/JSON", "application/json;charset=UTF-8"] {
            assert_eq!(send(server, "/v1/login-options", content_type, body).await?.status, 200, "{content_type}");
        }
        Ok(())
    })
}

/// A small generator of its own (xorshift), so that a failure can be repeated by its seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % bound
    }

    /// Parameters of a token request: most often what is usual, which is the first. `-` is none, LIVE the real value.
    fn parameters(&mut self) -> Vec<(&'static str, &'static str)> {
        let mut parameters = Vec::new();
        for name in TokenRequest::PARAMETERS.iter().copied().chain(["nonsense"]) {
            let values: &[&str] = match name {
                "grant_type" => &[OTP_GRANT, "-", "", "password", "client_credentials", " "],
                "client_id" => &["-", "", "service-cli", "service-web", "service-mcp", "unknown", "a\u{1}é\"\\"],
                "client_secret" => &["-", "", "hush", " "],
                "scope" => &["-", "", "read", "read write", "admin", "read\nwrite", "  read  ", "openid"],
                "resource" => &["-", "", "https://service.test/v1", "https://service.test/v1/"],
                "workspace_id" => &["-", "", "personal", "wsp_00000000000000000000000000"],
                "otp_id" => &["LIVE", "-", "", "otp_00000000000000000000000000", "x+y &=%00"],
                "code" => &["LIVE", "-", "", "00000000", "0000 0000", "\u{0}", "LIVE ", "LIVE0"],
                _ => &["-", "a[]", "\u{feff}"],
            };
            let place = if self.below(4) > 0 { 0 } else { self.below(values.len()) };
            if values[place] != "-" {
                parameters.push((name, values[place]));
            }
        }
        if self.below(10) == 0 && !parameters.is_empty() {
            parameters.push(parameters[self.below(parameters.len())]);
        }
        parameters
    }
}

fn filled<'a>(parameters: &[(&'a str, &str)], otp_id: &str, code: &str) -> Vec<(&'a str, String)> {
    let fill = |name: &str, value: &str| value.replace("LIVE", if name == "code" { code } else { otp_id });
    parameters.iter().map(|(name, value)| (*name, fill(name, value))).collect()
}

fn as_form(parameters: &[(&str, String)]) -> String {
    let escape = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs = parameters.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Written by hand, because a map could not hold a parameter twice.
fn as_json(parameters: &[(&str, String)]) -> String {
    let pairs = parameters.iter().map(|(name, value)| format!("{}:{}", json!(name), json!(value)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

/// What was done to each code, by address: tries counted, whether it is spent, and sign-ins of the address.
async fn effects(server: &TestServer) -> Result<Vec<String>> {
    let statement = "select concat(attempts, ' ', consumed_at is not null, ' ',
            (select count(*) from grants join emails using (user_id) where emails.address = otps.address))
       from otps order by address";
    let rows = server.app.database.connect().await?.query(statement, &[]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

fn told(response: &TestResponse) -> (u16, &str, &Value) {
    (response.status.as_u16(), response.error(), &response.body["scope"])
}

#[test]
fn a_form_and_json_are_one_request_ht_03() -> Result<()> {
    let seed = RandomState::new().build_hasher().finish() | 1;
    let setup = ["otp_sends_per_address", "otp_failures_per_address"]
        .iter()
        .fold(Setup::default(), |setup, limit| setup.set(&format!("limits.{limit}"), "100000/60"));
    setup.set("limits.otp_failures", "100000+100000").run(async |server| {
        let mut draws = Draws(seed);
        let (form_side, json_side) = ("form@acme.test", "json@acme.test");
        let (mut live, mut spent, mut met) = (Default::default(), true, BTreeSet::new());
        for case in 0..300 {
            if spent || case % 20 == 0 {
                live = tokio::try_join!(server.request_code(form_side), server.request_code(json_side))?;
            }
            let parameters = draws.parameters();
            let form = send(server, "/oauth/token", FORM, as_form(&filled(&parameters, &live.0.0, &live.0.1))).await?;
            let json = send(server, "/oauth/token", JSON, as_json(&filled(&parameters, &live.1.0, &live.1.1))).await?;
            assert_eq!(told(&form), told(&json), "seed {seed}, case {case}: {parameters:?}");
            let effects = effects(server).await?;
            assert_eq!(effects[0], effects[1], "seed {seed}, case {case}: {parameters:?}");
            spent = effects[0].contains(" t ");
            met.insert((form.status.as_u16(), form.error().to_owned()));
        }
        // The draw must have met success and the usual refusals, or nothing would have been compared.
        for (status, error) in [(200, ""), (400, "invalid_grant"), (400, "invalid_request"), (401, "invalid_client")] {
            assert!(met.contains(&(status, error.to_owned())), "seed {seed}: {met:?}");
        }
        Ok(())
    })
}

#[test]
fn a_form_is_decoded_in_one_way_ht_04() -> Result<()> {
    with_server(async |server| {
        let grant = format!("grant_type={}", OTP_GRANT.replace(':', "%3A"));
        let (otp_id, code) = server.request_code("ann@acme.test").await?;
        let whole = format!("{grant}&otp_id={otp_id}&code={code}");
        let more = |count: usize| (0..count).map(|number| format!("&p{number}=")).collect::<Vec<_>>().concat();
        let long = "a".repeat(16 * 1024);
        for (form, expected) in [
            (format!("{whole}&p[]=1&p[]=2"), "invalid_request"),
            (format!("{whole}{}", more(98)), "invalid_request"),
            (format!("{whole}{}", more(1_000)), "invalid_request"),
            (format!("{whole}&x=%"), "invalid_request"),
            (format!("{whole}&x=%4"), "invalid_request"),
            (format!("{whole}&x=%zz"), "invalid_request"),
            (format!("{whole}&x=%c0%80"), "invalid_request"),
            (format!("{whole}&x=%ed%a0%80"), "invalid_request"),
            (format!("{whole}&x=%00"), "invalid_request"),
            (format!("{grant};otp_id={otp_id};code={code}"), "unsupported_grant_type"),
            (format!("{grant}&otp_id={otp_id};code={code}"), "invalid_request"),
            (format!("{grant}&otp_id={otp_id}&code[]={code}"), "invalid_request"),
            (format!("{grant}&otp_id={otp_id}&code.code={code}"), "invalid_request"),
            (format!("{grant}&otp_id={otp_id}&Code={code}"), "invalid_request"),
            (format!("{grant}&otp_id={otp_id}&code={long}"), "invalid_grant"),
            (format!("{grant}&otp_id={long}&code={code}"), "invalid_grant"),
        ] {
            let response = send(server, "/oauth/token", FORM, form.clone()).await?;
            assert_eq!(
                (response.status.as_u16(), response.error()),
                (400, expected),
                "{:.60}",
                form.replace(&code, "…")
            );
        }
        assert_eq!(effects(server).await?, ["0 f 0"]);
        // `+` and `%20` are both spaces, unknown parameters are ignored, and a hundred are not too many.
        let halves = format!("{}+{}%20", &code[..4], &code[4..]);
        let form = format!("{grant}&otp_id={otp_id}&code={halves}&&{}", more(97));
        let response = send(server, "/oauth/token", FORM, form).await?;
        assert_eq!(response.status, 200, "{}", response.error());
        Ok(())
    })
}
