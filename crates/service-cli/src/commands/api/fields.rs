//! The fields of a request: `-f key=value` and `-F key=value`. No error repeats a value, because it can be a secret.

use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::{
    api_arguments::RequestFields,
    failure::{Failure, FailureCode},
    input::read_text,
};

/// Builds the JSON object that the fields describe; none without fields.
pub(super) fn build(fields: &RequestFields) -> Result<Option<Map<String, Value>>, Failure> {
    let mut object = Value::Object(Map::new());
    for field in &fields.raw_field {
        let (key, value) = split(field, "-f")?;
        insert(&mut object, key, value.into())?;
    }
    let files = fields.field.iter().filter(|field| field.split_once('=').is_some_and(|(_, value)| value == "@-"));
    if files.count() > 1 {
        return Err(usage("Only one field can be read from standard input."));
    }
    for field in &fields.field {
        let (key, value) = split(field, "-F")?;
        insert(&mut object, key, parse_value(key, value)?)?;
    }
    Ok(match object {
        Value::Object(members) if !members.is_empty() => Some(members),
        _ => None,
    })
}

/// The fields as a query. Each must have one value.
pub(super) fn to_query(fields: &Map<String, Value>) -> Result<String, Failure> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (key, value) in fields {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(usage(&format!(
                    "The field {} must be a text, a number or a boolean in a query.",
                    name(key)
                )));
            }
        };
        query.append_pair(key, &text);
    }
    Ok(query.finish())
}

fn split<'a>(field: &'a str, option: &str) -> Result<(&'a str, &'a str), Failure> {
    let found = field.split_once('=').filter(|(key, _)| !key.is_empty());
    found.ok_or_else(|| usage(&format!("A field is a key, = and a value, for example {option} name=Garden.")))
}

/// A typed value: the text of a file after `@`, JSON, or else the text itself.
fn parse_value(key: &str, value: &str) -> Result<Value, Failure> {
    if let Some(file) = value.strip_prefix('@') {
        return Ok(read_text(file)?.into());
    }
    match serde_json::from_str(value) {
        Ok(parsed) => Ok(parsed),
        Err(_) if value.starts_with(['{', '[', '"']) => {
            Err(usage(&format!("The field {} isn't valid JSON. To send it as text, use -f.", name(key))))
        }
        Err(_) => Ok(value.into()),
    }
}

/// Inserts a value at a key such as `name`, `inputs[year]` or `scopes[]`.
fn insert(object: &mut Value, key: &str, value: Value) -> Result<(), Failure> {
    let malformed = || usage(&format!("The key {} is malformed. Use a, a[b] or a[].", name(key)));
    let conflict = || usage(&format!("The field {} is given twice, or in two forms.", name(key)));
    let mut steps = Vec::new();
    let (first, mut rest) = key.split_at(key.find('[').unwrap_or(key.len()));
    steps.push(first);
    while !rest.is_empty() {
        let (step, after) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).ok_or_else(malformed)?;
        steps.push(step);
        rest = after;
    }
    // An empty step appends to a list, so nothing can follow it.
    let is_list = steps.len() > 1 && steps.last() == Some(&"");
    if is_list {
        steps.pop();
    }
    if steps.contains(&"") {
        return Err(malformed());
    }
    let mut place = object;
    for step in steps {
        let members = match place {
            Value::Null => {
                *place = Value::Object(Map::new());
                place.as_object_mut()
            }
            Value::Object(members) => Some(members),
            _ => None,
        };
        place = members.ok_or_else(conflict)?.entry(step).or_insert(Value::Null);
    }
    match (is_list, place) {
        (true, Value::Array(items)) => items.push(value),
        (true, place @ Value::Null) => *place = Value::Array(vec![value]),
        (false, place @ Value::Null) => *place = value,
        _ => return Err(conflict()),
    }
    Ok(())
}

/// A key in an error. Without a value it is no secret.
fn name(key: &str) -> String {
    crate::table::strip_control(key)
}

fn usage(text: &str) -> Failure {
    Failure::new(FailureCode::Usage, text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(raw: &[&str], typed: &[&str]) -> RequestFields {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        RequestFields { raw_field: owned(raw), field: owned(typed), paginate: false }
    }

    #[test]
    fn fields_make_an_object() {
        let object = build(&fields(
            &["name=Garden", "n=1", "empty=", "list[]=a", "list[]=b", "o[x][y]=z"],
            &["count=1", "on=true", "none=null", "text=plain words", "inputs={\"a\":[1]}", "o[w]=2", "half=0.5"],
        ));
        let expected = json!({
            "name": "Garden", "n": "1", "empty": "", "list": ["a", "b"], "o": { "x": { "y": "z" }, "w": 2 },
            "count": 1, "on": true, "none": null, "text": "plain words", "inputs": { "a": [1] }, "half": 0.5,
        });
        assert_eq!(Value::Object(object.unwrap().unwrap()), expected);
        assert!(build(&fields(&[], &[])).unwrap().is_none());
    }

    #[test]
    fn a_wrong_field_is_rejected_without_its_value() {
        for (raw, typed) in [
            (&["hunter2"][..], &[][..]),
            (&["=hunter2"], &[]),
            (&["a=1", "a=hunter2"], &[]),
            (&["a[b]=1", "a=hunter2"], &[]),
            (&["a=1", "a[b]=hunter2"], &[]),
            (&["a[=hunter2"], &[]),
            (&["a[][b]=hunter2"], &[]),
            (&["a[b]c=hunter2"], &[]),
            (&["[]=hunter2"], &[]),
            (&[], &["a={hunter2"]),
            (&[], &["a=@-", "b=@-"]),
        ] {
            let failure = build(&fields(raw, typed)).unwrap_err();
            assert!(!failure.message.contains("hunter2"), "{}", failure.message);
        }
    }

    #[test]
    fn a_query_has_encoded_scalars() {
        let object = build(&fields(&["q=a b&c"], &["limit=2"])).unwrap().unwrap();
        assert_eq!(to_query(&object).unwrap(), "limit=2&q=a+b%26c");
        assert!(to_query(&build(&fields(&["a[]=1"], &[])).unwrap().unwrap()).is_err());
    }
}
