//! `--jq`: filters the JSON output. It supports most of the jq language; a filter cannot read the environment or files.

use jaq_core::{
    Compiler, Ctx, Vars, data,
    load::{self, Arena, File, Loader},
    unwrap_valr,
};
use jaq_json::{Val, read, write};
use serde_json::Value;

use crate::failure::{Failure, FailureCode};

type Filter = jaq_core::Filter<data::JustLut<Val>>;

/// One result of a filter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FilterResult {
    /// A string, without its quotes.
    Text(String),
    /// Another value, as JSON.
    Json(String),
}

impl FilterResult {
    /// The result as a line of output.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Text(text) | Self::Json(text) => text,
        }
    }
}

fn filter_failed(why: &str) -> Failure {
    Failure::new(FailureCode::Usage, format!("The --jq filter {why}."))
}

/// Says what is wrong at a part of a filter, and in which column that is.
fn wrong_at(filter: &str, part: &str, what: &str) -> Failure {
    // The part is a slice of the filter; its address says where.
    let offset = (part.as_ptr() as usize).wrapping_sub(filter.as_ptr() as usize);
    let column = filter.get(..offset).unwrap_or(filter).chars().count() + 1;
    filter_failed(&format!("is invalid at column {column}: {what}")).with("column", column)
}

/// What the parser expected, and where.
fn explain_syntax(filter: &str, error: &load::Error<&str>) -> Failure {
    let (part, expected) = match error {
        load::Error::Io(_) => return filter_failed("can't load modules"),
        load::Error::Lex(errors) => match errors.first() {
            Some((expected, part)) => (*part, format!("expected a {}", expected.as_str())),
            None => return filter_failed("is invalid"),
        },
        load::Error::Parse(errors) => match errors.first() {
            Some((expected, part)) => (*part, format!("expected {}", quoted(expected.as_str()))),
            None => return filter_failed("is invalid"),
        },
    };
    // At the end, the parser names no part of the filter.
    let part = if part.is_empty() { &filter[filter.len()..] } else { part };
    wrong_at(filter, part, &expected)
}

/// Quotes a token of the language, but not its description.
fn quoted(expected: &str) -> String {
    if expected.contains(|c: char| !c.is_ascii_alphabetic() && c != ' ') {
        return format!("`{expected}`");
    }
    expected.to_owned()
}

/// Checks that a filter compiles, before the command has any effect whose result it could not print.
pub(crate) fn check_filter(filter: &str) -> Result<(), Failure> {
    compile_filter(filter).map(drop)
}

fn compile_filter(filter: &str) -> Result<Filter, Failure> {
    let arena = Arena::default();
    let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    // The environment contains SERVICE_TOKEN, so filters cannot read it.
    let std = jaq_std::funs().filter(|(name, ..)| *name != "env");
    let funs = jaq_core::funs().chain(std).chain(jaq_json::funs());
    let modules = Loader::new(defs).load(&arena, File { code: filter, path: () });
    let modules = modules.map_err(|errors| match errors.first() {
        Some((_, error)) => explain_syntax(filter, error),
        None => filter_failed("is invalid"),
    })?;
    let compiled = Compiler::default().with_funs(funs).compile(modules);
    compiled.map_err(|errors| match errors.first().and_then(|(_, errors)| errors.first()) {
        Some((name, kind)) => wrong_at(filter, name, &format!("unknown {} `{name}`", kind.as_str())),
        None => filter_failed("uses an unknown name"),
    })
}

/// Applies a filter. Returns its results.
pub(crate) fn run_filter(filter: &str, object: &Value) -> Result<Vec<FilterResult>, Failure> {
    let compiled = compile_filter(filter)?;
    let input = read::parse_single(object.to_string().as_bytes()).map_err(|_| filter_failed("got invalid input"))?;
    let context = Ctx::<data::JustLut<Val>>::new(&compiled.lut, Vars::new([]));
    compiled
        .id
        .run((context, input))
        .map(|value| match unwrap_valr(value) {
            Ok(value) => format_value(&value).ok_or_else(|| filter_failed("returned something that isn't JSON")),
            Err(error) => Err(filter_failed(&format!("failed: {error}"))),
        })
        .collect()
}

fn format_value(value: &Val) -> Option<FilterResult> {
    let mut bytes = Vec::new();
    write::write(&mut bytes, &write::Pp::default(), 0, value).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(serde_json::from_str::<String>(&text).map_or(FilterResult::Json(text), FilterResult::Text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_filter_picks_from_the_object() {
        use FilterResult::{Json, Text};
        let object = json!({ "tokens": [{ "id": "a", "n": 1 }, { "id": "{}", "n": 2 }] });
        assert_eq!(run_filter(".tokens[].id", &object).unwrap(), [Text("a".into()), Text("{}".into())]);
        assert_eq!(run_filter("[.tokens[] | select(.n > 1)] | length", &object).unwrap(), [Json("1".into())]);
        assert_eq!(run_filter(".tokens[0]", &object).unwrap(), [Json(r#"{"id":"a","n":1}"#.into())]);
    }

    #[test]
    fn an_invalid_filter_is_explained_with_its_position_fh_17() {
        for (filter, column, what) in [
            (".tokens[", 9, "expected a closing bracket"),
            (".tokens[] |", 12, "expected term"),
            (".a | nothing_such", 6, "unknown filter `nothing_such`"),
            ("\"ä\" | nope", 7, "unknown filter `nope`"),
        ] {
            let failure = check_filter(filter).unwrap_err();
            assert_eq!(failure.message, format!("The --jq filter is invalid at column {column}: {what}."));
            assert_eq!(failure.to_json()["error"]["column"], column);
        }
    }

    #[test]
    fn an_invalid_filter_is_rejected_and_none_reads_the_environment() {
        for wrong in [".tokens[", "nothing_such", "env", "$ENV", "input"] {
            assert!(run_filter(wrong, &json!({})).is_err(), "{wrong}");
        }
    }
}
