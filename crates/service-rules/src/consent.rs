//! When a person has to be asked before a client gets access, and what is new about what it asks for.

use service_api::scope::Scopes;

use crate::{
    authorization::Prompt,
    clients::{Client, Kind},
    redirect,
};

/// What a person has agreed to before, for this client at this redirect host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub scopes: Scopes,
}

/// Whether anybody could be this client: it registered itself, or its answers go to the person's own machine, where any
/// program can wait for them.
#[must_use]
pub fn is_unproven(client: &Client, redirect_uri: &str) -> bool {
    matches!(client.kind, Kind::Dynamic | Kind::Document) || redirect::check(redirect_uri) != Ok(redirect::Kind::Web)
}

/// Whether the person has to be asked. Someone who could be anybody has to be looked at every time.
#[must_use]
pub fn must_ask(client: &Client, redirect_uri: &str, asked: Scopes, agreed: Option<Agreed>, prompt: Prompt) -> bool {
    let known = agreed.is_some_and(|agreed| agreed.scopes.cover(asked));
    !known || prompt.consent || is_unproven(client, redirect_uri)
}

/// What a client has in the end: what it asks for now beside what it had.
#[must_use]
pub fn granted(asked: Scopes, agreed: Option<Agreed>) -> Scopes {
    asked.union(agreed.map_or(Scopes::NONE, |agreed| agreed.scopes))
}

/// A scope in plain words.
#[must_use]
pub fn sentence(word: &str) -> &'static str {
    match word {
        "read" => "See everything that you can see there: projects, packs, playbooks, cases and records",
        "write" => "Create, change and delete whatever you can",
        "workspaces:read" => "See workspaces and who is in them",
        "workspaces:write" => "Change workspaces and who is in them",
        "projects:read" => "See projects",
        "projects:write" => "Create, change and delete projects",
        "packs:read" => "See and search packs",
        "packs:write" => "Create, change and delete packs",
        "playbooks:read" => "See playbooks",
        "playbooks:write" => "Create, change and delete playbooks",
        "cases:read" => "See cases",
        "cases:write" => "Create, change and delete cases",
        "records:read" => "See records",
        "records:write" => "Create, change and delete records",
        "tokens:read" => "See your tokens for automation, but not their secrets",
        "tokens:write" => "Create and revoke tokens for automation in your name",
        "sessions:read" => "See where you are signed in",
        "sessions:write" => "Sign you out elsewhere",
        "audit:read" => "See the record of what happened",
        "audit:write" => "Nothing yet: nobody can change the record of what happened",
        _ => "Something that this page does not know",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::sample;

    const WEB: &str = "https://app.test/cb";
    const LOOPBACK: &str = "http://127.0.0.1:5000/cb";

    fn agreed(scopes: &str) -> Agreed {
        Agreed { scopes: Scopes::parse(scopes) }
    }

    #[test]
    fn whoever_could_be_anybody_is_asked_about_every_time_az_17() {
        let (read, both) = (Scopes::parse("read"), Scopes::parse("read write"));
        let known = sample(Kind::Registered);
        assert!(must_ask(&known, WEB, read, None, Prompt::default()));
        assert!(!must_ask(&known, WEB, read, Some(agreed("read write")), Prompt::default()));
        assert!(must_ask(&known, WEB, both, Some(agreed("read")), Prompt::default()));
        assert!(must_ask(&known, WEB, read, Some(agreed("read")), Prompt { consent: true, ..Prompt::default() }));
        assert!(must_ask(&known, LOOPBACK, read, Some(agreed("read")), Prompt::default()));
        assert!(must_ask(&known, "com.example.app:/cb", read, Some(agreed("read")), Prompt::default()));
        for kind in [Kind::Dynamic, Kind::Document] {
            assert!(must_ask(&sample(kind), WEB, read, Some(agreed("read")), Prompt::default()));
        }
    }

    #[test]
    fn more_later_adds_to_what_was_agreed_before() {
        assert_eq!(granted(Scopes::parse("write"), Some(agreed("projects:read"))).to_string(), "write projects:read");
        assert_eq!(granted(Scopes::parse("read"), None).to_string(), "read");
    }

    #[test]
    fn every_scope_has_its_sentence() {
        for word in Scopes::ALL.words() {
            assert!(!sentence(word).contains("does not know"), "{word}");
        }
    }
}
