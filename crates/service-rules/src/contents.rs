//! Which fields a content may have, what their values look like, and that no value holds a credential.

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD},
};
use jiff::civil::Date;
use serde_json::{Map, Value};
use service_api::{
    contents::{Form, Kind, MAX_NAME, MAX_TEXT, PACK_TYPES},
    leaks,
    page::{DEFAULT_LIMIT, MAX_LIMIT},
    search::{MAX_QUERY, SearchPacks},
    token::PresentedToken,
};

use crate::{
    display_name::{DisplayName, DisplayNameError},
    field_name,
};

/// Why a content is rejected.
#[derive(Debug, thiserror::Error)]
pub enum InvalidContent {
    #[error("a field is unknown")]
    UnknownField {
        /// Its name, if an error may repeat it.
        name: Option<String>,
        /// The fields that there are.
        known: String,
    },
    #[error("the field {field} {message}")]
    Field {
        field: String,
        /// What is wrong, as the end of a sentence that begins with the field's name.
        message: String,
    },
    /// The field holds a credential of this service. Only the owner of the credential is told which.
    #[error("the field {field} holds a credential")]
    Credential { field: String, token: PresentedToken },
}

/// Fields that passed every check: each is known, has the right form, and holds no credential.
#[derive(Debug)]
pub struct Checked(Map<String, Value>);

impl Checked {
    /// Checks the fields of a request.
    ///
    /// # Errors
    /// The first field that is unknown, malformed or holds a credential.
    pub fn read(kind: Kind, sent: &Map<String, Value>) -> Result<Self, InvalidContent> {
        let is_known = |name: &String| kind.fields().iter().any(|field| field.name == name);
        if let Some(name) = sent.keys().find(|name| !is_known(name)) {
            let known: Vec<_> = kind.fields().iter().map(|field| field.name).chain(["scope"]).collect();
            let name = field_name::repeatable(name).map(str::to_owned);
            return Err(InvalidContent::UnknownField { name, known: known.join(", ") });
        }
        for field in kind.fields() {
            let wrong = |message: &str| InvalidContent::Field { field: field.name.into(), message: message.into() };
            match sent.get(field.name) {
                Some(Value::Null) if field.required => return Err(wrong("can't be null")),
                None | Some(Value::Null) => {}
                Some(value) => {
                    // Its length first: looking for credentials takes longer.
                    check(field.form, value).map_err(|message| wrong(&message))?;
                    if let Some(token) = find_credential(value) {
                        return Err(InvalidContent::Credential { field: field.name.into(), token });
                    }
                }
            }
        }
        Ok(Self(sent.clone()))
    }

    /// The fields of a new content.
    ///
    /// # Errors
    /// A required field is missing.
    pub fn create(self, kind: Kind) -> Result<Map<String, Value>, InvalidContent> {
        let fields = self.update(&Map::new());
        match kind.fields().iter().find(|field| field.required && !fields.contains_key(field.name)) {
            Some(field) => Err(InvalidContent::Field { field: field.name.into(), message: "is missing".into() }),
            None => Ok(fields),
        }
    }

    /// The fields of an updated content: absent fields keep their values, and `null` removes an optional field.
    #[must_use]
    pub fn update(self, old: &Map<String, Value>) -> Map<String, Value> {
        let mut fields = old.clone();
        fields.extend(self.0);
        fields.retain(|_, value| !value.is_null());
        fields
    }
}

/// Checks the name of content that other members of a workspace see. Content in personal space may have any name.
///
/// # Errors
/// The name cannot be displayed safely.
pub fn check_shared_name(fields: &Map<String, Value>) -> Result<(), InvalidContent> {
    let Some(Value::String(name)) = fields.get("name") else { return Ok(()) };
    let wrong = |wrong: DisplayNameError| InvalidContent::Field { field: "name".into(), message: wrong.message() };
    DisplayName::parse_content(name, MAX_NAME).map(drop).map_err(wrong)
}

/// Checks a search; returns how many results it wants.
///
/// # Errors
/// A field is out of range.
pub fn check_search(request: &SearchPacks) -> Result<u16, InvalidContent> {
    let wrong = |field: &str, message: String| Err(InvalidContent::Field { field: field.into(), message });
    if !PACK_TYPES.contains(&request.pack_type.as_str()) {
        return wrong("type", format!("must be one of {}", PACK_TYPES.join(", ")));
    }
    let length = request.query.trim().chars().count();
    if length == 0 || length > MAX_QUERY || request.query.contains('\0') {
        return wrong("query", format!("must be text of 1 to {MAX_QUERY} characters"));
    }
    if request.scopes.as_ref().is_some_and(Vec::is_empty) {
        return wrong("scopes", "must name at least one of personal, workspace, or be left out".into());
    }
    let limit = request.limit.unwrap_or(DEFAULT_LIMIT);
    if (1..=MAX_LIMIT).contains(&limit) { Ok(limit) } else { wrong("limit", format!("must be 1 to {MAX_LIMIT}")) }
}

fn check(form: Form, value: &Value) -> Result<(), String> {
    let good = match (form, value) {
        (Form::Name, Value::String(text)) => {
            let plain = !text.trim().is_empty() && text.chars().all(|c| !c.is_control());
            plain && text.chars().count() <= MAX_NAME
        }
        (Form::Text, Value::String(text)) => text.chars().count() <= MAX_TEXT && !text.contains('\0'),
        (Form::PackType, Value::String(text)) => PACK_TYPES.contains(&text.as_str()),
        (Form::Object, Value::Object(_)) => is_plain(value),
        (Form::Date, Value::String(text)) => {
            text.len() == 10 && text.parse::<Date>().is_ok_and(|date| date.to_string() == *text)
        }
        _ => false,
    };
    let expected = match form {
        Form::Name => format!("must be text of 1 to {MAX_NAME} characters on one line"),
        Form::Text => format!("must be text of up to {MAX_TEXT} characters"),
        Form::PackType => format!("must be one of {}", PACK_TYPES.join(", ")),
        Form::Object => {
            "must be an object without NUL characters, and its numbers 0 or between 1e-9 and 1e21".to_owned()
        }
        Form::Date => "must be a date such as 2027-01-15".to_owned(),
    };
    if good { Ok(()) } else { Err(expected) }
}

/// Whether a value is as short in the database as in the request: PostgreSQL writes numbers out in full.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            let size = number.as_f64().unwrap_or(f64::MAX).abs();
            size == 0.0 || (1e-9..1e21).contains(&size)
        }
        Value::String(text) => !text.contains('\0'),
        Value::Array(items) => items.iter().all(is_plain),
        Value::Object(members) => members.iter().all(|(name, value)| !name.contains('\0') && is_plain(value)),
        Value::Null | Value::Bool(_) => true,
    }
}

/// Finds a credential of this service anywhere in a value, in plain text or in base64.
#[must_use]
pub fn find_credential(value: &Value) -> Option<PresentedToken> {
    match value {
        Value::String(text) => find_in(text),
        Value::Array(items) => items.iter().find_map(find_credential),
        Value::Object(members) => {
            members.iter().find_map(|(name, value)| find_in(name).or_else(|| find_credential(value)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn find_in(text: &str) -> Option<PresentedToken> {
    find_plain(text).or_else(|| find_wrapped(text))
}

fn find_plain(text: &str) -> Option<PresentedToken> {
    let token = leaks::recognise(text).first().and_then(|found| text.get(found.at..found.at + found.length));
    token.or_else(|| find_access_token(text)).map(|token| PresentedToken::new(token.to_owned()))
}

/// Characters of the longest JWT header that is looked at. Those of this service have about a hundred.
const MAX_JWT_HEADER_CHARS: usize = 256;

/// Finds a JWT whose header says that it is an access token (RFC 9068). The cost is bounded for every text.
fn find_access_token(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.match_indices("eyJ").find_map(|(at, _)| {
        let rest = &text[at..];
        let most = rest.len().min(MAX_JWT_HEADER_CHARS);
        let header =
            rest.as_bytes().get(..most)?.split(|byte| *byte == b'.').next().filter(|part| part.len() < most)?;
        let header: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        if header["typ"] != "at+jwt" {
            return None;
        }
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let token = rest[..end].trim_end_matches('.');
        (token.split('.').count() == 3).then_some(token)
    })
}

fn find_wrapped(text: &str) -> Option<PresentedToken> {
    // Tools break base64 into lines, and use two alphabets.
    let joined: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let joined = joined.replace('-', "+").replace('_', "/");
    let wrapped = joined.split(|c: char| !(c.is_ascii_alphanumeric() || c == '+' || c == '/'));
    let wrapped = wrapped.filter(|run| run.len() >= 40);
    wrapped.into_iter().find_map(|run| {
        // The encoded credential can begin anywhere in the run.
        (0..4).filter_map(|skipped| run.get(skipped..)).find_map(|run| {
            let whole = &run[..run.len() - run.len() % 4];
            let decoded = [run, whole].into_iter().filter_map(|run| BASE64_STANDARD_NO_PAD.decode(run).ok());
            decoded.into_iter().find_map(|bytes| find_plain(&String::from_utf8_lossy(&bytes)))
        })
    })
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;
    use serde_json::json;
    use service_api::token::{Cli, CliToken, TokenKind as _};

    use super::*;

    fn object(value: impl Into<Value>) -> Map<String, Value> {
        value.into().as_object().cloned().unwrap_or_default()
    }

    fn create(kind: Kind, sent: &Map<String, Value>) -> Result<Map<String, Value>, InvalidContent> {
        Checked::read(kind, sent)?.create(kind)
    }

    fn update(
        kind: Kind,
        old: &Map<String, Value>,
        sent: &Map<String, Value>,
    ) -> Result<Map<String, Value>, InvalidContent> {
        Ok(Checked::read(kind, sent)?.update(old))
    }

    #[test]
    fn a_text_that_looks_like_many_tokens_costs_little() {
        let began = std::time::Instant::now();
        for text in ["eyJ".repeat(21_000), "eyJ.".repeat(16_000), BASE64_STANDARD.encode("eyJ".repeat(16_000))] {
            assert!(find_credential(&json!(text)).is_none());
        }
        assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
    }

    #[test]
    fn what_is_left_out_stays_and_null_empties_what_may_be_empty() {
        let old = create(Kind::Pack, &object(json!({ "name": "A", "type": "context", "text": "b" }))).unwrap();
        let renamed = update(Kind::Pack, &old, &object(json!({ "name": "B" }))).unwrap();
        assert_eq!(Value::Object(renamed), json!({ "name": "B", "type": "context", "text": "b" }));
        let emptied = update(Kind::Pack, &old, &object(json!({ "text": null }))).unwrap();
        assert_eq!(Value::Object(emptied), json!({ "name": "A", "type": "context" }));
        assert!(update(Kind::Pack, &old, &object(json!({ "name": null }))).is_err());
    }

    #[test]
    fn every_field_has_its_form_ws_11() {
        for (kind, wrong) in [
            (Kind::Project, json!({})),
            (Kind::Project, json!({ "name": "" })),
            (Kind::Project, json!({ "name": " " })),
            (Kind::Project, json!({ "name": 1 })),
            (Kind::Project, json!({ "name": "a\nb" })),
            (Kind::Project, json!({ "name": "a".repeat(201) })),
            (Kind::Pack, json!({ "name": "a" })),
            (Kind::Pack, json!({ "name": "a", "type": "other" })),
            (Kind::Playbook, json!({ "name": "a", "definition": [] })),
            (Kind::Case, json!({ "name": "a", "dueOn": "2027-1-1" })),
            (Kind::Case, json!({ "name": "a", "dueOn": "2027-02-30" })),
            (Kind::Record, json!({ "name": "a", "data": "x" })),
            (Kind::Record, json!({ "name": "a", "data": { "x": [1e308] } })),
            (Kind::Record, json!({ "name": "a", "data": { "x": 1e-300 } })),
            (Kind::Record, json!({ "name": "a", "data": { "x": "\u{0}" } })),
            (Kind::Record, json!({ "name": "a", "recordedOn": "-000001-01-01" })),
        ] {
            assert!(matches!(create(kind, &object(wrong.clone())), Err(InvalidContent::Field { .. })), "{wrong}");
        }
        for unknown in ["id", "workspaceId", "ownerId", "createdAt", "emailVerified", "kind"] {
            let sent = object(json!({ "name": "a", unknown: "x" }));
            assert!(matches!(create(Kind::Project, &sent), Err(InvalidContent::UnknownField { .. })), "{unknown}");
        }
    }

    #[test]
    fn a_credential_is_found_wherever_it_stands() {
        let token = CliToken::from_body(&[7; Cli::BODY]).expose().to_owned();
        let wrapped = BASE64_STANDARD.encode(format!("token: {token}"));
        for hidden in [
            json!(token),
            json!(format!("use {token}!")),
            json!([{ "a": [token] }]),
            json!({ token.clone(): 1 }),
            json!(wrapped),
            json!(format!("data:text/plain;base64,{wrapped}")),
            json!(wrapped.as_bytes().chunks(76).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n")),
        ] {
            assert_eq!(find_credential(&hidden).expect("none found").expose(), token, "{hidden}");
        }
        let access_token = |typ: &str| {
            let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
            format!("{}.{}.c2ln", part(json!({ "typ": typ, "alg": "ES256" })), part(json!({ "sub": "x" })))
        };
        let ours = access_token("at+jwt");
        for hidden in [format!("Bearer {ours}."), BASE64_STANDARD.encode(format!("TOKEN={ours}"))] {
            assert_eq!(find_credential(&json!(hidden)).expect("none found").expose(), ours);
        }
        assert!(find_credential(&json!(access_token("JWT"))).is_none(), "not an access token");
        for harmless in [json!("svc_cli_"), json!("svc_rt_abc"), json!(null), json!("a".repeat(400)), json!({ "a": 1 })]
        {
            assert!(find_credential(&harmless).is_none(), "{harmless}");
        }
    }
}
