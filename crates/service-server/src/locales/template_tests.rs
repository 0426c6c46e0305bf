//! Templates hold no sentence of their own: every text comes from the language files.

use std::{fs, path::Path};

/// Attributes that people read, or hear from a screen reader.
const SPOKEN: [&str; 5] = ["title", "aria-label", "placeholder", "alt", "aria-description"];

fn templates(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            templates(&path, found);
        } else {
            found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
}

/// A template without what lies between these marks.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut rest = text;
    let mut left = String::new();
    while let Some((before, inside)) = rest.split_once(open) {
        left.push_str(before);
        rest = inside.split_once(close).unwrap_or_else(|| panic!("{open} without {close}")).1;
    }
    left + rest
}

/// The texts with letters that a template shows of itself: between tags, and in attributes that are spoken.
fn own_texts(template: &str) -> Vec<String> {
    let template = without(template, "{% block kind %}", "{% endblock %}");
    // What a program is to be told, such as the name of a variable, is the same in every language.
    let text = without(&without(&without(&template, "{{", "}}"), "{%", "%}"), "<code>", "</code>");
    let text = without(&text, "<style>", "</style>");
    let has_letters = |text: &&str| text.chars().any(char::is_alphabetic);
    let mut found = Vec::new();
    for piece in text.split('<') {
        let (tag, shown) = piece.split_once('>').unwrap_or(("", piece));
        found.extend(Some(shown.trim()).filter(has_letters).map(str::to_owned));
        for attribute in SPOKEN {
            let value = tag.split_once(&format!(" {attribute}=\"")).and_then(|(_, rest)| rest.split('"').next());
            found.extend(value.filter(has_letters).map(|value| format!("{attribute}={value}")));
        }
    }
    found
}

#[test]
fn templates_hold_no_sentence_of_their_own() {
    let mut all = Vec::new();
    templates(&Path::new(env!("CARGO_MANIFEST_DIR")).join("templates"), &mut all);
    assert!(all.len() > 15);
    for (path, text) in all {
        let own = own_texts(&text);
        assert!(own.is_empty(), "{path}: move these into locales/: {own:?}");
    }
}

#[test]
fn a_sentence_in_a_template_is_found() {
    for found in
        ["<p>Hello</p>", "<a title=\"Hello\">{{ x }}</a>", "{% if x %}Hello{% endif %}", "<i>{{ x }} of</i>", "Hello"]
    {
        assert_eq!(own_texts(found).len(), 1, "{found}");
    }
    for none in ["<p>{{ hello }}</p>", "<p id=\"hello\"> — 1</p>", "<code>HELLO=…</code>", "{% include \"x\" %}"] {
        assert_eq!(own_texts(none), Vec::<String>::new(), "{none}");
    }
}
