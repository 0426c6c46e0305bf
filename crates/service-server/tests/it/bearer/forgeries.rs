//! Forged signatures and headers: unsigned tokens, tokens signed by other keys, and other encodings of our tokens.

use std::{io, net::TcpListener};

use anyhow::{Context as _, Result};
use aws_lc_rs::hmac;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use service_testkit::server::with_server;

use crate::support::{
    bearer::{accepted, list_projects, refused},
    forge::{Draft, Forge, ORDER, encode, subtract},
};

/// What stands before the point in the DER of a P-256 public key.
const SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

#[test]
fn a_token_that_claims_to_need_no_signature_opens_nothing_br_07() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let forge = Forge::of(server).await?;
        let draft = forge.draft(server, &ann)?;
        accepted(server, &forge.sign(&draft)?, "the genuine token").await?;
        for alg in ["none", "None", "nOnE", "NONE", "", "null", "es256", "ES256 ", "ES256\\u0000"] {
            let draft = draft.header_edit("ES256", alg)?;
            for signature in [vec![], vec![0; 64], forge.signature(&draft)?] {
                refused(server, &draft.with_signature(&signature), alg).await?;
            }
        }
        for header in [r#"{"typ":"at+jwt"}"#, r#"{"alg":null,"typ":"at+jwt"}"#, "{}", "[]", "null", ""] {
            refused(server, &forge.sign(&draft.with_header(header))?, header).await?;
        }
        let (message, genuine) = (draft.message(), forge.sign(&draft)?);
        let payload = message.split_once('.').context("no payload")?.1;
        for (name, token) in [
            ("two segments", message.clone()),
            ("an empty signature", format!("{message}.")),
            ("a payload alone", payload.to_owned()),
            ("no header", format!(".{payload}.{}", encode(forge.signature(&draft)?))),
            ("only dots", "..".to_owned()),
            ("a fourth segment", format!("{genuine}.{}", encode("x"))),
            ("an empty fourth segment", format!("{genuine}.")),
            ("five segments", format!("{genuine}.{}.{}", encode("x"), encode("y"))),
        ] {
            refused(server, &token, name).await?;
        }
        Ok(())
    })
}

#[test]
fn the_public_key_is_no_secret_to_sign_with_br_08() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let forge = Forge::of(server).await?;
        let draft = forge.draft(server, &ann)?;
        accepted(server, &forge.sign(&draft)?, "the genuine token").await?;
        let published = server.http.get("/.well-known/jwks.json", None).await?;
        let jwk = &published.body["keys"][0];
        assert_eq!(jwk["x"].as_str(), Some(encode(&forge.point()[1..33]).as_str()));
        let der = [&SPKI_PREFIX[..], forge.point()].concat();
        let text = BASE64_STANDARD.encode(&der);
        let (first, second) = text.split_at(64);
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{first}\n{second}\n-----END PUBLIC KEY-----");
        let secrets: [(&str, Vec<u8>); 13] = [
            ("PEM", pem.clone().into()),
            ("PEM with a line feed", format!("{pem}\n").into()),
            ("PEM with carriage returns", pem.replace('\n', "\r\n").into()),
            ("PEM on one line", text.into()),
            ("DER", der),
            ("the point", forge.point().into()),
            ("x and y", forge.point()[1..].into()),
            ("x", forge.point()[1..33].into()),
            ("x as published", jwk["x"].as_str().context("no x")?.into()),
            ("the JWK", jwk.to_string().into()),
            ("the key set", published.text.clone().into()),
            ("the key's id", forge.kid.clone().into()),
            ("nothing", vec![]),
        ];
        for (name, secret) in &secrets {
            for (alg, algorithm) in
                [("HS256", hmac::HMAC_SHA256), ("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)]
            {
                let renamed = draft.header_edit("ES256", alg)?;
                refused(server, &renamed.with_hmac(algorithm, secret), &format!("{alg} with {name}")).await?;
                refused(server, &draft.with_hmac(algorithm, secret), &format!("{alg} as ES256 with {name}")).await?;
            }
        }
        Ok(())
    })
}

#[test]
fn a_key_has_one_algorithm_br_09() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let forge = Forge::of(server).await?;
        let draft = forge.draft(server, &ann)?;
        accepted(server, &forge.sign(&draft)?, "the genuine token").await?;
        for alg in [
            "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES384", "ES512", "ES256K", "EdDSA", "Ed25519",
            "HS256", "HS384", "HS512", "dir", "ECDH-ES",
        ] {
            // Signed as ES256 all the same: if the name made no difference, it would be accepted.
            refused(server, &forge.sign(&draft.header_edit("ES256", alg)?)?, alg).await?;
        }
        for alg in [r#"["ES256"]"#, r#"{"alg":"ES256"}"#, "256", "true", "null"] {
            refused(server, &forge.sign(&draft.header_edit("\"ES256\"", alg)?)?, alg).await?;
        }
        Ok(())
    })
}

#[test]
fn a_token_cannot_bring_its_own_key_and_nothing_is_fetched_br_11() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let (forge, listener) = (Forge::of(server).await?, TcpListener::bind("127.0.0.1:0")?);
        listener.set_nonblocking(true)?;
        let draft = forge.draft(server, &ann)?;
        accepted(server, &forge.sign(&draft)?, "the genuine token").await?;
        let stranger = Forge::stranger(&forge.kid)?;
        let (x, y) = (encode(&stranger.point()[1..33]), encode(&stranger.point()[33..]));
        let jwk = format!(r#"{{"kty":"EC","crv":"P-256","x":"{x}","y":"{y}","alg":"ES256","kid":"{}"}}"#, forge.kid);
        let url = format!("http://{}/keys", listener.local_addr()?);
        let der = BASE64_STANDARD.encode([&SPKI_PREFIX[..], stranger.point()].concat());
        for extra in [
            format!(r#""jwk":{jwk}"#),
            format!(r#""jku":"{url}""#),
            format!(r#""x5u":"{url}""#),
            format!(r#""iss":"{url}""#),
            format!(r#""x5c":["{der}"]"#),
            r#""x5t":"AAAA""#.to_owned(),
            r#""x5t#S256":"AAAA""#.to_owned(),
            r#""crit":["b64"]"#.to_owned(),
            r#""crit":["b64"],"b64":false"#.to_owned(),
            r#""crit":[]"#.to_owned(),
            r#""crit":["exp"],"exp":1"#.to_owned(),
            r#""b64":false"#.to_owned(),
            r#""zip":"DEF""#.to_owned(),
            r#""cty":"JWT""#.to_owned(),
            r#""enc":"A256GCM""#.to_owned(),
            r#""nonce":"x""#.to_owned(),
        ] {
            let draft = draft.header_edit("}", &format!(",{extra}}}"))?;
            refused(server, &stranger.sign(&draft)?, &format!("{extra}, signed by its own key")).await?;
            refused(server, &forge.sign(&draft)?, &format!("{extra}, signed by our key")).await?;
        }
        for kid in [&url, "http://127.0.0.1:1/", "file:///etc/passwd"] {
            refused(server, &stranger.sign(&draft.header_edit(&forge.kid, kid)?)?, kid).await?;
        }
        refused(server, &stranger.sign(&draft)?, "our key's id over another key's signature").await?;
        let visit = listener.accept().map(drop).map_err(|error| error.kind());
        assert_eq!(visit, Err(io::ErrorKind::WouldBlock), "the service followed an address in a token");
        Ok(())
    })
}

#[test]
fn a_signature_has_one_value_br_15() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let forge = Forge::of(server).await?;
        let draft = forge.draft(server, &ann)?;
        let genuine = forge.signature(&draft)?;
        let (r, s) = genuine.split_at(32);
        let (zero, mut one, ones) = ([0; 32], [0; 32], [0xff; 32]);
        one[31] = 1;
        let twin = subtract(&ORDER, s);
        assert_eq!(subtract(&ORDER, &twin), s, "the subtraction is wrong");
        let vectors: [(&str, Vec<u8>); 17] = [
            ("the twin with the larger s", [r, &twin].concat()),
            ("all zeros", vec![0; 64]),
            ("r of zero", [&zero, s].concat()),
            ("s of zero", [r, &zero].concat()),
            ("ones", [one, one].concat()),
            ("the order for r", [&ORDER, s].concat()),
            ("the order for s", [r, &ORDER].concat()),
            ("the order for both", [ORDER, ORDER].concat()),
            ("all bits set", [ones, ones].concat()),
            ("r and s swapped", [s, r].concat()),
            ("r negated", [&subtract(&ORDER, r), s].concat()),
            ("a byte missing", genuine[..63].to_vec()),
            ("a byte more", [&genuine[..], &[0]].concat()),
            ("a zero in front", [&[0], &genuine[..]].concat()),
            ("half", r.to_vec()),
            ("twice", [&genuine[..], &genuine].concat()),
            ("as DER", [&[0x30, 68, 2, 32][..], r, &[2, 32], s].concat()),
        ];
        for round in ["cold", "warm"] {
            for (name, signature) in &vectors {
                refused(server, &draft.with_signature(signature), &format!("{round}: {name}")).await?;
            }
            for bit in (0..512).step_by(37) {
                let mut flipped = genuine.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                refused(server, &draft.with_signature(&flipped), &format!("{round}: bit {bit} flipped")).await?;
            }
            // From here on the genuine token is remembered as verified.
            accepted(server, &draft.with_signature(&genuine), "the genuine token").await?;
        }
        Ok(())
    })
}

/// A genuine token in whose every segment the two alphabets of base64 differ.
fn token_with_both_marks(forge: &Forge, draft: &Draft) -> Result<String> {
    let marked = draft.payload_edit("}", ",\"note\":\"???>>>\u{ff}\u{ff}\u{ff}~~~\"}")?;
    loop {
        let token = forge.sign(&marked)?;
        let differ = |segment: &str| segment.contains('-') || segment.contains('_');
        if token.split('.').skip(1).all(differ) {
            return Ok(token);
        }
    }
}

#[test]
fn a_token_has_one_spelling_br_16() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let forge = Forge::of(server).await?;
        let genuine = token_with_both_marks(&forge, &forge.draft(server, &ann)?)?;
        let segments: Vec<&str> = genuine.split('.').collect();
        let mut spellings = vec![genuine.replace('-', "+").replace('_', "/")];
        for place in 0..segments.len() {
            let mut change = |change: &dyn Fn(&str) -> String| {
                let mut segments: Vec<String> = segments.iter().map(|segment| (*segment).to_owned()).collect();
                segments[place] = change(&segments[place]);
                spellings.push(segments.join("."));
            };
            change(&|segment| format!("{segment}="));
            change(&|segment| format!("{segment}=="));
            change(&|segment| format!("={segment}"));
            change(&|segment| format!("{segment}A"));
            change(&|segment| segment.replace('-', "+").replace('_', "/"));
            // The bits that a last character has too many, one by one; where there are none, another text.
            for bit in 0..4 {
                change(&|segment| with_bit_of_last_character(segment, 1 << bit));
            }
        }
        spellings.retain(|spelling| *spelling != genuine);
        assert!(spellings.len() > 20);
        for round in ["cold", "warm"] {
            for (place, spelling) in spellings.iter().enumerate() {
                refused(server, spelling, &format!("{round}: spelling {place}")).await?;
            }
            accepted(server, &genuine, "the genuine token").await?;
        }
        let escaped = list_projects(server, &genuine.replace('.', "%2E")).await?;
        assert_eq!((escaped.status.as_u16(), escaped.error()), (400, "invalid_request"));
        Ok(())
    })
}

fn with_bit_of_last_character(segment: &str, bit: usize) -> String {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (rest, last) = segment.split_at(segment.len() - 1);
    let value = ALPHABET.find(last).unwrap_or_default() ^ bit;
    format!("{rest}{}", &ALPHABET[value..=value])
}
