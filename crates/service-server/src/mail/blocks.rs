//! What mails are made of. A mail is written once, as blocks; text and HTML say the same.

use askama::Template;
use zeroize::Zeroizing;

use crate::locales::{Text, Texts};

/// A part of a mail.
pub(super) enum Block<'a> {
    Paragraph(String),
    /// A code to type.
    Code(Zeroizing<String>),
    /// Names and values.
    Facts(Vec<(&'a Text, String)>),
    List(Vec<String>),
    /// What is behind a link, and its address.
    Link(&'a Text, String),
}

#[derive(Template)]
#[template(path = "mail/mail.txt")]
pub(super) struct TextMail<'a> {
    pub(super) t: &'a Texts,
    pub(super) blocks: &'a [Block<'a>],
    pub(super) footer: &'a [String],
}

#[derive(Template)]
#[template(path = "mail/mail.html")]
pub(super) struct HtmlMail<'a> {
    pub(super) t: &'a Texts,
    pub(super) subject: &'a str,
    pub(super) blocks: &'a [Block<'a>],
    pub(super) footer: &'a [String],
}
