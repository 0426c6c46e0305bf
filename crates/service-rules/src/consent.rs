//! When a user has to be prompted before a client gets access, and what the consent covers.

use service_api::scope::{Action, Scopes};

use crate::{
    authorization::Prompt,
    clients::{Client, ClientKind},
    redirect,
};

/// The consent that a user gave before, for this client at this redirect host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorConsent {
    pub scopes: Scopes,
}

/// Whether the client is not verified: it registered itself, or its responses go to the user's own machine, where any
/// program can receive them.
#[must_use]
pub fn is_unproven(client: &Client, redirect_uri: &str) -> bool {
    matches!(client.kind, ClientKind::Dynamic | ClientKind::Document)
        || redirect::check(redirect_uri) != Ok(redirect::RedirectKind::Web)
}

/// Whether an operator verified the client's name. Any other client chose its name itself.
#[must_use]
pub const fn is_name_verified(kind: ClientKind) -> bool {
    matches!(kind, ClientKind::FirstParty | ClientKind::Registered)
}

/// Whether a prior consent covers the requested scopes, for this client.
#[must_use]
pub fn covers(client: &Client, prior: PriorConsent, requested: Scopes) -> bool {
    let reached = |scopes: Scopes| if client.kind == ClientKind::FirstParty { scopes } else { scopes.written_out() };
    reached(prior.scopes).cover(reached(requested))
}

/// Whether the user has to be prompted. For a client that is not verified the user is prompted every time.
#[must_use]
pub fn needs_prompt(
    client: &Client,
    redirect_uri: &str,
    requested: Scopes,
    prior: Option<PriorConsent>,
    prompt: Prompt,
) -> bool {
    let is_covered = prior.is_some_and(|prior| covers(client, prior, requested));
    !is_covered || prompt.consent || is_unproven(client, redirect_uri)
}

/// The scopes that the user can select on the consent page, in two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedScopes {
    /// What the client requests and does not have.
    pub new: Scopes,
    /// What the client has by a prior consent, whether or not it requests it.
    pub held: Scopes,
}

impl OfferedScopes {
    /// For a first-party client every consent is a sign-in of its own, which gets nothing from the ones before it.
    #[must_use]
    pub fn of(client: &Client, requested: Scopes, prior: Option<PriorConsent>) -> Self {
        match prior {
            Some(prior) if client.kind != ClientKind::FirstParty => {
                let new = requested.words().filter(|word| !covers(client, prior, Scopes::parse(word)));
                Self { new: Scopes::from_words(new), held: widest(client, prior.scopes) }
            }
            _ => Self { new: requested, held: Scopes::NONE },
        }
    }

    #[must_use]
    pub const fn all(self) -> Scopes {
        self.new.union(self.held)
    }

    /// Whether there is something to read and something else: then "read only" is a choice.
    #[must_use]
    pub fn can_be_read_only(self) -> bool {
        !self.all().with_action(Action::Read).is_empty() && !self.all().with_action(Action::Write).is_empty()
    }
}

/// The scopes without those that another one of them covers.
fn widest(client: &Client, scopes: Scopes) -> Scopes {
    let words: Vec<_> = scopes.words().collect();
    // The wide scopes come first, so that the narrow ones are left out.
    words.iter().rev().fold(scopes, |kept, word| {
        let others = Scopes::from_words(kept.words().filter(|other| other != word));
        if covers(client, PriorConsent { scopes: others }, Scopes::parse(word)) { others } else { kept }
    })
}

/// The scopes that the client is granted: of those that it requests now or has by a prior consent, the ones that the user
/// selected. Empty: the user denied access.
///
/// A requested scope that the page did not offer, because a held one covers it, is granted with the one that covers it.
#[must_use]
pub fn granted_scopes(client: &Client, requested: Scopes, prior: Option<PriorConsent>, selected: Scopes) -> Scopes {
    let offered = OfferedScopes::of(client, requested, prior);
    let held = prior.map_or(Scopes::NONE, |prior| prior.scopes);
    let held = if client.kind == ClientKind::FirstParty { Scopes::NONE } else { held };
    let granted = selected.common(requested.union(held));
    let implied = requested.words().filter(|word| {
        let scope = Scopes::parse(word);
        scope.common(offered.all()).is_empty() && covers(client, PriorConsent { scopes: granted }, scope)
    });
    granted.union(Scopes::from_words(implied))
}

/// The scopes that the consent covers from now on.
///
/// The page shows everything that a third-party client has, so the decision replaces what was decided before. For a
/// first-party client it shows the requested scopes only: if the user selected all of them, the client keeps what it had.
#[must_use]
pub fn stored_scopes(client: &Client, prior: Option<PriorConsent>, requested: Scopes, granted: Scopes) -> Scopes {
    match prior {
        Some(prior) if client.kind == ClientKind::FirstParty && granted == requested => prior.scopes.union(granted),
        _ => granted,
    }
}

/// Whether the user took something back from a third-party client, or left out something that it requests: then sessions
/// that have more are revoked. A sign-in to a first-party client changes nothing about other sessions.
#[must_use]
pub fn is_narrowed(client: &Client, prior: Option<PriorConsent>, requested: Scopes, granted: Scopes) -> bool {
    let before = requested.union(prior.map_or(Scopes::NONE, |prior| prior.scopes));
    client.kind != ClientKind::FirstParty && !covers(client, PriorConsent { scopes: granted }, before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::sample;

    const WEB: &str = "https://app.test/cb";
    const LOOPBACK: &str = "http://127.0.0.1:5000/cb";

    fn agreed(scopes: &str) -> PriorConsent {
        PriorConsent { scopes: Scopes::parse(scopes) }
    }

    #[test]
    fn for_an_unverified_client_the_user_is_prompted_every_time_az_17() {
        let (read, both) = (Scopes::parse("read"), Scopes::parse("read write"));
        let known = sample(ClientKind::Registered);
        assert!(needs_prompt(&known, WEB, read, None, Prompt::default()));
        assert!(!needs_prompt(&known, WEB, read, Some(agreed("read write")), Prompt::default()));
        assert!(needs_prompt(&known, WEB, both, Some(agreed("read")), Prompt::default()));
        assert!(needs_prompt(&known, WEB, read, Some(agreed("read")), Prompt { consent: true, ..Prompt::default() }));
        assert!(needs_prompt(&known, LOOPBACK, read, Some(agreed("read")), Prompt::default()));
        assert!(needs_prompt(&known, "com.example.app:/cb", read, Some(agreed("read")), Prompt::default()));
        for kind in [ClientKind::Dynamic, ClientKind::Document] {
            assert!(needs_prompt(&sample(kind), WEB, read, Some(agreed("read")), Prompt::default()));
        }
    }

    #[test]
    fn plain_scopes_of_others_cover_nothing_of_the_account_rv_16() {
        let (client, own) = (sample(ClientKind::Registered), sample(ClientKind::FirstParty));
        let audit = Scopes::parse("audit:read");
        assert!(needs_prompt(&client, WEB, audit, Some(agreed("read write")), Prompt::default()));
        assert!(!needs_prompt(&client, WEB, audit, Some(agreed("audit:read")), Prompt::default()));
        assert!(!needs_prompt(&own, WEB, audit, Some(agreed("read")), Prompt::default()));
    }

    #[test]
    fn a_client_is_granted_what_it_asks_for_or_has_and_the_person_ticks_rv_14() {
        let client = sample(ClientKind::Registered);
        let granted = |asked: &str, held: &str, ticked: &str| {
            let held = Some(agreed(held)).filter(|held| !held.scopes.is_empty());
            granted_scopes(&client, Scopes::parse(asked), held, Scopes::parse(ticked)).to_string()
        };
        assert_eq!(granted("read packs:write", "", "read packs:write"), "read packs:write");
        assert_eq!(granted("read packs:write", "", "packs:write cases:write"), "packs:write");
        assert_eq!(granted("read packs:write", "", "write"), "");
        // What it has is kept as far as it is ticked, and nothing else comes along.
        assert_eq!(granted("write", "read", "read write"), "read write");
        assert_eq!(granted("write", "read", "write"), "write");
        assert_eq!(granted("write", "read", "read write audit:read tokens:write"), "read write");
        assert_eq!(granted("packs:read", "read write", "read"), "read packs:read");
        assert_eq!(granted("packs:read", "read write", "write"), "write");
        // A scope with a box of its own is not granted for another one's.
        assert_eq!(granted("read packs:read", "", "read"), "read");
        // Of the account, plain scopes cover nothing.
        assert_eq!(granted("audit:read", "read", "read"), "read");
    }

    #[test]
    fn the_page_asks_for_what_is_missing_and_shows_what_is_held() {
        let client = sample(ClientKind::Registered);
        let offered = |asked: &str, held: &str| {
            let offered = OfferedScopes::of(&client, Scopes::parse(asked), Some(agreed(held)));
            (offered.new.to_string(), offered.held.to_string())
        };
        let pair = |new: &str, held: &str| (new.to_owned(), held.to_owned());
        assert_eq!(offered("read write", "read"), pair("write", "read"));
        assert_eq!(offered("packs:read", "read write packs:read"), pair("", "read write"));
        assert_eq!(offered("read", "packs:read audit:read"), pair("read", "packs:read audit:read"));
        assert_eq!(offered("read audit:read", "read"), pair("audit:read", "read"));
        // Everything that can be read, and the plain scope besides: one of the two is shown.
        let all = Scopes::parse("read").written_out().union(Scopes::READ);
        assert_eq!(offered("read", &all.to_string()), pair("", "read"));
        let first = OfferedScopes::of(&client, Scopes::READ_WRITE, None);
        assert_eq!((first.new, first.held), (Scopes::READ_WRITE, Scopes::NONE));
        assert!(first.can_be_read_only());
        for one_sided in ["read audit:read", "write packs:write"] {
            assert!(!OfferedScopes::of(&client, Scopes::parse(one_sided), None).can_be_read_only());
        }
    }

    #[test]
    fn a_sign_in_to_a_first_party_client_stands_for_itself() {
        let (own, held) = (sample(ClientKind::FirstParty), Some(agreed("read write")));
        let read = Scopes::READ;
        assert_eq!(OfferedScopes::of(&own, read, held), OfferedScopes { new: read, held: Scopes::NONE });
        assert_eq!(granted_scopes(&own, read, held, Scopes::READ_WRITE), read);
        assert_eq!(stored_scopes(&own, held, read, read), Scopes::READ_WRITE);
        assert_eq!(stored_scopes(&own, held, Scopes::READ_WRITE, read), read);
        assert!(!is_narrowed(&own, held, Scopes::READ_WRITE, read));
    }

    #[test]
    fn what_is_not_ticked_is_taken_back() {
        let client = sample(ClientKind::Registered);
        let narrowed = |held: &str, asked: &str, granted: &str| {
            is_narrowed(&client, Some(agreed(held)), Scopes::parse(asked), Scopes::parse(granted))
        };
        assert!(!narrowed("read", "write", "read write"));
        assert!(!narrowed("packs:read", "read", "read"));
        assert!(narrowed("read", "write", "write"));
        assert!(narrowed("read", "write", "read"));
        assert!(narrowed("read audit:read", "read", "read"));
        assert!(!is_narrowed(&client, None, Scopes::READ, Scopes::READ));
        assert_eq!(stored_scopes(&client, Some(agreed("read write")), Scopes::READ, Scopes::READ), Scopes::READ);
    }
}
