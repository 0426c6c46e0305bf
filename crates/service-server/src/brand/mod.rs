//! What the operator calls the service and how it looks: name, logo, color and links, on pages and in mails.

mod color;
mod logo;

use axum::body::Bytes;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use service_api::{
    oauth::{SERVICE_CLI, SERVICE_MCP, SERVICE_WEB},
    sessions::SessionClient,
};
use service_rules::display_name::OwnNames;

pub use self::{
    color::{Accent, Color},
    logo::Logo,
};
use crate::{crypto::digest::sha256, locales::Language};

const STYLE: &str = include_str!("../../assets/style.css");
/// The color of links and buttons in `style.css`, which mails use as well.
const DEFAULT_COLOR: &str = "#0b6355";
/// Where the logo is.
pub const LOGO: &str = "/assets/logo";
/// In an address, what stands for the language of the page.
pub const LANGUAGE_PLACEHOLDER: &str = "{language}";

/// The brand as it is configured.
#[derive(Clone, Debug, Default)]
pub struct Brand {
    pub name: String,
    pub logo: Option<Logo>,
    pub color: Option<Color>,
    pub support_email: Option<String>,
    /// Addresses of pages. Each may have a placeholder for the language.
    pub support_url: Option<String>,
    pub privacy_url: Option<String>,
    pub terms_url: Option<String>,
    /// Names that only the service itself has.
    pub own_names: OwnNames,
}

/// The brand as pages and mails in one language show it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownBrand {
    pub(crate) name: String,
    /// The query of the stylesheet's address. It changes with the stylesheet, so that no browser shows an old one.
    pub(crate) style_version: String,
    /// The address of the logo.
    pub(crate) logo: Option<String>,
    /// Addresses of pages, or of a mailbox.
    pub(crate) support: Option<String>,
    pub(crate) privacy: Option<String>,
    pub(crate) terms: Option<String>,
    /// Where users get help, as mails write it.
    pub(crate) contact: Option<String>,
    /// The colors of buttons in mails, which are light pages.
    pub(crate) accent: String,
    pub(crate) on_accent: String,
}

impl Brand {
    /// The stylesheet of pages, with the operator's color.
    #[must_use]
    pub fn stylesheet(&self) -> Bytes {
        let Some(color) = self.color else { return Bytes::from_static(STYLE.as_bytes()) };
        let (light, dark) = (color.on_light_pages(), color.on_dark_pages());
        let rules = format!(":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n");
        format!("{STYLE}\n{rules}").into()
    }

    /// What users read as the name of a client. The service's own clients have its name.
    #[must_use]
    pub fn client_name(&self, client_id: &str, name: String) -> String {
        match client_id {
            SERVICE_WEB => format!("{} on the web", self.name),
            SERVICE_CLI => format!("{} command line", self.name),
            SERVICE_MCP => format!("{} for MCP", self.name),
            _ => name,
        }
    }

    /// Names the client of a session as users read it.
    pub fn rename(&self, client: &mut SessionClient) {
        client.name = self.client_name(&client.id, std::mem::take(&mut client.name));
    }

    pub(crate) fn shown_in(&self, language: Language) -> ShownBrand {
        let in_language = |url: &Option<String>| Some(url.as_ref()?.replace(LANGUAGE_PLACEHOLDER, language.tag()));
        let support_url = in_language(&self.support_url);
        let mailbox = self.support_email.as_ref().map(|address| format!("mailto:{address}"));
        let accent = self.color.or_else(|| Color::parse(DEFAULT_COLOR)).map(Color::on_light_pages);
        let written = |pick: fn(Accent) -> Color| accent.map(|accent| pick(accent).to_string()).unwrap_or_default();
        ShownBrand {
            name: self.name.clone(),
            style_version: version(&self.stylesheet()),
            logo: self.logo.as_ref().map(|logo| format!("{LOGO}{}", version(&logo.bytes))),
            contact: support_url.clone().or_else(|| self.support_email.clone()),
            support: support_url.or(mailbox),
            privacy: in_language(&self.privacy_url),
            terms: in_language(&self.terms_url),
            accent: written(|accent| accent.accent),
            on_accent: written(|accent| accent.on_accent),
        }
    }
}

impl ShownBrand {
    pub(crate) const fn has_links(&self) -> bool {
        self.support.is_some() || self.privacy.is_some() || self.terms.is_some()
    }
}

/// A query that differs for different contents.
fn version(content: &[u8]) -> String {
    format!("?v={}", BASE64_URL_SAFE_NO_PAD.encode(&sha256(content)[..6]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branded() -> Brand {
        Brand { name: "Acme".into(), color: Color::parse("#ffcc00"), ..Brand::default() }
    }

    #[test]
    fn the_color_overrides_the_stylesheets_and_changes_its_address_fh_13() {
        let (plain, acme) = (Brand::default(), branded());
        let style = acme.stylesheet();
        let style = std::str::from_utf8(&style).unwrap();
        assert_eq!(plain.stylesheet(), STYLE.as_bytes());
        assert!(style.starts_with(STYLE) && style.ends_with("--on-accent: #000000; } }\n"), "{style}");
        assert_ne!(plain.shown_in(Language::English).style_version, acme.shown_in(Language::English).style_version);
    }

    #[test]
    fn a_link_leads_to_the_page_in_the_readers_language_fh_13() {
        let brand = Brand { privacy_url: Some("https://acme.test/{language}/privacy".into()), ..branded() };
        let privacy = |language| brand.shown_in(language).privacy;
        assert_eq!(privacy(Language::German).as_deref(), Some("https://acme.test/de/privacy"));
        assert_eq!(privacy(Language::English).as_deref(), Some("https://acme.test/en/privacy"));
    }

    #[test]
    fn mails_have_the_stylesheets_color_by_default_fh_13() {
        assert!(STYLE.contains(&format!("--accent: {DEFAULT_COLOR};")));
        assert_eq!(Brand::default().shown_in(Language::English).accent, DEFAULT_COLOR);
    }
}
