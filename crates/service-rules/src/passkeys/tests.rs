//! Everything that an authenticator, a browser or an attacker may send.

use coset::{
    CborSerializable as _, CoseKey, CoseKeyBuilder,
    cbor::{Value, ser},
    iana,
};
use proptest::prelude::*;

use super::*;

const CHALLENGE: [u8; CHALLENGE_BYTES] = [7; CHALLENGE_BYTES];
const CHALLENGE_TEXT: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc";
const ORIGIN: &str = "https://service.test";
const RELYING_PARTY: [u8; 32] = [1; 32];
const HANDLE: [u8; USER_HANDLE_BYTES] = [9; USER_HANDLE_BYTES];
const EXPECTED: Expected<'_> = Expected { challenge: &CHALLENGE, origin: ORIGIN, relying_party: &RELYING_PARTY };
const STORED: StoredPasskey<'_> = StoredPasskey { user_handle: &HANDLE, counter: 0, can_be_backed_up: false };

/// Present and verified.
const FLAGS: u8 = 0b0000_0101;
const CREDENTIAL: u8 = 0b0100_0000;
const EXTENSIONS: u8 = 0b1000_0000;

fn client_data(kind: &str, challenge: &str, origin: &str) -> Vec<u8> {
    format!(r#"{{"type":"{kind}","challenge":"{challenge}","origin":"{origin}","crossOrigin":false}}"#).into_bytes()
}

fn created() -> Vec<u8> {
    client_data("webauthn.create", CHALLENGE_TEXT, ORIGIN)
}

fn signed() -> Vec<u8> {
    client_data("webauthn.get", CHALLENGE_TEXT, ORIGIN)
}

fn head(flags: u8, counter: u32) -> Vec<u8> {
    let mut bytes = RELYING_PARTY.to_vec();
    bytes.push(flags);
    bytes.extend(counter.to_be_bytes());
    bytes
}

fn es256() -> CoseKey {
    let key = CoseKeyBuilder::new_ec2_pub_key(iana::EllipticCurve::P_256, vec![2; 32], vec![3; 32]);
    key.algorithm(iana::Algorithm::ES256).build()
}

fn ed25519() -> CoseKey {
    let key = CoseKeyBuilder::new_okp_key().algorithm(iana::Algorithm::EdDSA);
    let curve = Value::from(iana::EllipticCurve::Ed25519 as i64);
    key.param(-1, curve).param(-2, Value::Bytes(vec![4; 32])).build()
}

fn rs256(modulus: Vec<u8>, exponent: Vec<u8>) -> Vec<u8> {
    let map = Value::Map(vec![
        (1.into(), (iana::KeyType::RSA as i64).into()),
        (3.into(), (iana::Algorithm::RS256 as i64).into()),
        ((-1).into(), Value::Bytes(modulus)),
        ((-2).into(), Value::Bytes(exponent)),
    ]);
    cbor(&map)
}

fn cbor(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    ser::into_writer(value, &mut bytes).unwrap();
    bytes
}

fn bytes_of(key: CoseKey) -> Vec<u8> {
    key.to_vec().unwrap()
}

/// The data of a new credential.
fn with_credential(id: &[u8], key: &[u8]) -> Vec<u8> {
    let mut bytes = head(FLAGS | CREDENTIAL, 0);
    bytes.extend([5; 16]);
    bytes.extend(u16::try_from(id.len()).unwrap().to_be_bytes());
    bytes.extend(id);
    bytes.extend(key);
    bytes
}

fn new_credential() -> Vec<u8> {
    with_credential(b"id", &bytes_of(es256()))
}

fn register(client_data: &[u8], authenticator_data: &[u8]) -> Result<NewPasskey, PasskeyError> {
    judge_registration(SentRegistration { client_data, authenticator_data }, EXPECTED)
}

fn assertion<'a>(client_data: &'a [u8], authenticator_data: &'a [u8]) -> SentAssertion<'a> {
    SentAssertion { client_data, authenticator_data, user_handle: Some(&HANDLE), signature_verifies: true }
}

fn sign_in(client_data: &[u8], authenticator_data: &[u8]) -> AssertionVerdict {
    judge_assertion(assertion(client_data, authenticator_data), STORED, EXPECTED)
}

fn refused(error: PasskeyError) -> AssertionVerdict {
    AssertionVerdict::Refuse(error)
}

#[test]
fn a_new_passkey_is_stored_as_it_was_sent() {
    let key = bytes_of(es256());
    let stored = register(&created(), &with_credential(b"id", &key)).unwrap();
    assert_eq!((stored.credential_id.as_slice(), stored.public_key.as_slice()), (b"id".as_slice(), key.as_slice()));
    assert_eq!(stored.counter, 0);
    assert!(!stored.can_be_backed_up && !stored.is_backed_up);
}

#[test]
fn a_passkey_signs_in() {
    let verdict = AssertionVerdict::SignIn { counter: 0, is_backed_up: false };
    assert_eq!(sign_in(&signed(), &head(FLAGS, 0)), verdict);
}

#[test]
fn another_ceremony_is_refused_pk_01() {
    assert_eq!(sign_in(&created(), &head(FLAGS, 0)), refused(PasskeyError::Type));
    assert_eq!(register(&signed(), &new_credential()), Err(PasskeyError::Type));
    for other in ["payment.get", "webauthn.Get", "webauthn.get ", ""] {
        let data = client_data(other, CHALLENGE_TEXT, ORIGIN);
        assert_eq!(sign_in(&data, &head(FLAGS, 0)), refused(PasskeyError::Type), "{other}");
    }
}

#[test]
fn another_challenge_is_refused_pk_02() {
    for other in [
        "CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg",
        "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBw",
        "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=",
        "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwd",
        "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH",
        "+/cHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc",
        "",
    ] {
        let data = client_data("webauthn.get", other, ORIGIN);
        assert_eq!(sign_in(&data, &head(FLAGS, 0)), refused(PasskeyError::Challenge), "{other}");
    }
}

#[test]
fn another_origin_is_refused_pk_03() {
    for other in [
        "https://phish.example",
        "https://service.test.phish.example",
        "https://login.service.test",
        "https://service.test:8443",
        "https://service.test/",
        "http://service.test",
        "https://SERVICE.test",
        "null",
        "",
    ] {
        let data = client_data("webauthn.get", CHALLENGE_TEXT, other);
        assert_eq!(sign_in(&data, &head(FLAGS, 0)), refused(PasskeyError::Origin), "{other}");
        let data = client_data("webauthn.create", CHALLENGE_TEXT, other);
        assert_eq!(register(&data, &new_credential()), Err(PasskeyError::Origin), "{other}");
    }
}

#[test]
fn a_frame_of_another_origin_is_refused_pk_04() {
    for (member, error) in [
        (r#""crossOrigin":true"#, PasskeyError::CrossOrigin),
        (r#""crossOrigin":false,"topOrigin":"https://phish.example""#, PasskeyError::CrossOrigin),
        (r#""topOrigin":null"#, PasskeyError::CrossOrigin),
        (r#""crossOrigin":"false""#, PasskeyError::ClientData),
        (r#""crossOrigin":null"#, PasskeyError::ClientData),
    ] {
        let data = format!(r#"{{"type":"webauthn.get","challenge":"{CHALLENGE_TEXT}","origin":"{ORIGIN}",{member}}}"#);
        assert_eq!(sign_in(data.as_bytes(), &head(FLAGS, 0)), refused(error), "{member}");
    }
}

#[test]
fn members_that_the_standard_may_add_are_allowed() {
    let data = format!(r#"{{"type":"webauthn.get","challenge":"{CHALLENGE_TEXT}","origin":"{ORIGIN}","later":[1]}}"#);
    assert!(matches!(sign_in(data.as_bytes(), &head(FLAGS, 0)), AssertionVerdict::SignIn { .. }));
}

#[test]
fn client_data_that_two_readers_could_understand_differently_is_refused_pk_05() {
    let twice = format!(
        r#"{{"type":"webauthn.get","challenge":"{CHALLENGE_TEXT}","origin":"https://phish.example","origin":"{ORIGIN}"}}"#
    );
    let no_origin = format!(r#"{{"type":"webauthn.get","challenge":"{CHALLENGE_TEXT}"}}"#);
    let number = format!(r#"{{"type":1,"challenge":"{CHALLENGE_TEXT}","origin":"{ORIGIN}"}}"#);
    let after = [signed(), b"{}".to_vec()].concat();
    let marked = ["\u{feff}".as_bytes().to_vec(), signed()].concat();
    let list = b"[]".to_vec();
    for wrong in [twice.into_bytes(), no_origin.into_bytes(), number.into_bytes(), after, marked, list, Vec::new()] {
        let verdict = sign_in(&wrong, &head(FLAGS, 0));
        assert_eq!(verdict, refused(PasskeyError::ClientData), "{}", String::from_utf8_lossy(&wrong));
    }
}

#[test]
fn over_long_fields_are_refused_pk_06() {
    let long = client_data("webauthn.get", CHALLENGE_TEXT, &"a".repeat(2_048));
    assert_eq!(sign_in(&long, &head(FLAGS, 0)), refused(PasskeyError::ClientData));
    let key = bytes_of(es256());
    assert!(register(&created(), &with_credential(&[8; MAX_CREDENTIAL_ID_BYTES], &key)).is_ok());
    let too_long = with_credential(&[8; MAX_CREDENTIAL_ID_BYTES + 1], &key);
    assert_eq!(register(&created(), &too_long), Err(PasskeyError::AuthenticatorData));
    let mut extended = head(FLAGS | EXTENSIONS, 0);
    extended.extend(cbor(&Value::Map(vec![("a".into(), Value::Bytes(vec![0; 4_096]))])));
    assert_eq!(sign_in(&signed(), &extended), refused(PasskeyError::AuthenticatorData));
}

#[test]
fn another_relying_party_is_refused_pk_07() {
    let mut data = head(FLAGS, 0);
    data[31] ^= 1;
    assert_eq!(sign_in(&signed(), &data), refused(PasskeyError::RelyingParty));
    let mut data = new_credential();
    data[0] ^= 1;
    assert_eq!(register(&created(), &data), Err(PasskeyError::RelyingParty));
}

#[test]
fn an_authenticator_without_a_user_is_refused_pk_08() {
    assert_eq!(sign_in(&signed(), &head(0b0000_0100, 0)), refused(PasskeyError::NotPresent));
    assert_eq!(sign_in(&signed(), &head(0b0000_0001, 0)), refused(PasskeyError::NotVerified));
    let mut data = new_credential();
    data[32] &= !0b0000_0100;
    assert_eq!(register(&created(), &data), Err(PasskeyError::NotVerified));
    data[32] &= !0b0000_0001;
    assert_eq!(register(&created(), &data), Err(PasskeyError::NotPresent));
}

#[test]
fn backup_flags_must_agree_pk_09() {
    assert_eq!(sign_in(&signed(), &head(FLAGS | 0b0001_0000, 0)), refused(PasskeyError::BackupFlags));
    assert_eq!(sign_in(&signed(), &head(FLAGS | 0b0000_1000, 0)), refused(PasskeyError::BackupFlags));
    let data = head(FLAGS | 0b0001_1000, 0);
    let synchronized = StoredPasskey { can_be_backed_up: true, ..STORED };
    let verdict = judge_assertion(assertion(&signed(), &data), synchronized, EXPECTED);
    assert_eq!(verdict, AssertionVerdict::SignIn { counter: 0, is_backed_up: true });
    let verdict = judge_assertion(assertion(&signed(), &head(FLAGS, 0)), synchronized, EXPECTED);
    assert_eq!(verdict, refused(PasskeyError::BackupFlags));
}

#[test]
fn a_wrong_signature_is_refused_pk_10() {
    let (client_data, data) = (signed(), head(FLAGS, 0));
    let sent = SentAssertion { signature_verifies: false, ..assertion(&client_data, &data) };
    assert_eq!(judge_assertion(sent, STORED, EXPECTED), refused(PasskeyError::Signature));
}

#[test]
fn the_passkey_of_another_user_is_refused_pk_11() {
    let (client_data, data) = (signed(), head(FLAGS, 0));
    for other in [None, Some(b"".as_slice()), Some(&[9; 31]), Some(&[8; 32]), Some(&[9; 33])] {
        let sent = SentAssertion { user_handle: other, ..assertion(&client_data, &data) };
        assert_eq!(judge_assertion(sent, STORED, EXPECTED), refused(PasskeyError::UserHandle));
    }
}

#[test]
fn a_counter_that_does_not_rise_is_noticed_pk_12() {
    let verdict = |stored: u32, sent: u32| {
        let (client_data, data) = (signed(), head(FLAGS, sent));
        judge_assertion(assertion(&client_data, &data), StoredPasskey { counter: stored, ..STORED }, EXPECTED)
    };
    for (stored, sent) in [(0, 1), (5, 6), (5, u32::MAX), (0, 0)] {
        assert_eq!(verdict(stored, sent), AssertionVerdict::SignIn { counter: sent, is_backed_up: false });
    }
    for (stored, sent) in [(5, 5), (5, 4), (5, 0), (u32::MAX, 0), (u32::MAX, u32::MAX)] {
        assert_eq!(verdict(stored, sent), AssertionVerdict::CounterWentBack, "{stored} {sent}");
    }
}

#[test]
fn a_copied_key_is_noticed_only_if_its_signature_is_right_pk_13() {
    let (client_data, data) = (signed(), head(FLAGS, 4));
    let sent = SentAssertion { signature_verifies: false, ..assertion(&client_data, &data) };
    let verdict = judge_assertion(sent, StoredPasskey { counter: 5, ..STORED }, EXPECTED);
    assert_eq!(verdict, refused(PasskeyError::Signature));
}

#[test]
fn truncated_data_is_refused_at_every_byte_pk_14() {
    let mut whole = new_credential();
    whole[32] |= EXTENSIONS;
    whole.extend(cbor(&Value::Map(vec![("credProtect".into(), 2.into())])));
    assert!(register(&created(), &whole).is_ok());
    for length in 0..whole.len() {
        assert_eq!(register(&created(), &whole[..length]), Err(PasskeyError::AuthenticatorData), "{length}");
    }
    whole.push(0);
    assert_eq!(register(&created(), &whole), Err(PasskeyError::AuthenticatorData));
}

#[test]
fn data_must_match_its_flags_pk_15() {
    let mut without_flag = new_credential();
    without_flag[32] = FLAGS;
    assert_eq!(register(&created(), &without_flag), Err(PasskeyError::AuthenticatorData));
    assert_eq!(register(&created(), &head(FLAGS, 0)), Err(PasskeyError::AuthenticatorData));
    assert_eq!(sign_in(&signed(), &new_credential()), refused(PasskeyError::AuthenticatorData));
    let mut no_map = head(FLAGS | EXTENSIONS, 0);
    no_map.extend(cbor(&Value::from(1)));
    assert_eq!(sign_in(&signed(), &no_map), refused(PasskeyError::AuthenticatorData));
}

#[test]
fn an_empty_credential_id_is_refused_pk_16() {
    let data = with_credential(b"", &bytes_of(es256()));
    assert_eq!(register(&created(), &data), Err(PasskeyError::AuthenticatorData));
}

#[test]
fn nested_cbor_is_refused_pk_17() {
    let mut deep = Value::from(1);
    for _ in 0..200 {
        deep = Value::Array(vec![deep]);
    }
    let mut data = head(FLAGS | EXTENSIONS, 0);
    data.extend(cbor(&Value::Map(vec![("a".into(), deep)])));
    assert_eq!(sign_in(&signed(), &data), refused(PasskeyError::AuthenticatorData));
}

#[test]
fn three_kinds_of_keys_are_accepted() {
    assert!(
        matches!(PublicKey::read(&bytes_of(es256())), Ok(PublicKey::Es256(point)) if point[0] == 4 && point[64] == 3)
    );
    assert_eq!(PublicKey::read(&bytes_of(ed25519())), Ok(PublicKey::Ed25519([4; 32])));
    for bytes in [256, 384, 512] {
        let modulus = vec![0xc1; bytes];
        assert_eq!(PublicKey::read(&rs256(modulus.clone(), vec![1, 0, 1])), Ok(PublicKey::Rs256(modulus)));
    }
}

#[test]
fn other_algorithms_and_curves_are_refused_pk_18() {
    let es384 = CoseKeyBuilder::new_ec2_pub_key(iana::EllipticCurve::P_384, vec![2; 48], vec![3; 48]);
    let wrong_curve = CoseKeyBuilder::new_ec2_pub_key(iana::EllipticCurve::P_384, vec![2; 32], vec![3; 32]);
    let no_algorithm = CoseKeyBuilder::new_ec2_pub_key(iana::EllipticCurve::P_256, vec![2; 32], vec![3; 32]);
    let compressed = CoseKeyBuilder::new_ec2_pub_key_y_sign(iana::EllipticCurve::P_256, vec![2; 32], true);
    let mixed = CoseKeyBuilder::new_ec2_pub_key(iana::EllipticCurve::P_256, vec![2; 32], vec![3; 32]);
    for key in [
        es384.algorithm(iana::Algorithm::ES384).build(),
        wrong_curve.algorithm(iana::Algorithm::ES256).build(),
        no_algorithm.build(),
        compressed.algorithm(iana::Algorithm::ES256).build(),
        mixed.algorithm(iana::Algorithm::RS256).build(),
    ] {
        let key = bytes_of(key);
        assert_eq!(PublicKey::read(&key), Err(PasskeyError::PublicKey));
        assert_eq!(register(&created(), &with_credential(b"id", &key)), Err(PasskeyError::PublicKey));
    }
}

#[test]
fn weak_rsa_keys_are_refused_pk_19() {
    let modulus = || vec![0xc1; 256];
    let leading_zero = [vec![0], modulus()].concat();
    for (modulus, exponent) in [
        (vec![0xc1; 255], vec![1, 0, 1]),
        (vec![0xc1; 513], vec![1, 0, 1]),
        (leading_zero, vec![1, 0, 1]),
        (modulus(), vec![1]),
        (modulus(), vec![3]),
        (modulus(), vec![1, 0, 0]),
        (modulus(), vec![0, 1, 0, 1]),
    ] {
        assert_eq!(PublicKey::read(&rs256(modulus, exponent)), Err(PasskeyError::PublicKey));
    }
}

#[test]
fn keys_with_other_parameters_are_refused_pk_20() {
    let mut private = es256();
    private.params.push((coset::Label::Int(-4), Value::Bytes(vec![6; 32])));
    let mut named = es256();
    named.key_id = b"kid".to_vec();
    let mut short = ed25519();
    short.params[1].1 = Value::Bytes(vec![4; 31]);
    for key in [private, named, short] {
        assert_eq!(PublicKey::read(&bytes_of(key)), Err(PasskeyError::PublicKey));
    }
    let Ok(Value::Map(mut twice)) = coset::cbor::de::from_reader(bytes_of(es256()).as_slice()) else { panic!() };
    twice.push(((-2).into(), Value::Bytes(vec![9; 32])));
    assert_eq!(PublicKey::read(&cbor(&Value::Map(twice))), Err(PasskeyError::PublicKey));
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(client_data: Vec<u8>, data in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = ClientData::read(&client_data);
        let _ = AuthenticatorData::read(&data);
        let _ = PublicKey::read(&data);
        let _ = AssertionResponse::read(&client_data);
    }

    #[test]
    fn no_change_of_a_byte_causes_a_panic(place in 0_usize..140, byte: u8) {
        let mut data = new_credential();
        if let Some(changed) = data.get_mut(place) {
            *changed = byte;
        }
        let _ = register(&created(), &data);
    }
}

#[test]
fn responses_are_read() {
    let text = br#"{"id":"aWQ","rawId":"aWQ","type":"public-key","clientExtensionResults":{},
        "response":{"clientDataJSON":"e30","authenticatorData":"AQ","signature":"Ag","userHandle":null}}"#;
    let response = AssertionResponse::read(text).unwrap();
    assert_eq!((response.credential_id.as_slice(), response.client_data.as_slice()), (&b"id"[..], &b"{}"[..]));
    assert_eq!((response.authenticator_data.as_slice(), response.user_handle), (&[1][..], None));
    let registration = RegistrationResponse::read(text).unwrap();
    assert_eq!(registration.sent().authenticator_data, [1]);
}

#[test]
fn responses_that_cannot_be_read_are_refused_pk_21() {
    let response = |id: &str, data: &str, signature: &str, handle: &str| {
        format!(
            r#"{{"id":"{id}","response":{{"clientDataJSON":"e30","authenticatorData":"{data}",
                "signature":"{signature}","userHandle":"{handle}"}}}}"#
        )
    };
    assert!(AssertionResponse::read(response("aWQ", "AQ", "Ag", "Aw").as_bytes()).is_ok());
    for wrong in [
        response("aWQ=", "AQ", "Ag", "Aw"),
        response("aWQ", "A", "Ag", "Aw"),
        response("aWQ", "AQ", "A+/g", "Aw"),
        response(&"A".repeat(1_368), "AQ", "Ag", "Aw"),
        response("aWQ", "AQ", &"A".repeat(684), "Aw"),
        response("aWQ", "AQ", "Ag", &"A".repeat(44)),
        response("aWQ", &"A".repeat(25_000), "Ag", "Aw"),
        r#"{"id":"aWQ"}"#.to_owned(),
        r#"{"id":"aWQ","id":"aWQ"}"#.to_owned(),
        "null".to_owned(),
        String::new(),
    ] {
        assert_eq!(AssertionResponse::read(wrong.as_bytes()), Err(PasskeyError::Response), "{wrong}");
    }
}
