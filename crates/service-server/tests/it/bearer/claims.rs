//! What a token says, when our own key signed it and it still must not open anything: its times, type, issuer,
//! audience, and JSON that two readers could understand differently.

use anyhow::Result;
use serde_json::{Value, json};
use service_rules::lifetimes::CLOCK_SKEW;
use service_testkit::{server::with_server, settings::BASE_URL};

use crate::support::{
    bearer::{accepted, list_projects, refused},
    forge::{Draft, Forge},
};

/// With a claim set, or removed.
fn with_claim(draft: &Draft, name: &str, value: Option<Value>) -> Result<Draft> {
    let mut claims: serde_json::Map<String, Value> = serde_json::from_str(&draft.payload)?;
    match value {
        Some(value) => claims.insert(name.to_owned(), value),
        None => claims.remove(name),
    };
    Ok(draft.with_payload(&serde_json::to_string(&claims)?))
}

#[test]
fn a_token_works_within_its_times_only_br_06() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let forge = Forge::of(server).await?;
        let (draft, now) = (forge.draft(server, &ann)?, server.now().as_second());
        for (name, at) in
            [("exp", now - CLOCK_SKEW), ("exp", now + 3_600), ("nbf", now + CLOCK_SKEW), ("iat", now + CLOCK_SKEW)]
        {
            accepted(server, &forge.sign(&with_claim(&draft, name, Some(at.into()))?)?, name).await?;
        }
        let late = forge.sign(&with_claim(&draft, "exp", Some((now - CLOCK_SKEW - 1).into()))?)?;
        let response = list_projects(server, &late).await?;
        assert_eq!((response.status.as_u16(), response.error()), (401, "invalid_token"));
        assert_eq!(response.body["details"]["reason"], "expired");
        for (name, at) in [("nbf", 31), ("nbf", 60), ("nbf", i64::MAX - now), ("iat", 31), ("iat", 600)] {
            let draft = with_claim(&draft, name, Some((now + at).into()))?;
            refused(server, &forge.sign(&draft)?, &format!("{name} in {at} seconds")).await?;
        }
        let plain = format!("\"exp\":{}", now + 900);
        for wrong in [
            format!("\"exp\":\"{}\"", now + 900),
            format!("\"exp\":{}.5", now + 900),
            format!("\"exp\":{}.0", now + 900),
            "\"exp\":1e400".to_owned(),
            "\"exp\":1e18".to_owned(),
            "\"exp\":18446744073709551615".to_owned(),
            "\"exp\":9223372036854775808".to_owned(),
            format!("\"exp\":{}", i64::MAX),
            format!("\"exp\":{}", now + 3_601),
            "\"exp\":-1".to_owned(),
            format!("\"exp\":-{}", now + 900),
            "\"exp\":0".to_owned(),
            "\"exp\":null".to_owned(),
            "\"exp\":true".to_owned(),
            format!("\"exp\":[{}]", now + 900),
            format!("\"EXP\":{}", now + 900),
            format!("\"exp \":{}", now + 900),
        ] {
            refused(server, &forge.sign(&draft.payload_edit(&plain, &wrong)?)?, &wrong).await?;
        }
        for wrong in [json!(-1), json!(0), json!(i64::MIN), json!("1"), json!(1.5), Value::Null] {
            refused(server, &forge.sign(&with_claim(&draft, "iat", Some(wrong.clone()))?)?, &format!("iat {wrong}"))
                .await?;
        }
        for wrong in [json!("1"), json!(1.5), json!([1])] {
            refused(server, &forge.sign(&with_claim(&draft, "nbf", Some(wrong.clone()))?)?, &format!("nbf {wrong}"))
                .await?;
        }
        Ok(())
    })
}

#[test]
fn only_an_access_token_is_an_access_token_br_12() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let forge = Forge::of(server).await?;
        let draft = forge.draft(server, &ann)?;
        accepted(server, &forge.sign(&draft)?, "the genuine token").await?;
        for typ in [
            "JWT",
            "jwt",
            "id+jwt",
            "logout+jwt",
            "secevent+jwt",
            "dpop+jwt",
            "oauth-authz-req+jwt",
            "token-introspection+jwt",
            "at+JWT",
            "AT+JWT",
            "application/at+jwt",
            "at+jwt ",
            "at+jw",
            "at+jwtx",
            "",
        ] {
            refused(server, &forge.sign(&draft.header_edit("at+jwt", typ)?)?, typ).await?;
        }
        for typ in ["", r#","typ":null"#, r#","typ":["at+jwt"]"#, r#","typ":1"#, r#","TYP":"at+jwt""#] {
            refused(server, &forge.sign(&draft.header_edit(r#","typ":"at+jwt""#, typ)?)?, typ).await?;
        }
        // What an identity provider says about a sign-in and a sign-out, under our key.
        let id_token = json!({ "iss": BASE_URL, "sub": ann.user_id, "aud": "service-cli", "nonce": "n",
            "exp": server.now().as_second() + 900, "iat": server.now().as_second() });
        let event = "http://schemas.openid.net/event/backchannel-logout";
        let logout = json!({ "iss": BASE_URL, "sub": ann.user_id, "aud": "service-cli", "jti": "j", "sid": "s",
            "iat": server.now().as_second(), "events": { event: {} } });
        for (name, claims) in [("an ID token", id_token), ("a logout token", logout)] {
            refused(server, &forge.sign(&draft.with_payload(&claims.to_string()))?, name).await?;
        }
        Ok(())
    })
}

#[test]
fn issuer_audience_client_and_subject_are_ours_to_the_byte_br_13() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let forge = Forge::of(server).await?;
        let draft = forge.draft(server, &ann)?;
        accepted(server, &forge.sign(&draft)?, "the genuine token").await?;
        let (audience, bare) = (format!("{BASE_URL}/v1"), BASE_URL.trim_start_matches("https://"));
        let user = ann.user_id.to_string();
        let vectors = [
            ("iss", json!(format!("{BASE_URL}/"))),
            ("iss", json!(format!("http://{bare}"))),
            ("iss", json!(format!("https://{bare}:443"))),
            ("iss", json!(format!("https://{}", bare.to_uppercase()))),
            ("iss", json!(format!("https://{bare}.evil.example"))),
            ("iss", json!(format!("https://{bare}@evil.example"))),
            ("iss", json!("https://other.example")),
            ("iss", json!("")),
            ("iss", json!([BASE_URL])),
            ("aud", json!(BASE_URL)),
            ("aud", json!(format!("{BASE_URL}/mcp/"))),
            ("aud", json!(format!("{audience}/"))),
            ("aud", json!(format!("{audience}1"))),
            ("aud", json!(format!("{audience} "))),
            ("aud", json!(audience.to_uppercase())),
            ("aud", json!("service-cli")),
            ("aud", json!("*")),
            ("aud", json!("")),
            ("aud", json!([])),
            ("aud", json!([audience])),
            ("aud", json!([audience, "https://other.example"])),
            ("aud", json!([format!("{BASE_URL}/mcp"), audience])),
            ("aud", json!({ "0": audience })),
            ("client_id", json!("")),
            ("client_id", json!(1)),
            ("client_id", json!(["service-cli"])),
            ("sub", json!("")),
            ("sub", json!(user.to_uppercase())),
            ("sub", json!(user.replace("user_", "wsp_"))),
            ("sub", json!(user.replace("user_", ""))),
            ("sub", json!(format!("{user} "))),
            ("sub", json!("' or '1'='1")),
            ("sub", json!([user])),
            ("sub", json!(1)),
            ("scope", json!(["read"])),
            ("workspace", json!("")),
            ("workspace", json!("personal")),
            ("workspace", json!(user)),
        ];
        for (name, value) in vectors {
            let what = format!("{name} {value}");
            refused(server, &forge.sign(&with_claim(&draft, name, Some(value))?)?, &what).await?;
        }
        for name in ["iss", "sub", "aud", "exp", "iat", "jti", "client_id", "scope", "grant"] {
            refused(server, &forge.sign(&with_claim(&draft, name, None)?)?, &format!("no {name}")).await?;
            refused(server, &forge.sign(&with_claim(&draft, name, Some(Value::Null))?)?, &format!("null {name}"))
                .await?;
        }
        Ok(())
    })
}

#[test]
fn a_token_can_be_read_in_one_way_only_br_14() -> Result<()> {
    with_server(async |server| {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "read").await?, server.sign_in("bob@acme.test", "read").await?);
        let forge = Forge::of(server).await?;
        let draft = forge.draft(server, &ann)?;
        accepted(server, &forge.sign(&draft)?, "the genuine token").await?;
        let (open, deep) = ("{\"iss\"", "[".repeat(1_000) + &"]".repeat(1_000));
        let deep_objects = r#"{"a":"#.repeat(1_000) + "1" + &"}".repeat(1_000);
        let (scope, bob_id) = ("\"scope\":\"read write\"", bob.user_id);
        for (from, to) in [
            (scope, format!("{scope},{scope}")),
            (scope, format!("\"scope\":\"\",{scope}")),
            (scope, format!("{scope},\"sc\\u006fpe\":\"read\"")),
            (scope, format!("{scope},\"sub\":\"{bob_id}\"")),
            (scope, format!("{scope},\"s\\u0075b\":\"{bob_id}\"")),
            (scope, format!("{scope},\"exp\":1")),
            (scope, format!("{scope},\"x\":{{\"y\":1,\"y\":1}}")),
            (scope, format!("{scope},\"x\":[{{\"y\":1,\"y\":1}}]")),
            (scope, format!("{scope},\"x\":{deep}")),
            (scope, format!("{scope},\"x\":{deep_objects}")),
            (scope, format!("{scope},\"x\":\"\\u0000\"")),
            (scope, format!("{scope},\"x\":\"\\ud800\"")),
            (scope, format!("{scope},\"x\":\"{}\"", "x".repeat(8 * 1024))),
            ("\"sub\"", "\"SUB\"".to_owned()),
            ("\"sub\"", "\"Sub\"".to_owned()),
            ("\"sub\"", "\"ſub\"".to_owned()),
            (open, format!("\u{feff}{open}")),
            (open, format!("[{open}")),
            (open, format!("{{}}{open}")),
            ("\"}", "\"}{}".to_owned()),
            ("\"}", "\",}".to_owned()),
            ("\"}", "\"} x".to_owned()),
            ("\"}", "\"".to_owned()),
        ] {
            let what = format!("{}… instead of {from}", to.chars().take(60).collect::<String>());
            refused(server, &forge.sign(&draft.payload_edit(from, &to)?)?, &what).await?;
        }
        let (alg, kid) = ("\"alg\":\"ES256\"", format!("\"kid\":\"{}\"", forge.kid));
        for twice in [
            format!("{alg},{alg}"),
            format!("{alg},\"alg\":\"none\""),
            format!("\"alg\":\"none\",{alg}"),
            format!("{alg},\"\\u0061lg\":\"ES256\""),
            format!("{alg},\"ALG\":\"none\""),
            format!("{alg},{kid}"),
            format!("{alg},\"typ\":\"at+jwt\""),
        ] {
            refused(server, &forge.sign(&draft.header_edit(alg, &twice)?)?, &twice).await?;
        }
        // A name in another case is another claim: it changes nothing and does not make the caller Bob.
        let both = forge.sign(&draft.payload_edit(scope, &format!("{scope},\"SUB\":\"{bob_id}\""))?)?;
        let whoami = server.http.get("/v1/whoami", Some(&both)).await?;
        assert_eq!(whoami.body["user"]["email"], "ann@acme.test");
        Ok(())
    })
}

#[test]
fn a_token_is_at_most_eight_kilobytes_br_14() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let forge = Forge::of(server).await?;
        let draft = forge.draft(server, &ann)?;
        let padded = |length: usize| draft.payload_edit("{", &format!("{{\"pad\":\"{}\",", "x".repeat(length)));
        let room = (8 * 1024 - forge.sign(&padded(0)?)?.len()) / 4 * 3;
        accepted(server, &forge.sign(&padded(room)?)?, "a token of eight kilobytes").await?;
        refused(server, &forge.sign(&padded(room + 6)?)?, "a token of more than eight kilobytes").await?;
        refused(server, &forge.sign(&padded(8_500)?)?, "a token of eleven kilobytes").await?;
        let huge = format!("Authorization: Bearer {}", forge.sign(&padded(768 * 1024)?)?);
        let response =
            server.http.raw(format!("GET /v1/projects HTTP/1.1\r\nHost: a\r\n{huge}\r\n\r\n").as_bytes()).await?;
        // The server may hang up on the rest of the megabyte before its answer could be read.
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 431 "), "a megabyte was not refused");
        accepted(server, &forge.sign(&draft)?, "the next token").await
    })
}
