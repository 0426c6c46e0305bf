//! The language files agree with each other and with what they name.

use std::collections::{BTreeMap, BTreeSet};

use service_api::{
    audit_events::EventName,
    endpoints::{self, Access, Endpoint, Method},
    scope::Scopes,
};
use service_rules::display_name::{DisplayName, OwnNames};

use crate::{
    brand::Brand,
    locales::{ENGLISH, GERMAN, Language, Locales, parse, sentence::Sentence},
};

/// The placeholders of every sentence, by its key.
fn placeholders(file: &str) -> BTreeMap<String, BTreeSet<String>> {
    fn walk(key: &str, value: &toml::Value, found: &mut BTreeMap<String, BTreeSet<String>>) {
        match value {
            toml::Value::Table(table) => {
                for (name, value) in table {
                    walk(&format!("{key}.{name}"), value, found);
                }
            }
            toml::Value::Array(values) => {
                for (place, value) in values.iter().enumerate() {
                    walk(&format!("{key}.{place}"), value, found);
                }
            }
            value => {
                let text = value.as_str().unwrap_or_else(|| panic!("{key} is no text"));
                assert!(!text.contains('\''), "{key}: write ’ instead of '");
                found.insert(key.to_owned(), Sentence::placeholders(text));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk("", &toml::Value::Table(file.parse().unwrap()), &mut found);
    found
}

#[test]
fn every_language_has_the_same_sentences_with_the_same_placeholders() {
    Locales::load().unwrap();
    let (english, german) = (placeholders(ENGLISH), placeholders(GERMAN));
    for (key, names) in &english {
        assert_eq!(german.get(key), Some(names), "de.toml: {key}");
    }
    for key in german.keys() {
        assert!(english.contains_key(key), "de.toml has {key}, which en.toml lacks");
    }
}

#[test]
fn a_file_is_refused_that_lacks_a_sentence_or_has_one_too_many() {
    let refused = |file: &str| parse(file, "Service").is_err();
    assert!(!refused(ENGLISH));
    assert!(refused(&ENGLISH.replace("tag = \"en\"\n", "")));
    assert!(refused(&ENGLISH.replace("tag = \"en\"\n", "tag = \"en\"\nextra = \"x\"\n")));
    assert!(refused(&ENGLISH.replace("tag = \"en\"", "tag = \"{name}\"")));
    assert!(refused(&ENGLISH.replace("personal_hint = ", "personal_hints = ")));
}

#[test]
fn the_service_is_called_what_its_operator_calls_it_fh_13() {
    for file in [ENGLISH, GERMAN] {
        assert!(!file.contains("Service"), "write {{brand}} instead of a name of the service");
    }
    let brand = Brand { name: "Größe & Co.".to_owned(), ..Brand::default() };
    let locales = Locales::with_brand(&brand).unwrap();
    assert_eq!(&*locales.of(Language::English).sign_in.title, "Sign in to Größe & Co.");
    assert_eq!(&*locales.of(Language::German).sign_in.title, "Bei Größe & Co. anmelden");
    assert_eq!(locales.of(Language::German).brand.name, brand.name);
}

#[test]
fn every_language_says_which_it_is() {
    let locales = Locales::load().unwrap();
    for language in Language::ALL {
        assert_eq!(&*locales.of(language).tag, language.tag());
    }
}

#[test]
fn every_event_has_its_text() {
    let locales = Locales::load().unwrap();
    let known: BTreeSet<_> = EventName::ALL.iter().map(|name| name.as_str()).collect();
    for texts in Language::ALL.map(|language| locales.of(language)) {
        let told: BTreeSet<_> = texts.events.keys().map(String::as_str).collect();
        assert_eq!(told, known);
        assert!(texts.named_events.keys().all(|name| known.contains(name.as_str())));
        assert!(texts.workspace_events.keys().all(|name| known.contains(name.as_str())));
    }
}

#[test]
fn no_client_can_take_a_name_that_the_service_shows_as_its_own() {
    let locales = Locales::load().unwrap();
    for texts in Language::ALL.map(|language| locales.of(language)) {
        let clients = &texts.clients;
        for name in [&texts.spaces.personal, &clients.web, &clients.command_line, &clients.mcp] {
            assert!(DisplayName::parse(name, 100, &OwnNames::default()).is_err(), "service-rules: reserve {name:?}");
        }
    }
}

#[test]
fn every_scope_has_its_sentence() {
    let locales = Locales::load().unwrap();
    let known: BTreeSet<_> = Scopes::ALL.words().collect();
    for texts in Language::ALL.map(|language| locales.of(language)) {
        let told: BTreeSet<_> = texts.scopes.keys().map(String::as_str).collect();
        assert_eq!(told, known);
        assert!(texts.own_scopes.keys().all(|word| known.contains(word.as_str())));
    }
}

/// What the English sentence of a scope has to say about an endpoint that the scope opens.
fn phrases(endpoint: &Endpoint) -> Vec<&'static str> {
    match (endpoint.method, endpoint.path) {
        (Method::Get, "/v1/workspaces" | "/v1/workspaces/{workspaceId}") => vec!["your workspaces"],
        (Method::Get, "/v1/workspaces/{workspaceId}/members") => vec!["members", "email addresses"],
        (Method::Get, "/v1/workspaces/{workspaceId}/invitations") => vec!["invitations", "email addresses"],
        (Method::Get, path) if path.contains("/connections") || path.contains("/domains") => {
            vec!["single sign-on settings"]
        }
        (Method::Post, "/v1/workspaces") | (Method::Patch, "/v1/workspaces/{workspaceId}") => {
            vec!["reate and rename workspaces"]
        }
        (Method::Post, "/v1/packs/search") => vec!["search", "packs"],
        (Method::Get, "/v1/audit-events") => vec!["activity log", "network addresses"],
        (method, path) => {
            let nouns = ["projects", "packs", "playbooks", "cases", "records"];
            let noun = nouns.into_iter().find(|noun| path.split('/').any(|part| part == *noun));
            let noun = noun.unwrap_or_else(|| panic!("say what a sentence has to say about {path}"));
            vec![if method == Method::Get { "View" } else { "Create, edit and delete" }, noun]
        }
    }
}

#[test]
fn a_sentence_names_every_endpoint_that_its_scope_opens_to_others_rv_16() {
    let locales = Locales::load().unwrap();
    let texts = locales.of(Language::English);
    for word in Scopes::ALL.words() {
        let scopes = Scopes::parse(word).written_out();
        for endpoint in endpoints::ALL {
            // What only a signed-in user may do is closed to apps of others, whatever their scopes.
            let (Access::Bearer(needed) | Access::Owner(needed)) = endpoint.access else { continue };
            if !scopes.allow(needed) {
                continue;
            }
            if needed.resource.is_none() {
                assert!(texts.consent.always.contains("email address"), "{}", endpoint.path);
                continue;
            }
            for phrase in phrases(endpoint) {
                let (said, path) = (texts.scope(word), endpoint.path);
                assert!(said.contains(phrase), "{word} opens {path}; its sentence lacks {phrase:?}: {said}");
            }
        }
    }
}
