//! Strict JSON: text that two parsers could understand differently is rejected.
//!
//! Rejected are duplicate keys (also by escapes), NUL characters and nesting deeper than [`MAX_DEPTH`]. `serde_json`
//! already rejects lone surrogates, byte order marks, trailing data and numbers that no double can hold.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

/// The deepest nesting of arrays and objects that is accepted.
pub const MAX_DEPTH: usize = 32;

/// The text is not strict JSON. The error does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not strict JSON")]
pub struct JsonError;

/// Reads `text` as one strict JSON value.
///
/// # Errors
/// [`JsonError`].
pub fn read(text: &[u8]) -> Result<Value, JsonError> {
    serde_json::from_slice(text).map(|Strict(value)| value).map_err(|_| JsonError)
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Reader { depth: 0 }.deserialize(deserializer).map(Self)
    }
}

#[derive(Clone, Copy)]
struct Reader {
    depth: usize,
}

impl Reader {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH { Err(E::custom("nested too deeply")) } else { Ok(Self { depth: self.depth + 1 }) }
    }
}

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

fn text<E: de::Error>(text: &str) -> Result<String, E> {
    if text.contains('\0') { Err(E::custom("contains NUL")) } else { Ok(text.to_owned()) }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        text(value).map(Value::String)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let key = text(&key)?;
            let value = entries.next_value_seed(inner)?;
            if map.insert(key, value).is_some() {
                return Err(de::Error::custom("a key occurs twice"));
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_json_is_read() {
        let text = br#" {"a":[1,-2,2.5,true,null,"\u00e9"],"b":{"c":{}}} "#;
        assert_eq!(read(text), Ok(json!({"a": [1, -2, 2.5, true, null, "é"], "b": {"c": {}}})));
    }

    #[test]
    fn what_two_readers_could_understand_differently_is_refused() {
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        for wrong in [
            r#"{"a":1,"a":1}"#,
            r#"{"email":1,"\u0065mail":2}"#,
            r#"{"x":{"a":1,"a":2}}"#,
            r#"{"a":"\u0000"}"#,
            r#"{"\u0000":1}"#,
            r#""\ud800""#,
            "\u{feff}{}",
            "{}{}",
            "{} x",
            "1e999",
            "NaN",
            "{'a':1}",
            "{\"a\":1,}",
            "",
            &deep,
        ] {
            assert_eq!(read(wrong.as_bytes()), Err(JsonError), "{wrong}");
        }
        assert_eq!(read(b"\"\xc0\x80\""), Err(JsonError));
    }

    #[test]
    fn nesting_is_read_down_to_the_limit() {
        let deepest = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(read(deepest.as_bytes()).is_ok());
        assert_eq!(read("[".repeat(1_000_000).as_bytes()), Err(JsonError));
    }
}
