//! Every arm of the bearer rules.

use uuid::Uuid;

use super::*;

fn claims() -> Claims {
    Claims {
        iss: "https://service.test".into(),
        sub: Uuid::from_u128(1).into(),
        aud: "https://service.test/v1".into(),
        exp: 1_900,
        iat: 1_000,
        jti: Uuid::from_u128(2).into(),
        client_id: "service-cli".into(),
        scope: "read".into(),
        grant: Uuid::from_u128(3).into(),
        workspace: None,
        nbf: None,
    }
}

fn check(claims: &Claims, now: i64, expected: Result<(), BearerError>) {
    let now = Timestamp::from_second(now).unwrap();
    assert_eq!(judge(claims, "https://service.test", "https://service.test/v1", now), expected, "{claims:?}");
}

#[test]
fn a_token_lives_until_its_end_and_the_skew_br_06() {
    check(&claims(), 1_930, Ok(()));
    check(&claims(), 1_931, Err(BearerError::Expired));
    check(&claims(), 970, Ok(()));
    check(&claims(), 969, Err(BearerError::Invalid));
    check(&Claims { nbf: Some(1_060), ..claims() }, 1_029, Err(BearerError::Invalid));
    check(&Claims { nbf: Some(1_060), ..claims() }, 1_030, Ok(()));
    check(&Claims { exp: 4_600, ..claims() }, 1_000, Ok(()));
    check(&Claims { exp: 4_601, ..claims() }, 1_000, Err(BearerError::Invalid));
    check(&Claims { exp: i64::MAX, ..claims() }, 1_000, Err(BearerError::Invalid));
}

#[test]
fn issuer_and_audience_are_compared_byte_for_byte_br_13() {
    for iss in ["https://service.test/", "https://SERVICE.test", "http://service.test", ""] {
        check(&Claims { iss: iss.into(), ..claims() }, 1_000, Err(BearerError::Invalid));
    }
    for aud in ["https://service.test/mcp/", "https://service.test/v1/", "https://service.test/v11", ""] {
        check(&Claims { aud: aud.into(), ..claims() }, 1_000, Err(BearerError::Invalid));
    }
    let other = Claims { aud: "https://service.test/mcp".into(), ..claims() };
    check(&other, 1_000, Err(BearerError::WrongAudience));
    check(&Claims { iss: "https://other.test".into(), ..other }, 1_000, Err(BearerError::Invalid));
}

#[test]
fn claims_are_read_in_one_way_br_14() {
    let text = serde_json::to_string(&claims()).unwrap();
    assert_eq!(Claims::read(text.as_bytes()), Ok(claims()));
    for (from, to) in [
        (r#""exp":1900"#, r#""exp":"1900""#),
        (r#""exp":1900"#, r#""exp":1e400"#),
        (r#""exp":1900"#, r#""exp":1900.5"#),
        (r#""exp":1900"#, r#""exp":-1"#),
        (r#""exp":1900,"#, ""),
        (r#""exp":1900"#, r#""exp":1900,"exp":9900"#),
        (r#""exp":1900"#, r#""exp":1900,"x":{"y":1,"y":2}"#),
        (r#""sub":"#, r#""SUB":"#),
        (r#""sub":"user_"#, r#""sub":"wsp_"#),
        (r#""aud":"https://service.test/v1""#, r#""aud":["https://service.test/v1"]"#),
        (r#""client_id":"service-cli""#, r#""client_id":"""#),
        (r#""client_id":"service-cli","#, ""),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        assert_eq!(Claims::read(changed.as_bytes()), Err(BearerError::Invalid), "{to}");
    }
}

#[test]
fn one_header_holds_one_token_br_03() {
    let token_in = |headers: &[&'static str]| token_in(headers.iter().map(|header| header.as_bytes()));
    assert_eq!(token_in(&[]), Ok(None));
    for none in ["", "Bearer", "Bearer ", "Basic YTpi", "Token abc", "abc"] {
        assert_eq!(token_in(&[none]), Ok(None), "{none}");
    }
    for one in ["Bearer abc", "bearer abc", "BEARER abc", "Bearer  abc", "Bearer abc "] {
        assert_eq!(token_in(&[one]), Ok(Some("abc")), "{one}");
    }
    assert_eq!(token_in(&["Bearer a", "Bearer a"]), Err(BearerError::Malformed));
    assert_eq!(token_in(&["Basic a", "Bearer a"]), Err(BearerError::Malformed));
    for bad in ["Bearer a, Bearer b", "Bearer a b", "Bearer a\tb", "Bearer é", "Bearer \"a\""] {
        assert_eq!(token_in(&[bad]), Err(BearerError::Malformed), "{bad}");
    }
}

#[test]
fn only_the_smaller_signature_of_a_pair_is_ours_br_15() {
    let mut signature = [0; 64];
    assert!(is_low(&signature));
    signature[32..].copy_from_slice(&P256_HALF_ORDER);
    assert!(is_low(&signature));
    signature[63] += 1;
    assert!(!is_low(&signature));
    assert!(!is_low(&[0; 63]));
}

#[test]
fn a_token_has_one_spelling_br_16() {
    let part = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let header = format!(r#"{{"alg":"ES256","kid":"{}","typ":"at+jwt"}}"#, "k".repeat(43));
    let read = |text: &str| UnverifiedJwt::read(text).map(|jwt| jwt.key_id().to_owned());
    let ours = format!("{}.{}.{}", part(header.as_bytes()), part(b"{}"), part(&[0; 64]));
    assert_eq!(read(&ours), Ok("k".repeat(43)));

    let with_header = |header: &str| format!("{}.{}.{}", part(header.as_bytes()), part(b"{}"), part(&[0; 64]));
    for (from, to) in [
        ("ES256", "none"),
        ("ES256", "HS256"),
        ("ES256", "es256"),
        ("at+jwt", "JWT"),
        (r#","typ":"at+jwt""#, ""),
        ("\"kid\"", "\"KID\""),
        ("kkk\"", "kk/\""),
        ("kkk\"", "kk\""),
        ("}", r#","crit":["b64"]}"#),
        ("}", r#","jku":"https://evil.test"}"#),
        ("}", r#","alg":"ES256"}"#),
    ] {
        assert_eq!(read(&with_header(&header.replace(from, to))), Err(BearerError::Invalid), "{to}");
    }
    for text in [
        String::new(),
        "..".into(),
        ours[..ours.rfind('.').unwrap()].into(),
        format!("{ours}.x"),
        format!("{ours}="),
        format!("{ours}\n"),
        // The last character of 64 bytes carries four bits too many: they must be zero.
        format!("{}B", &ours[..ours.len() - 1]),
        format!("{}.{}.{}", part(header.as_bytes()), part(b"{}"), part(&[0; 63])),
        format!("{}.{}.{}", part(header.as_bytes()), "A".repeat(MAX_TOKEN_BYTES), part(&[0; 64])),
    ] {
        assert_eq!(read(&text), Err(BearerError::Invalid), "{text}");
    }
}

#[test]
fn a_signature_and_its_twin_are_lowered_to_one() {
    let with = |s: [u8; 32]| {
        let mut signature = [7; 64];
        signature[32..].copy_from_slice(&s);
        signature
    };
    let number = |last: u8| {
        let mut s = [0; 32];
        s[31] = last;
        s
    };
    // order - 1, whose twin is 1; half the order, which is low already; and half plus one, whose twin it is.
    let mut last = P256_ORDER;
    last[31] -= 1;
    let mut above = P256_HALF_ORDER;
    above[31] += 1;
    assert_eq!(lowered(with(last)), with(number(1)));
    assert_eq!(lowered(with(number(1))), with(number(1)));
    assert_eq!(lowered(with(P256_HALF_ORDER)), with(P256_HALF_ORDER));
    assert_eq!(lowered(with(above)), with(P256_HALF_ORDER));
    assert!(is_low(&lowered(with(above))) && !is_low(&with(above)));
}
