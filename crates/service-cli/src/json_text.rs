//! JSON for people: indented, in color, and without characters that could control the terminal. It rewrites the text of valid
//! JSON, so that numbers and the order of members stay as they are.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use serde::de::IgnoredAny;

use crate::text::is_unsafe;

const KEY_STYLE: Style = AnsiColor::Blue.on_default().bold();
const STRING_STYLE: Style = AnsiColor::Green.on_default();
const LITERAL_STYLE: Style = AnsiColor::Yellow.on_default();
const INDENT: &str = "  ";

/// Whether a text is a valid JSON object or array.
pub(crate) fn is_container(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Indents and colors valid JSON.
pub(crate) fn indent(json: &str) -> String {
    let mut writer = Writer { text: String::with_capacity(json.len() * 2), depth: 0 };
    let mut rest = json.trim();
    while let Some(first) = rest.chars().next() {
        let length = token_length(rest, first);
        let (token, after) = rest.split_at(length);
        rest = after.trim_start();
        writer.write_token(token, first, rest);
        if matches!(first, '{' | '[') && rest.starts_with(['}', ']']) {
            writer.text.push_str(&rest[..1]);
            rest = rest[1..].trim_start();
        }
    }
    writer.text
}

/// The length of the token at the beginning of the text.
fn token_length(text: &str, first: char) -> usize {
    let ends_literal = |c: char| matches!(c, ',' | ':' | '}' | ']') || c.is_whitespace();
    match first {
        '{' | '}' | '[' | ']' | ',' | ':' => 1,
        '"' => {
            let mut is_escaped = false;
            let end = text.char_indices().skip(1).find(|(_, character)| {
                let ends = *character == '"' && !is_escaped;
                is_escaped = *character == '\\' && !is_escaped;
                ends
            });
            end.map_or(text.len(), |(at, _)| at + 1)
        }
        _ => text.find(ends_literal).filter(|length| *length > 0).unwrap_or(text.len()),
    }
}

struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    /// Writes a token. `rest` is the text after it.
    fn write_token(&mut self, token: &str, first: char, rest: &str) {
        match first {
            '{' | '[' => {
                self.text.push(first);
                if !rest.starts_with(['}', ']']) {
                    self.depth += 1;
                    self.break_line();
                }
            }
            '}' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                self.break_line();
                self.text.push(first);
            }
            ',' => {
                self.text.push(',');
                self.break_line();
            }
            ':' => self.text.push_str(": "),
            '"' if rest.starts_with(':') => self.write_styled(KEY_STYLE, token),
            '"' => self.write_styled(STRING_STYLE, token),
            _ => self.write_styled(LITERAL_STYLE, token),
        }
    }

    fn write_styled(&mut self, style: Style, token: &str) {
        self.text.push_str(&style.render().to_string());
        let mut units = [0; 2];
        for character in token.chars() {
            if is_unsafe(character) {
                for unit in character.encode_utf16(&mut units) {
                    let _ = write!(self.text, "\\u{unit:04x}");
                }
            } else {
                self.text.push(character);
            }
        }
        self.text.push_str(&style.render_reset().to_string());
    }

    fn break_line(&mut self) {
        self.text.push('\n');
        for _ in 0..self.depth {
            self.text.push_str(INDENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn plain(json: &str) -> String {
        anstream::adapter::strip_str(&indent(json)).to_string()
    }

    #[test]
    fn json_is_indented_and_its_values_stay_as_they_are_fh_17() {
        let json = r#"{"b":[1.50,{"a":null,"x":"say \"hi\": {\\"}],"empty":{},"none":[],"n":12345678901234567890123}"#;
        let expected = r#"{
  "b": [
    1.50,
    {
      "a": null,
      "x": "say \"hi\": {\\"
    }
  ],
  "empty": {},
  "none": [],
  "n": 12345678901234567890123
}"#;
        assert_eq!(plain(json), expected);
        assert_eq!(plain(expected), expected);
        assert!(indent(json).contains("\u{1b}["));
    }

    #[test]
    fn unsafe_characters_are_escaped_and_the_value_is_the_same_fh_17() {
        let json = "{\"name\\u001b\":\"a\u{202e}b\u{9b}c\u{e0041}\"}";
        let shown = plain(json);
        assert!(shown.contains(r"a\u202eb\u009bc\udb40\udc41"), "{shown}");
        let (before, after): (Value, Value) =
            (serde_json::from_str(json).unwrap(), serde_json::from_str(&shown).unwrap());
        assert_eq!(before, after);
        assert!(is_container(json) && is_container(" [1]") && !is_container("[1") && !is_container("7"));
    }
}
