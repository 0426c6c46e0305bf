//! Delivery reports (RFC 3464): what a mail system says about mail that it could not deliver.

use mail_parser::{MessageParser, MessagePart, MimeHeaders as _};
use service_rules::email::Address;

/// A recipient whom a mail was not delivered to, and is not tried again for.
#[derive(Debug, PartialEq, Eq)]
pub struct FailedRecipient {
    pub address: Address,
    /// The status (RFC 3463), such as `5.1.1`.
    pub status: String,
}

/// Returns the recipients for whom delivery failed, by their final addresses. Mail that was forwarded has another original
/// recipient, who may also have received it.
#[must_use]
pub fn failed_recipients(message: &[u8]) -> Vec<FailedRecipient> {
    let Some(message) = MessageParser::default().parse(message) else { return Vec::new() };
    let reports = message.parts.iter().filter(|part| is_report(part)).filter_map(MessagePart::text_contents);
    reports.flat_map(|report| groups(report).iter().filter_map(|group| recipient(group)).collect::<Vec<_>>()).collect()
}

fn is_report(part: &MessagePart<'_>) -> bool {
    part.content_type().is_some_and(|media| {
        let subtype = media.subtype().unwrap_or_default();
        let is_report =
            ["delivery-status", "global-delivery-status"].iter().any(|one| subtype.eq_ignore_ascii_case(one));
        media.ctype().eq_ignore_ascii_case("message") && is_report
    })
}

/// The groups of fields of a report, which empty lines separate.
fn groups(report: &str) -> Vec<String> {
    report.replace("\r\n", "\n").split("\n\n").map(|group| format!("{}\n\n", group.trim_matches('\n'))).collect()
}

fn recipient(group: &str) -> Option<FailedRecipient> {
    let fields = MessageParser::default().parse_headers(group)?;
    let field = |name: &'static str| fields.header_raw(name).map(str::trim);
    let has_failed = field("Action")?.eq_ignore_ascii_case("failed");
    let failed = FailedRecipient { address: address(field("Final-Recipient")?)?, status: field("Status")?.to_owned() };
    has_failed.then_some(failed)
}

/// Parses a field such as `rfc822; ann@acme.test`.
fn address(field: &str) -> Option<Address> {
    let (kind, address) = field.split_once(';')?;
    let is_mail = ["rfc822", "utf-8"].iter().any(|one| kind.trim().eq_ignore_ascii_case(one));
    let address = address.trim().trim_start_matches('<').trim_end_matches('>');
    Address::parse(address).ok().filter(|_| is_mail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Postfix writes it.
    const REPORT: &str = include_str!("../../tests/it/mail/bounce.eml");

    fn listed(report: &str) -> Vec<(String, String)> {
        let failed = failed_recipients(report.as_bytes()).into_iter();
        failed.map(|one| (one.address.as_str().to_owned(), one.status)).collect()
    }

    #[test]
    fn a_report_names_the_recipient_and_the_status() {
        let failed = |address: &str| [(address.to_owned(), "5.1.1".to_owned())];
        assert_eq!(listed(REPORT), failed("ann@acme.test"));
        assert_eq!(listed(&REPORT.replace('\n', "\r\n")), failed("ann@acme.test"));
        let forwarded =
            REPORT.replace("Final-Recipient: rfc822; ann@acme.test", "Final-Recipient: RFC822;<Team@acme.test>");
        assert_eq!(listed(&forwarded), failed("team@acme.test"), "not the original recipient");
    }

    #[test]
    fn a_mail_that_is_no_report_of_a_failure_names_no_recipient() {
        for (from, to) in [
            ("Action: failed", "Action: delayed"),
            ("Action: failed", "Action: delivered"),
            ("Status: 5.1.1", "State: 5.1.1"),
            ("message/delivery-status", "text/plain"),
        ] {
            assert!(REPORT.contains(from), "{from}");
            assert_eq!(listed(&REPORT.replace(from, to)), [], "{to}");
        }
        assert_eq!(listed(""), []);
        assert_eq!(listed("Subject: out of office\n\nStatus: 5.1.1\n"), []);
    }
}
