//! The shape of the code: rules that the compiler does not check. Each failure names the paragraph of ARCHITECTURE.md
//! that it guards.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Who may look at a secret's text: where it is hashed, sent, or written into a mail.
const MAY_EXPOSE: [&str; 33] = [
    "service-server/src/mail/templates.rs",
    "service-server/src/tokens/refresh_token.rs",
    "service-server/src/issuers/mod.rs",
    "service-server/src/issuers/token_endpoint.rs",
    "service-server/src/cli/admin/mod.rs",
    "service-server/src/flows/oauth/consent_prompt.rs",
    "service-server/src/crypto/digest.rs",
    "service-server/src/flows/authenticate.rs",
    "service-server/src/flows/sign_in/browser_session.rs",
    "service-server/src/flows/clients/assertions.rs",
    "service-server/src/flows/clients/client_auth.rs",
    "service-server/src/flows/clients/mod.rs",
    "service-server/src/flows/tokens/cli_tokens.rs",
    "service-server/src/flows/sign_in/devices.rs",
    "service-server/src/flows/sso/connection_fields.rs",
    "service-server/src/flows/oauth/introspect.rs",
    "service-server/src/flows/sign_in/request_otp.rs",
    "service-server/src/flows/oauth/authorization_code_grant.rs",
    "service-server/src/flows/sso/backchannel_logout.rs",
    "service-server/src/flows/oauth/otp_grant.rs",
    "service-server/src/flows/tokens/exposed.rs",
    "service-server/src/flows/oauth/revoke.rs",
    "service-server/src/flows/tokens/leaks.rs",
    "service-server/src/http/oauth/client_authentication.rs",
    "service-server/src/http/pages/account/tokens.rs",
    "service-server/src/http/pages/keep_account.rs",
    "service-server/src/http/pages/request_browser.rs",
    "service-client/src/client.rs",
    "service-client/src/session.rs",
    "service-client/src/calls/oauth.rs",
    "service-client/src/calls/sign_in.rs",
    "service-cli/src/credentials/refresh_token_place.rs",
    "service-cli/src/commands/token/create.rs",
];

#[test]
fn sql_lives_in_the_store_and_does_not_know_the_time() {
    for (path, text) in sources("service-server/src") {
        let in_store = path.contains("/store/");
        let is_sql = |line: &str| {
            let line = line.trim_start().trim_start_matches("r\"").trim_start_matches('"');
            ["select ", "insert into ", "update ", "delete from "].iter().any(|verb| line.starts_with(verb))
        };
        if !in_store && !path.ends_with("migrations.rs") {
            assert!(!text.lines().any(is_sql), "{path} holds SQL: see ARCHITECTURE.md, SQL lives in the store");
        }
    }
    let asks = |text: &str| text.to_lowercase().contains("now()") || text.to_lowercase().contains("current_timestamp");
    let store = sources("service-server/src/store");
    for (path, text) in store.into_iter().chain(sources("service-server/migrations")) {
        assert!(!asks(&text), "{path} asks PostgreSQL for the time: see ARCHITECTURE.md, No SQL now()");
    }
}

#[test]
fn every_file_says_what_it_is_for_and_fits_in_the_head() {
    let paragraph = "see ARCHITECTURE.md, Every file says what it is for and fits in the head";
    for (path, text) in sources("")
        .into_iter()
        .filter(|(path, _)| Path::new(path).extension().is_some_and(|extension| extension == "rs"))
    {
        assert!(text.starts_with("//!"), "{path} has no opening //! line: {paragraph}");
        let lines = text.lines().count();
        assert!(lines <= 500, "{path} has {lines} lines: {paragraph}");
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        assert!(widest <= 140, "{path} has a line of {widest} characters: {paragraph}");
        let name = Path::new(&path).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let vague = ["util", "utils", "helper", "helpers", "common", "core", "manager", "misc"];
        assert!(!vague.contains(&name), "{path} could hold anything: {paragraph}");
    }
}

#[test]
fn secrets_are_exposed_in_few_places() {
    for (path, text) in sources("").into_iter().filter(|(path, _)| path.contains("/src/")) {
        // Tests below a module may look; so may the type itself and the kit that searches for leaks.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let excused = MAY_EXPOSE.iter().any(|known| path.ends_with(known))
            || path.ends_with("service-api/src/token.rs")
            || path.ends_with("service-api/src/oauth.rs");
        let exposes = text.contains(".expose()");
        assert!(!exposes || excused, "{path} exposes a secret: see ARCHITECTURE.md, Secrets are exposed in few places");
    }
}

#[test]
fn a_route_is_made_from_its_row() {
    for (path, text) in sources("service-server/src/http") {
        let routes = text.matches(".route(").count();
        let allowed = if path.ends_with("support/mod.rs") {
            1
        } else if path.ends_with("ops.rs") {
            4
        } else {
            0
        };
        let has_table = path.ends_with("http/routes.rs");
        assert_eq!(text.contains("matchit::Router::new()"), has_table, "{path} has a table of routes");
        assert_eq!(routes, allowed, "{path} makes routes: see ARCHITECTURE.md, A route is made from its row");
    }
}

#[test]
fn no_document_or_source_names_a_machine() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = sources("");
    for folder in ["docs", "xtask", ".ci"] {
        files.extend(read(&top.join(folder)));
    }
    // Written in two halves, or this file would name them itself.
    let named = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    for (path, text) in files {
        for name in named {
            assert!(!text.contains(name), "{path} names a folder of a developer's machine: {name}");
        }
    }
}

pub(crate) fn sources(folder: &str) -> Vec<(String, String)> {
    let found = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder));
    assert!(!found.is_empty(), "no sources under {folder}");
    found
}

fn read(folder: &Path) -> Vec<(String, String)> {
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push((path.display().to_string(), text));
            }
        }
    }
    found
}
