//! `--jq`: filters the JSON output. It supports most of the jq language; a filter cannot read the environment or files.

use jaq_core::{
    Compiler, Ctx, Vars, data,
    load::{Arena, File, Loader},
    unwrap_valr,
};
use jaq_json::{Val, read, write};
use serde_json::Value;

use crate::failure::{Failure, FailureCode};

type Filter = jaq_core::Filter<data::JustLut<Val>>;

fn filter_failed(why: &str) -> Failure {
    Failure::new(FailureCode::Usage, format!("The --jq filter {why}."))
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
    let modules = modules.map_err(|_| filter_failed("is invalid"))?;
    let compiled = Compiler::default().with_funs(funs).compile(modules);
    compiled.map_err(|_| filter_failed("uses an unknown name"))
}

/// Applies a filter. Returns a line for each result; strings have no quotes.
pub(crate) fn run_filter(filter: &str, object: &Value) -> Result<Vec<String>, Failure> {
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

fn format_value(value: &Val) -> Option<String> {
    let mut bytes = Vec::new();
    write::write(&mut bytes, &write::Pp::default(), 0, value).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(serde_json::from_str::<String>(&text).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_filter_picks_from_the_object() {
        let object = json!({ "tokens": [{ "id": "a", "n": 1 }, { "id": "b", "n": 2 }] });
        assert_eq!(run_filter(".tokens[].id", &object).unwrap(), ["a", "b"]);
        assert_eq!(run_filter("[.tokens[] | select(.n > 1)] | length", &object).unwrap(), ["1"]);
        assert_eq!(run_filter(".tokens[0]", &object).unwrap(), [r#"{"id":"a","n":1}"#]);
    }

    #[test]
    fn an_invalid_filter_is_rejected_and_none_reads_the_environment() {
        for wrong in [".tokens[", "nothing_such", "env", "$ENV", "input"] {
            assert!(run_filter(wrong, &json!({})).is_err(), "{wrong}");
        }
    }
}
