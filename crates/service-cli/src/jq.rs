//! `--jq`: a filter over the object that `--json` prints. Most of the language of jq; filters see nothing but the object.

use jaq_core::{
    Compiler, Ctx, Vars, data,
    load::{Arena, File, Loader},
    unwrap_valr,
};
use jaq_json::{Val, read, write};
use serde_json::Value;

use crate::failure::{Code, Failure};

type Filter = jaq_core::Filter<data::JustLut<Val>>;

fn wrong(why: &str) -> Failure {
    Failure::new(Code::Usage, format!("The filter of --jq {why}."))
}

/// Whether a filter can be read: found out before anything is done that could not be shown then.
pub(crate) fn check(filter: &str) -> Result<(), Failure> {
    compile(filter).map(drop)
}

fn compile(filter: &str) -> Result<Filter, Failure> {
    let arena = Arena::default();
    let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    // The environment holds SERVICE_TOKEN, and is none of a filter's business.
    let std = jaq_std::funs().filter(|(name, ..)| *name != "env");
    let funs = jaq_core::funs().chain(std).chain(jaq_json::funs());
    let modules = Loader::new(defs).load(&arena, File { code: filter, path: () });
    let modules = modules.map_err(|_| wrong("cannot be read"))?;
    let compiled = Compiler::default().with_funs(funs).compile(modules);
    compiled.map_err(|_| wrong("names something that does not exist"))
}

/// One line for each result; a text is printed as it is.
pub(crate) fn run(filter: &str, object: &Value) -> Result<Vec<String>, Failure> {
    let compiled = compile(filter)?;
    let input = read::parse_single(object.to_string().as_bytes()).map_err(|_| wrong("got no object"))?;
    let context = Ctx::<data::JustLut<Val>>::new(&compiled.lut, Vars::new([]));
    compiled
        .id
        .run((context, input))
        .map(|value| match unwrap_valr(value) {
            Ok(value) => line(&value).ok_or_else(|| wrong("gave something that is not JSON")),
            Err(error) => Err(wrong(&format!("failed: {error}"))),
        })
        .collect()
}

fn line(value: &Val) -> Option<String> {
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
        assert_eq!(run(".tokens[].id", &object).unwrap(), ["a", "b"]);
        assert_eq!(run("[.tokens[] | select(.n > 1)] | length", &object).unwrap(), ["1"]);
        assert_eq!(run(".tokens[0]", &object).unwrap(), [r#"{"id":"a","n":1}"#]);
    }

    #[test]
    fn a_filter_that_is_wrong_says_so_and_sees_nothing_of_the_environment() {
        for wrong in [".tokens[", "nothing_such", "env", "$ENV", "input"] {
            assert!(run(wrong, &json!({})).is_err(), "{wrong}");
        }
    }
}
