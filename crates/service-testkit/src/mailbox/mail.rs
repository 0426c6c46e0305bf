//! A received mail, parsed.

use jiff::Timestamp;
use mail_parser::{MessageParser, PartType};
use serde::Serialize;

/// A mail as the mailbox received it. Lines of `text` and `html` end with a line feed only.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mail {
    /// The envelope sender.
    pub from: String,
    /// The envelope recipients.
    pub to: Vec<String>,
    pub subject: String,
    /// Empty if the mail has no plain text part.
    pub text: String,
    /// Empty if the mail has no HTML part.
    pub html: String,
    pub received_at: Timestamp,
    /// In their order, unfolded but not decoded.
    #[serde(skip)]
    pub headers: Vec<(String, String)>,
    #[serde(skip)]
    pub raw: String,
}

impl Mail {
    /// Returns the eight-digit code, which the text shows as `1234 5678` on a line of its own.
    #[must_use]
    pub fn code(&self) -> Option<String> {
        self.text.lines().find_map(|line| {
            let (first, second) = line.trim().split_once(' ')?;
            let is_half = |half: &str| half.len() == 4 && half.bytes().all(|byte| byte.is_ascii_digit());
            (is_half(first) && is_half(second)).then(|| format!("{first}{second}"))
        })
    }

    pub(super) fn parse(from: String, to: Vec<String>, raw: &[u8]) -> Self {
        let mut mail = Self {
            from,
            to,
            subject: String::new(),
            text: String::new(),
            html: String::new(),
            received_at: now(),
            headers: Vec::new(),
            raw: String::from_utf8_lossy(raw).into_owned(),
        };
        if let Some(message) = MessageParser::default().parse(raw) {
            mail.subject = message.subject().map(str::to_owned).unwrap_or_default();
            mail.headers = message.headers_raw().map(|(name, value)| (name.to_owned(), unfolded(value))).collect();
            // For a missing part, the parser returns a conversion of the other one.
            for part in message.text_bodies().chain(message.html_bodies()) {
                match &part.body {
                    PartType::Text(text) if mail.text.is_empty() => mail.text = text.replace("\r\n", "\n"),
                    PartType::Html(html) if mail.html.is_empty() => mail.html = html.replace("\r\n", "\n"),
                    _ => {}
                }
            }
        }
        mail
    }

    pub(super) fn is_to(&self, address: &str) -> bool {
        self.to.iter().any(|to| to.eq_ignore_ascii_case(address))
    }
}

fn unfolded(header: &str) -> String {
    header.trim().replace("\r\n", "")
}

#[expect(clippy::disallowed_methods, reason = "a mailbox stands for another machine, which has its own clock")]
fn now() -> Timestamp {
    Timestamp::now()
}
