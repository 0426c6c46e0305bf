//! Request bodies: JSON, and forms at `/oauth`. Both are parsed strictly, and give the same result.

use std::time::Duration;

use axum::{
    body::{Bytes, HttpBody as _},
    extract::{FromRequest, Request},
    http::{HeaderMap, Method, header, request::Parts},
};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use service_api::endpoints;
use service_rules::{field_name, json};
use tokio::time::{Instant, timeout_at};

use crate::{
    app::App,
    http::{
        errors::{ApiError, EdgeError, MalformedRequest, UnknownField},
        exchange::Exchange,
        query::{self, Query},
    },
    node_limits::network_places::Holder,
};

/// The time for a body to arrive. Bytes that have arrived extend it at this rate.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(5);
const MIN_BYTES_PER_SECOND: u32 = 8 * 1024;

/// A body that has arrived completely.
#[derive(Clone)]
struct ReceivedBody(Bytes);

/// Whether a request has a body to be received. Requests that only read do not wait for one.
#[must_use]
pub fn is_expected(request: &Request) -> bool {
    !request.body().is_end_stream() && !matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Receives the body before the request takes a slot. Limits its size, its time, and how many bodies arrive at once, in
/// total and for the caller's network.
pub async fn receive(app: &App, holder: Holder, request: Request) -> Result<Request, ApiError> {
    let Some(_place) = app.arriving.take(holder, 1) else { return Err(EdgeError::Busy.into()) };
    receive_at_most(request, app.config.http.body_limit).await
}

/// Receives a body of at most this many bytes, within a time.
pub async fn receive_at_most(request: Request, limit: usize) -> Result<Request, ApiError> {
    let (mut parts, body) = request.into_parts();
    let announced = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > limit) {
        return Err(MalformedRequest::TooLarge(limit).into());
    }
    parts.extensions.insert(ReceivedBody(collect(body, limit).await?));
    Ok(Request::from_parts(parts, axum::body::Body::empty()))
}

/// Reads a body of at most this many bytes to its end. The deadline moves with the bytes that arrive, so a slow client can
/// finish and a silent one cannot.
pub async fn collect(mut body: axum::body::Body, limit: usize) -> Result<Bytes, MalformedRequest> {
    let (began, mut bytes) = (Instant::now(), Vec::new());
    loop {
        let arrived = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let due = began + ARRIVAL_TIMEOUT + Duration::from_secs(1) * arrived / MIN_BYTES_PER_SECOND;
        match timeout_at(due, body.frame()).await {
            Ok(None) => return Ok(bytes.into()),
            Ok(Some(Ok(frame))) => {
                let data = frame.into_data().unwrap_or_default();
                if bytes.len() + data.len() > limit {
                    return Err(MalformedRequest::TooLarge(limit));
                }
                bytes.extend_from_slice(&data);
            }
            Ok(Some(Err(_))) => {
                return Err(MalformedRequest::Body("The body arrived incomplete. Send it again.".into()));
            }
            Err(_) => return Err(MalformedRequest::Body("The body took too long to arrive. Send it again.".into())),
        }
    }
}

/// The parsed body of a request. The query may only contain parameters that the endpoint allows.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        let (mut parts, _) = request.into_parts();
        Query::read(&parts)?;
        let accepted = Exchange::endpoint(&parts).map_or(endpoints::Body::Json, |row| row.body);
        let form = is_form(&parts.headers, accepted)?;
        let bytes = parts.extensions.remove().map_or_else(Bytes::new, |ReceivedBody(bytes)| bytes);
        let value = if form { read_form(&bytes)? } else { read_json(&bytes)? };
        Ok(Self(typed(value)?))
    }
}

/// Returns a body as one of our types, or what is wrong with it.
pub fn typed<T: DeserializeOwned>(value: Value) -> Result<T, MalformedRequest> {
    serde_json::from_value(value).map_err(|error| describe(&error))
}

/// Returns the members of a JSON body that is an object.
pub fn json_object(parts: &mut Parts) -> Result<Map<String, Value>, MalformedRequest> {
    read_object(&json_bytes(parts)?)
}

/// Returns the bytes of a JSON body.
pub fn json_bytes(parts: &mut Parts) -> Result<Bytes, MalformedRequest> {
    is_form(&parts.headers, endpoints::Body::Json)?;
    Ok(parts.extensions.remove().map_or_else(Bytes::new, |ReceivedBody(bytes)| bytes))
}

/// Returns the pairs of a form that one of our pages sent.
pub fn form_pairs(parts: &mut Parts) -> Result<Vec<(String, String)>, MalformedRequest> {
    is_form(&parts.headers, endpoints::Body::Form)?;
    let bytes = parts.extensions.remove().map_or_else(Bytes::new, |ReceivedBody(bytes)| bytes);
    let pairs = std::str::from_utf8(&bytes).ok().and_then(query::pairs);
    pairs.ok_or_else(|| MalformedRequest::Body("The form can't be decoded. Go back and try again.".into()))
}

fn is_form(headers: &HeaderMap, accepted: endpoints::Body) -> Result<bool, MalformedRequest> {
    let forms = matches!(accepted, endpoints::Body::JsonOrForm | endpoints::Body::Form);
    let json = accepted != endpoints::Body::Form;
    let expected = match accepted {
        endpoints::Body::JsonOrForm => "application/json or application/x-www-form-urlencoded",
        endpoints::Body::Form => "application/x-www-form-urlencoded",
        endpoints::Body::Json | endpoints::Body::None => "application/json",
    };
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let only = values.next().filter(|_| values.next().is_none());
    let text = only.and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
    let (media_type, parameters) = text.split_once(';').unwrap_or((&text, ""));
    let known_charset = matches!(parameters.trim(), "" | "charset=utf-8" | "charset=\"utf-8\"");
    match media_type.trim() {
        "application/json" if known_charset && json => Ok(false),
        "application/x-www-form-urlencoded" if known_charset && forms => Ok(true),
        _ => Err(MalformedRequest::MediaType(expected)),
    }
}

fn read_json(bytes: &[u8]) -> Result<Value, MalformedRequest> {
    read_object(bytes).map(Value::Object)
}

fn read_object(bytes: &[u8]) -> Result<Map<String, Value>, MalformedRequest> {
    match parse_json(bytes)? {
        Value::Object(members) => Ok(members),
        _ => Err(MalformedRequest::Body("The body must be a JSON object.".into())),
    }
}

/// Parses JSON strictly.
pub fn parse_json(bytes: &[u8]) -> Result<Value, MalformedRequest> {
    json::read(bytes).map_err(|json::JsonError| {
        let text = "The body isn't valid JSON. Check its syntax, and for duplicate keys and deep nesting.";
        MalformedRequest::Body(text.into())
    })
}

/// Converts a form to the JSON object with the same parameters.
fn read_form(bytes: &[u8]) -> Result<Value, MalformedRequest> {
    let pairs = std::str::from_utf8(bytes).ok().and_then(query::pairs);
    let pairs =
        pairs.ok_or_else(|| MalformedRequest::Body("The form can't be decoded. Check its percent-encoding.".into()))?;
    let mut object = Map::new();
    for (name, value) in pairs {
        if object.insert(name, Value::String(value)).is_some() {
            return Err(MalformedRequest::Body("A parameter is repeated. Send each one once.".into()));
        }
    }
    Ok(Value::Object(object))
}

/// Describes a parse error. Only names of fields are used, because other messages may quote values.
fn describe(error: &serde_json::Error) -> MalformedRequest {
    let text = error.to_string();
    let name_after = |start: &str| text.strip_prefix(start)?.split('`').next();
    if let Some(name) = name_after("missing field `") {
        return MalformedRequest::MissingField(name.to_owned());
    }
    if let Some(name) = name_after("unknown field `") {
        let known = text.rsplit_once(", expected ").map(|(_, known)| known.trim_start_matches("one of "));
        let known = known.map(|known| known.replace('`', "").replace(" or ", ", "));
        let name = field_name::repeatable(name).map(str::to_owned);
        return MalformedRequest::UnknownField(UnknownField { name, known });
    }
    MalformedRequest::Body("A field of the body has the wrong type.".into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use service_api::{oauth::TokenRequest, sign_in::OtpRequest};

    use super::*;

    #[test]
    fn a_mistake_is_described_without_quoting_values() {
        let describe = |value| describe(&serde_json::from_value::<OtpRequest>(value).unwrap_err()).to_string();
        assert_eq!(describe(json!({})), "The field email is missing.");
        assert_eq!(describe(json!({ "email": 12_345_678 })), "A field of the body has the wrong type.");
        let unknown = describe(json!({ "email": "a@b.test", "svc_secret": 1 }));
        assert_eq!(unknown, "The body has an unknown field. Known fields: email, clientId, device.");
        let unknown = describe(json!({ "email": "a@b.test", "colour": 1 }));
        assert_eq!(unknown, "The body has the unknown field colour. Known fields: email, clientId, device.");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Parameters give one and the same request as a form and as JSON (HT-03).
        #[test]
        fn form_and_json_are_read_alike_ht_03(
            pairs in prop::collection::vec((prop::sample::select(TokenRequest::PARAMETERS), "[ -~é€\u{0}-\u{2}]{0,12}"), 0..5),
        ) {
            let encode = |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
            let form = pairs.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&");
            let text = |text: &str| serde_json::to_string(text).unwrap();
            let body = pairs.iter().map(|(name, value)| format!("{}:{}", text(name), text(value))).collect::<Vec<_>>().join(",");
            let from_form = read_form(form.as_bytes()).ok();
            let from_json = read_json(format!("{{{body}}}").as_bytes()).ok();
            prop_assert_eq!(from_form, from_json);
        }
    }
}
