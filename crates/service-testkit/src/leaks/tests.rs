//! Plants leaks of every kind and form, and texts that look like leaks but are none.

use std::panic::catch_unwind;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};

use super::{Form, Leaks};

/// Contains characters that differ between the alphabets of base64 and between JSON and raw text.
const TOKEN: &str = "svc_9f\"Zk~?>ÿ~Qp7vTn3WbXc5LmRd8";
const CODE: &str = "40719326";

fn leaks() -> Leaks {
    let leaks = Leaks::default();
    leaks.register("access token", TOKEN);
    leaks.register("code", CODE);
    leaks
}

fn forms_in(text: &str) -> Vec<Form> {
    leaks().scan("log", text.as_bytes()).into_iter().map(|finding| finding.form).collect()
}

fn percent_encoded(text: &str, encode: impl Fn(usize) -> bool) -> String {
    let byte = |(index, byte): (usize, u8)| {
        if encode(index) || !byte.is_ascii() { format!("%{byte:02X}") } else { char::from(byte).to_string() }
    };
    text.bytes().enumerate().map(byte).collect()
}

#[test]
fn a_raw_secret_is_found_with_its_channel_kind_and_offset() {
    let findings = leaks().scan("database", format!("row: ({TOKEN},1)").as_bytes());
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].channel.as_str(), findings[0].kind), ("database", "access token"));
    assert_eq!((findings[0].form, findings[0].offset), (Form::Raw, 6));
}

#[test]
fn a_secret_in_base64_is_found_at_every_alignment() {
    for before in ["", "a", "ab", "abc", "user:"] {
        for after in ["", ":", "::", ":::"] {
            let bytes = format!("{before}{TOKEN}{after}");
            for encoded in [STANDARD.encode(&bytes), URL_SAFE.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
                assert_eq!(forms_in(&format!("Basic {encoded}")), [Form::Base64], "{before:?} {after:?}");
            }
        }
    }
}

#[test]
fn a_secret_in_hex_is_found_in_either_case() {
    let hex = TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    assert_eq!(forms_in(&format!("(\\x{hex})")), [Form::Hex]);
    assert_eq!(forms_in(&format!("00{}FF", hex.to_uppercase())), [Form::Hex]);
}

#[test]
fn a_percent_encoded_secret_is_found_when_all_or_some_bytes_are_encoded() {
    let all = percent_encoded(TOKEN, |_| true);
    for encoded in [&all, &all.to_lowercase(), &percent_encoded(TOKEN, |index| index % 3 == 1)] {
        let findings = leaks().scan("url", format!("/%20?t={encoded}&x").as_bytes());
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].form, findings[0].offset), (Form::PercentEncoded, 7));
    }
}

#[test]
fn base64_inside_percent_encoding_is_found() {
    let encoded = STANDARD.encode(TOKEN);
    assert!(encoded.contains(['+', '/']));
    assert_eq!(forms_in(&encoded.replace('+', "%2B").replace('/', "%2f")), [Form::Base64]);
}

#[test]
fn a_secret_inside_a_json_string_is_found() {
    assert_eq!(forms_in(&serde_json::json!({ "token": TOKEN }).to_string()), [Form::JsonEscaped]);
}

#[test]
fn a_long_secret_in_another_case_is_found_but_a_short_word_is_not() {
    assert_eq!(forms_in(&TOKEN.to_ascii_lowercase()), [Form::CaseFolded]);
    let leaks = Leaks::default();
    leaks.register("password", "Password!");
    assert_eq!(leaks.scan("log", b"password! changed"), []);
}

#[test]
fn raw_and_encoded_leaks_in_one_text_are_both_found() {
    let text = format!("{TOKEN} {} {}", percent_encoded(TOKEN, |_| true), URL_SAFE.encode(TOKEN));
    assert_eq!(forms_in(&text), [Form::Raw, Form::PercentEncoded, Form::Base64]);
}

#[test]
fn a_code_is_found_in_every_form_that_stands_alone() {
    for text in
        ["code=40719326", "$1 = '40719326'", "40719326", "a,40719326,b", r"code:\n40719326\n", r"\u00a040719326"]
    {
        assert_eq!(forms_in(text), [Form::Raw], "{text}");
    }
    assert_eq!(forms_in("\u{1b}[2m=\u{1b}[0m40719326"), [Form::Raw]);
    for text in [
        "4071 9326",
        "<b>4071-9326</b>",
        "a-4071-9326-b",
        "cafe-4071-9326-cafe",
        r"code:\n\n4071 9326\n",
        "4071\u{a0}9326",
        "4071&nbsp;9326",
        "4071+9326",
    ] {
        assert_eq!(forms_in(text), [Form::Grouped], "{text}");
    }
    for text in ["code%3D40719326", "code=%34071%39326", "code=4071%209326"] {
        assert_eq!(forms_in(text), [Form::PercentEncoded], "{text}");
    }
    assert_eq!(forms_in(&format!("\"{}\"", STANDARD.encode(CODE))), [Form::Base64]);
    assert_eq!(forms_in(r"(\x3430373139333236)"), [Form::Hex]);
}

#[test]
fn a_code_registered_as_people_read_it_is_found_as_machines_write_it() {
    let leaks = Leaks::default();
    leaks.register("code", "4071 9326");
    assert_eq!(leaks.scan("log", b"code=40719326").len(), 1);
}

#[test]
fn a_code_inside_of_a_longer_number_or_word_is_not_reported() {
    let in_uuids = ["01a3185c-4071-9326-bf2b-5345103af362", "01a3185c-5000-4071-9326-5345103af362"];
    let in_words =
        ["140719326", "407193265", "12:00:00.407193261", "a40719326", "40719326f", "0x40719326", "x4071 93260"];
    for text in in_words.iter().chain(&in_uuids) {
        assert_eq!(forms_in(text), [], "{text}");
    }
    assert_eq!(forms_in(r"\x00343037313933323600"), []);
    assert_eq!(forms_in("item40719326 [40719326m"), [Form::Raw; 0]);
}

#[test]
fn clean_text_is_clean() {
    let text = "2026-01-01 00:00:00.123 UTC [4071] 9326 execute s1: select 1 -- %41 100% %zz \\x00ff c3ZjXzlm";
    assert_eq!(forms_in(text), []);
    leaks().assert_clean("log", text.as_bytes());
    Leaks::default().assert_clean("log", text.as_bytes());
}

#[test]
fn a_secret_split_by_other_text_is_not_reported() {
    let (first, second) = TOKEN.split_at(12);
    assert_eq!(forms_in(&format!("{first} {second}")), []);
    assert_eq!(forms_in(&format!("{second}{first}")), []);
    assert_eq!(forms_in("4071 and 9326"), []);
}

#[test]
fn an_empty_secret_is_not_registered() {
    let leaks = Leaks::default();
    leaks.register("token", "");
    assert_eq!(leaks.scan("log", b"anything"), []);
}

#[test]
fn a_report_names_the_place_but_never_the_value() {
    let text = format!("{TOKEN} {CODE} {}", STANDARD.encode(TOKEN));
    let failure = catch_unwind(|| leaks().assert_clean("server log", text.as_bytes())).expect_err("it leaked");
    let report = failure.downcast_ref::<String>().expect("a message");
    for part in ["access token in server log at byte 0 (Raw)", "code in server log at byte 33 (Raw)", "(Base64)"] {
        assert!(report.contains(part), "{report}");
    }
    assert!(leaks().scan("report", report.as_bytes()).is_empty());
    assert!(!format!("{:?}", leaks().scan("log", text.as_bytes())).contains(CODE));
}
