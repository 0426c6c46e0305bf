//! What a language calls things that more than one page or mail names: moments, durations, clients, roles, scopes, events.

use jiff::tz::TimeZone;
use service_api::{
    audit_events::AuditEvent,
    oauth::{SERVICE_CLI, SERVICE_MCP, SERVICE_WEB},
    workspaces::Role,
};
use service_rules::{Timestamp, lineage::Made, user_agent::UserAgent};

use crate::locales::{Sentence, Text, Texts};

const DAY: i64 = 86_400;
const TWO_DAYS: i64 = 2 * DAY;
/// Moments that are further away are told by their date.
const MONTH: i64 = 30 * DAY;
const FROM_A_DAY: i64 = -DAY + 1;
const FROM_A_MONTH: i64 = -MONTH + 1;

/// Reasons for a revocation that say that a session was compromised.
const COMPROMISED: [&str; 3] = ["replayed", "superseded", "leaked"];

impl Texts {
    /// A moment, such as "15 January 2027, 09:02 UTC".
    pub(crate) fn moment(&self, at: Timestamp) -> String {
        let at = at.to_zoned(TimeZone::UTC);
        let month = usize::try_from(at.month() - 1).ok().and_then(|place| self.date.months.get(place));
        let moment = self.date.moment.with("day", at.day()).with("month", month.map_or("", |name| &**name));
        moment.with("year", at.year()).with("time", at.strftime("%H:%M")).to_string()
    }

    /// A moment as it is told from now, such as "3 minutes ago"; a month away, the date.
    pub(crate) fn relative_time(&self, at: Timestamp, now: Timestamp) -> String {
        let (date, passed) = (&self.date, now.as_second() - at.as_second());
        let (sentence, time) = match passed {
            // The clocks of two nodes may differ a little.
            -5..60 => return date.just_now.to_string(),
            60..3_600 => (&date.ago, self.duration.minutes.count(passed / 60)),
            3_600..DAY => (&date.ago, self.duration.hours.count(passed / 3_600)),
            DAY..MONTH => (&date.ago, self.duration.days.count(passed / DAY)),
            FROM_A_DAY..-5 => (&date.ahead, self.duration(-passed)),
            FROM_A_MONTH..FROM_A_DAY => (&date.ahead, self.duration.days.count(-passed / DAY)),
            _ => return self.moment(at),
        };
        sentence.with("time", time).to_string()
    }

    /// What people call a browser. The names are from a fixed list.
    pub(crate) fn device(&self, agent: UserAgent) -> String {
        let texts = &self.devices;
        match (agent.browser, agent.system) {
            (Some(browser), Some(system)) => texts.both.with("browser", browser).with("system", system).to_string(),
            (Some(browser), None) => browser.to_owned(),
            (None, Some(system)) => texts.unknown_on.with("system", system).to_string(),
            (None, None) => texts.unknown.to_string(),
        }
    }

    /// How long something takes, rounded up to a unit that people would use.
    pub(crate) fn duration(&self, seconds: i64) -> Sentence {
        match seconds {
            ..60 => self.duration.seconds.count(seconds),
            60..3_600 => self.duration.minutes.count((seconds + 59) / 60),
            3_600..TWO_DAYS => self.duration.hours.count((seconds + 3_599) / 3_600),
            _ => self.duration.days.count((seconds + DAY - 1) / DAY),
        }
    }

    /// What people call a client: words of ours, never a name that someone else could have chosen.
    pub(crate) fn client(&self, client_id: &str) -> Option<&Text> {
        match client_id {
            SERVICE_WEB => Some(&self.clients.web),
            SERVICE_CLI => Some(&self.clients.command_line),
            SERVICE_MCP => Some(&self.clients.mcp),
            _ => None,
        }
    }

    pub(crate) fn client_or_app(&self, client_id: &str) -> &Text {
        self.client(client_id).unwrap_or(&self.clients.app)
    }

    pub(crate) const fn role(&self, role: Role) -> &Text {
        match role {
            Role::Owner => &self.roles.owner,
            Role::Member => &self.roles.member,
            Role::Viewer => &self.roles.viewer,
        }
    }

    /// What a scope allows an app of others to do. A scope without a sentence is shown as it is written.
    pub(crate) fn scope<'a>(&'a self, word: &'a str) -> &'a str {
        self.scopes.get(word).map_or(word, |text| text)
    }

    /// What a scope allows one of the service's own clients to do, for which `read` and `write` leave nothing out.
    pub(crate) fn own_scope<'a>(&'a self, word: &'a str) -> &'a str {
        match self.own_scopes.get(word) {
            Some(text) => text,
            None => self.scope(word),
        }
    }

    /// Something that a session created, on a page or in a mail.
    pub(crate) fn made(&self, kind: Made, name: &str, made_at: Timestamp) -> String {
        let sentence = match kind {
            Made::CliToken => self.made.cli_token.with("name", name),
            Made::McpPair => self.made.mcp_pair.clone(),
            Made::AppSession => self.made.app_session.with("name", name),
            Made::Invitation => self.made.invitation.with("name", name),
            Made::Passkey => self.made.passkey.with("name", name),
            Made::RecoveryCodes => self.made.recovery_codes.clone(),
            Made::AddressChange => self.made.address_change.with("name", name),
        };
        sentence.with("date", self.moment(made_at)).to_string()
    }

    /// What happened. `name` is what it happened to, if that is known.
    pub(crate) fn event(&self, event: &AuditEvent, name: Option<&str>) -> String {
        if let Some(text) = self.revoked_with_session(event) {
            return text;
        }
        let named = name.and_then(|name| Some(self.named_events.get(&event.event)?.with("name", name).to_string()));
        // A newer node may have recorded an event that this one does not know.
        let plain = || self.events.get(&event.event).map_or_else(|| event.event.clone(), |text| (**text).to_owned());
        named.unwrap_or_else(plain)
    }

    /// What happened in a workspace, for its owners: the event may concern another user.
    pub(crate) fn workspace_event<'a>(&'a self, event: &'a str) -> &'a str {
        let text = self.workspace_events.get(event).or_else(|| self.events.get(event));
        // A newer node may have recorded an event that this one does not know.
        text.map_or(event, |text| text)
    }

    /// What was revoked with the session that created it is named by its id.
    fn revoked_with_session(&self, event: &AuditEvent) -> Option<String> {
        let texts = &self.revoked_with_session;
        let thing = match event.event.as_str() {
            "cli_token.revoked" => &texts.cli_token,
            "session.ended" => &texts.session,
            "invitation.revoked" => &texts.invitation,
            _ => return None,
        };
        let id = event.subject.as_ref().filter(|_| event.details.contains_key("madeBy"))?;
        let reason = event.details.get("reason").and_then(|reason| reason.as_str()).unwrap_or_default();
        let sentence = if COMPROMISED.contains(&reason) { &texts.compromised } else { &texts.plain };
        Some(sentence.with("thing", thing).with("id", id).to_string())
    }
}
