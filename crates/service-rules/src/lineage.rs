//! Lineage: what else is revoked with a session, and why.
//!
//! A session can create things that outlive it: CLI tokens, MCP token pairs, invitations, passkeys, recovery codes, changes of the email
//! address, and, in a browser, the sessions of apps. An attacker with a stolen session creates them first. So each of them records the
//! session that created it, and this table says what happens to them when that session is revoked. Only [`consequence`] decides it; the
//! documentation prints [`table`].

use service_api::{errors::Reason, sessions::MadeTreatment};

use crate::{Timestamp, lifetimes, signing::later};

/// Something that a session created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    CliToken,
    McpPair,
    Invitation,
    /// The session of an app, opened by a browser that was signed in.
    AppSession,
    Passkey,
    /// The recovery codes of a user.
    RecoveryCodes,
    /// A change of the email address that has not been made yet.
    AddressChange,
}

impl Made {
    pub const ALL: [Self; 7] = [
        Self::CliToken,
        Self::McpPair,
        Self::Invitation,
        Self::AppSession,
        Self::Passkey,
        Self::RecoveryCodes,
        Self::AddressChange,
    ];

    const fn heading(self) -> &'static str {
        match self {
            Self::CliToken => "CLI tokens",
            Self::McpPair => "MCP token pairs",
            Self::Invitation => "invitations",
            Self::AppSession => "app sessions (of a browser)",
            Self::Passkey => "passkeys (of a browser)",
            Self::RecoveryCodes => "recovery codes (of a browser)",
            Self::AddressChange => "a requested change of the address",
        }
    }
}

/// What happened to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A refresh token or an authorization code was presented again after its use.
    Replayed,
    /// A superseded refresh token was presented.
    Superseded,
    /// A token or cookie of the session was reported as leaked.
    Leaked,
    /// The user revoked the session from another one, and chose what happens to the things that it created.
    RevokedByUser(MadeTreatment),
    /// The session revoked its own token, or its browser signed out.
    SignedOut,
    /// An operator revoked all sessions of the user.
    RevokedByOperator,
    /// An operator revoked this session alone, because its user asked for it or it looks stolen.
    SingledOutByOperator,
    /// The session expired or was idle for too long.
    Expired,
}

impl Event {
    pub const ALL: [Self; 10] = [
        Self::Replayed,
        Self::Superseded,
        Self::Leaked,
        Self::RevokedByUser(MadeTreatment::Recommended),
        Self::RevokedByUser(MadeTreatment::Revoke),
        Self::RevokedByUser(MadeTreatment::Keep),
        Self::SignedOut,
        Self::RevokedByOperator,
        Self::SingledOutByOperator,
        Self::Expired,
    ];

    const fn heading(self) -> &'static str {
        match self {
            Self::Replayed => "replayed",
            Self::Superseded => "superseded",
            Self::Leaked => "leaked",
            Self::RevokedByUser(MadeTreatment::Recommended) => "revoked by the user, `made=recommended` (the default)",
            Self::RevokedByUser(MadeTreatment::Revoke) => "revoked by the user, `made=revoke`",
            Self::RevokedByUser(MadeTreatment::Keep) => "revoked by the user, `made=keep`",
            Self::SignedOut => "signed out by its own token",
            Self::RevokedByOperator => "signed out by an operator, with all others",
            Self::SingledOutByOperator => "revoked by an operator",
            Self::Expired => "expired or idle",
        }
    }

    /// The reason that holders of the revoked things are told.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Replayed => Reason::Replayed,
            Self::Superseded => Reason::Superseded,
            Self::Leaked => Reason::Leaked,
            Self::RevokedByUser(_) | Self::SignedOut => Reason::RevokedByUser,
            Self::RevokedByOperator | Self::SingledOutByOperator => Reason::RevokedByAdmin,
            Self::Expired => Reason::Expired,
        }
    }
}

/// What happens to something that a session created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    Stays,
    Revoked,
    /// Revoked if it was created within [`lifetimes::SUSPECT`] before. Older things stay, and the user is shown them first.
    RevokedIfRecent,
    /// Revoked unless it was used within [`lifetimes::IN_USE`] before: a program depends on it.
    RevokedUnlessInUse,
    /// Revoked if it was created within [`lifetimes::PASSKEY_NEW`] before. Removing an older passkey needs the step-up that it
    /// protects: an attacker who revokes a session could otherwise take the protection away.
    RevokedIfNew,
}

impl Consequence {
    const fn heading(self) -> &'static str {
        match self {
            Self::Stays => "stay",
            Self::Revoked => "revoked",
            Self::RevokedIfRecent => "revoked if made in the last 31 days",
            Self::RevokedUnlessInUse => "revoked unless used in the last 7 days",
            Self::RevokedIfNew => "removed if added in the last 7 days",
        }
    }

    /// Whether something that was created and last used at these times is revoked.
    #[must_use]
    pub fn revokes(self, made_at: Timestamp, used_at: Option<Timestamp>, now: Timestamp) -> bool {
        match self {
            Self::Stays => false,
            Self::Revoked => true,
            Self::RevokedIfRecent => made_at > later(now, -lifetimes::SUSPECT),
            Self::RevokedIfNew => made_at > later(now, -lifetimes::PASSKEY_NEW),
            Self::RevokedUnlessInUse => used_at.is_none_or(|at| at <= later(now, -lifetimes::IN_USE)),
        }
    }
}

/// What happens to `made` when this happens to the session that created it.
#[must_use]
pub const fn consequence(event: Event, made: Made) -> Consequence {
    match (event, made) {
        (
            Event::Replayed
            | Event::Superseded
            | Event::Leaked
            | Event::RevokedByUser(MadeTreatment::Recommended | MadeTreatment::Revoke),
            Made::Passkey | Made::RecoveryCodes,
        ) => Consequence::RevokedIfNew,
        (Event::Replayed | Event::Superseded | Event::Leaked | Event::SingledOutByOperator, _) => {
            Consequence::RevokedIfRecent
        }
        (Event::RevokedByUser(MadeTreatment::Recommended), Made::CliToken) => Consequence::RevokedUnlessInUse,
        (Event::RevokedByUser(MadeTreatment::Revoke), _)
        | (Event::RevokedByUser(MadeTreatment::Recommended), Made::McpPair | Made::Invitation)
        // A user who revokes a session never wants it to change the address.
        | (Event::RevokedByUser(_), Made::AddressChange)
        // An operator's sign-out revokes every session of the user, and an MCP pair and an app's session are sessions.
        | (Event::RevokedByOperator, Made::McpPair | Made::AppSession | Made::AddressChange) => Consequence::Revoked,
        (
            Event::RevokedByUser(MadeTreatment::Keep | MadeTreatment::Recommended)
            | Event::SignedOut
            | Event::RevokedByOperator
            | Event::Expired,
            _,
        ) => Consequence::Stays,
    }
}

/// The whole table in Markdown, as the documentation prints it.
#[must_use]
pub fn table() -> String {
    let mut rows = vec![
        format!("| the session is | {} |", Made::ALL.map(Made::heading).join(" | ")),
        format!("|---|{}", "---|".repeat(Made::ALL.len())),
    ];
    rows.extend(Event::ALL.map(|event| {
        let cells = Made::ALL.map(|made| consequence(event, made).heading());
        format!("| {} | {} |", event.heading(), cells.join(" | "))
    }));
    rows.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_compromised_session_made_lately_is_revoked_rv_05() {
        for event in [Event::Replayed, Event::Superseded, Event::Leaked] {
            for made in Made::ALL {
                let expected = match made {
                    Made::Passkey | Made::RecoveryCodes => Consequence::RevokedIfNew,
                    _ => Consequence::RevokedIfRecent,
                };
                assert_eq!(consequence(event, made), expected);
            }
        }
        let at = |day: i64| Timestamp::from_second(day * 86_400).unwrap();
        let recent = Consequence::RevokedIfRecent;
        assert!(recent.revokes(at(70), None, at(100)) && !recent.revokes(at(69), Some(at(100)), at(100)));
        let new = Consequence::RevokedIfNew;
        assert!(new.revokes(at(94), Some(at(100)), at(100)) && !new.revokes(at(93), None, at(100)));
        let unused = Consequence::RevokedUnlessInUse;
        assert!(unused.revokes(at(0), None, at(100)) && unused.revokes(at(0), Some(at(93)), at(100)));
        assert!(!unused.revokes(at(0), Some(at(94)), at(100)));
        assert!(Consequence::Revoked.revokes(at(0), Some(at(100)), at(100)));
        assert!(!Consequence::Stays.revokes(at(100), None, at(100)));
    }
}
