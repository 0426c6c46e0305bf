//! When a user has to be prompted before a client gets access, and what the consent covers.

use service_api::scope::Scopes;

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

/// The scopes that the client is granted: those it requests now and the user selected. Empty: the user denied access.
#[must_use]
pub const fn granted_scopes(requested: Scopes, selected: Scopes) -> Scopes {
    requested.common(selected)
}

/// The scopes that the consent covers from now on.
///
/// If the user selected all requested scopes, the client keeps what it had. Otherwise the user narrowed its access, and
/// only the selected scopes are left.
#[must_use]
pub fn stored_scopes(prior: Option<PriorConsent>, requested: Scopes, granted: Scopes) -> Scopes {
    match prior {
        Some(prior) if granted == requested => prior.scopes.union(granted),
        _ => granted,
    }
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
    fn a_client_is_granted_what_it_asks_for_and_the_person_ticks_rv_14() {
        let (asked, held) = (Scopes::parse("read packs:write"), agreed("read write audit:read"));
        assert_eq!(granted_scopes(asked, Scopes::ALL), asked);
        assert_eq!(granted_scopes(asked, Scopes::parse("packs:write cases:write")).to_string(), "packs:write");
        assert!(granted_scopes(asked, Scopes::parse("write")).is_empty());
        assert_eq!(stored_scopes(None, asked, asked), asked);
        assert_eq!(stored_scopes(Some(held), asked, asked).to_string(), "read write packs:write audit:read");
        let narrowed = Scopes::parse("read");
        assert_eq!(stored_scopes(Some(held), asked, narrowed), narrowed);
    }
}
