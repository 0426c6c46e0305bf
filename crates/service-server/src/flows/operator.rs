//! The operator who runs a command of `serviced admin`, or for whom a support client makes a call, as audit events name them.

use serde_json::Value;
use service_api::{
    audit_events::{AuditEvent, EventName},
    ids::SupportClientId,
};
use service_rules::Timestamp;

use crate::{crypto::random, store::audit_events::NewAuditEvent};

/// The details of an event that only operators read: who acted, why, and on what.
const OPERATOR: &str = "operator";
const OPERATOR_REASON: &str = "operatorReason";
/// The support client that named the operator.
const OPERATOR_CLIENT: &str = "operatorClient";
/// The network, or the HMAC of the address, whose limits an operator looked at or reset.
pub const OPERATOR_LIMITED: &str = "operatorLimited";

const MAX_NAME_CHARS: usize = 64;
const MAX_REASON_CHARS: usize = 200;

/// The operator who runs an administrative command, by the name that audit events record, and why they run it. A person who can
/// run `serviced` with its root keys can choose the name, and so can a support client, which events name too.
#[derive(Clone, Debug)]
pub struct Operator {
    name: String,
    reason: Option<String>,
    /// The support client that names the operator, and the id of its request.
    through: Option<(SupportClientId, String)>,
}

/// For when the operating system does not name the user who runs the command.
impl Default for Operator {
    fn default() -> Self {
        Self { name: "unknown".to_owned(), reason: None, through: None }
    }
}

impl Operator {
    /// `None`: the name is empty, too long, or has characters that are not seen.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        is_line(name, MAX_NAME_CHARS).then(|| Self { name: name.to_owned(), reason: None, through: None })
    }

    /// Adds why the operator acts. `None`: the reason is empty, too long, or has characters that are not seen.
    #[must_use]
    pub fn because(self, reason: &str) -> Option<Self> {
        is_line(reason, MAX_REASON_CHARS).then(|| Self { reason: Some(reason.to_owned()), ..self })
    }

    /// Adds the support client that names the operator, in a request with this id.
    #[must_use]
    pub fn through(self, client: SupportClientId, request_id: &str) -> Self {
        Self { through: Some((client, request_id.to_owned())), ..self }
    }

    #[must_use]
    pub const fn has_reason(&self) -> bool {
        self.reason.is_some()
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An audit event of an action by this operator. `details` is a JSON object.
    pub fn event<'a>(&self, event: EventName, now: Timestamp, mut details: Value) -> anyhow::Result<NewAuditEvent<'a>> {
        details[OPERATOR] = self.name.clone().into();
        if let Some(reason) = &self.reason {
            details[OPERATOR_REASON] = reason.clone().into();
        }
        if let Some((client, _)) = &self.through {
            details[OPERATOR_CLIENT] = client.to_string().into();
        }
        let mut event = NewAuditEvent::new(random::id(now)?, event, now, details);
        event.request_id = self.through.as_ref().map(|(_, request_id)| request_id.clone());
        Ok(event)
    }
}

/// Removes from an event which operator acted, and why: users and owners see that an operator did.
pub fn hide_operator(event: &mut AuditEvent) {
    for name in [OPERATOR, OPERATOR_REASON, OPERATOR_CLIENT, OPERATOR_LIMITED] {
        event.details.remove(name);
    }
}

/// Whether the text is one line of at most this many characters, with something in it, and nothing that hides or reorders it.
pub(super) fn is_line(text: &str, max_chars: usize) -> bool {
    let is_unseen = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
    };
    !text.trim().is_empty() && text.chars().count() <= max_chars && !text.chars().any(is_unseen)
}

#[cfg(test)]
mod tests {
    use super::is_line;

    #[test]
    fn a_line_shows_what_it_says() {
        assert!(is_line("Ann Smith (höchste Stufe), ticket https://help.acme.test/4711", 100));
        for text in
            ["", "  ", "a\nb", "a\u{2028}b", "ann\u{200b}", "\u{202e}nna", "a\u{feff}", "a\u{e0041}", "12345678901"]
        {
            assert!(!is_line(text, 10), "{text:?}");
        }
    }
}
