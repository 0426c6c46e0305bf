//! What a `User-Agent` header says about a browser: its name and its system, and nothing else of it.
//!
//! The header is the caller's own text. Only names from the lists below leave this module, so that a stored or shown value
//! can hold neither markup nor a user's details. A browser can claim to be another one: the name helps users recognize
//! their devices, and proves nothing.

/// A browser and the system that it runs on, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserAgent {
    pub browser: Option<&'static str>,
    pub system: Option<&'static str>,
}

/// What a header contains, and the name that it stands for. The first match counts: most browsers also name those that they
/// descend from.
const BROWSERS: &[(&str, &str)] = &[
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("EdgiOS/", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Vivaldi/", "Vivaldi"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
];
const SYSTEMS: &[(&str, &str)] = &[
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
];
/// No browser names itself behind this.
const MAX_LENGTH: usize = 512;

impl UserAgent {
    /// Reads a header. What is not known is left out.
    #[must_use]
    pub fn parse(header: &str) -> Self {
        let header = header.get(..MAX_LENGTH).unwrap_or(header);
        let find = |known: &[(&str, &'static str)]| {
            known.iter().find(|(part, _)| header.contains(part)).map(|(_, name)| *name)
        };
        Self { browser: find(BROWSERS), system: find(SYSTEMS) }
    }

    /// Returns the names as they are stored: separated by a slash, empty where unknown.
    #[must_use]
    pub fn to_stored(self) -> String {
        format!("{}/{}", self.browser.unwrap_or_default(), self.system.unwrap_or_default())
    }

    /// Reads what [`UserAgent::to_stored`] wrote. A name that is not in the lists is left out.
    #[must_use]
    pub fn from_stored(text: &str) -> Self {
        let (browser, system) = text.split_once('/').unwrap_or_default();
        let find = |known: &[(&str, &'static str)], name: &str| {
            known.iter().find(|(_, known)| *known == name).map(|(_, name)| *name)
        };
        Self { browser: find(BROWSERS, browser), system: find(SYSTEMS, system) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_named_by_what_they_are_and_run_on_fh_10() {
        let check = |header: &str, browser: Option<&'static str>, system: Option<&'static str>| {
            let agent = UserAgent::parse(header);
            assert_eq!(agent, UserAgent { browser, system }, "{header}");
            assert_eq!(UserAgent::from_stored(&agent.to_stored()), agent);
        };
        let webkit = "AppleWebKit/537.36 (KHTML, like Gecko)";
        check("Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", Some("Firefox"), Some("Linux"));
        check(
            &format!("Mozilla/5.0 (Windows NT 10.0; Win64; x64) {webkit} Chrome/131.0.0.0 Safari/537.36 Edg/131.0"),
            Some("Edge"),
            Some("Windows"),
        );
        check(
            &format!("Mozilla/5.0 (Linux; Android 10; K) {webkit} Chrome/131.0.0.0 Mobile Safari/537.36"),
            Some("Chrome"),
            Some("Android"),
        );
        check(
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 Version/18.1 Mobile Safari/604.1",
            Some("Safari"),
            Some("iPhone"),
        );
        check(
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.1 Safari/605.1.15",
            Some("Safari"),
            Some("macOS"),
        );
        check("curl/8.5.0", None, None);
        check("", None, None);
        check(&format!("{}Firefox/1", "x".repeat(600)), None, None);
        check("<b>Firefox/133.0</b> \u{202e}Windows", Some("Firefox"), Some("Windows"));
        check(&"é".repeat(400), None, None);
    }

    #[test]
    fn a_stored_name_that_is_not_ours_is_left_out_fh_10() {
        for text in ["", "/", "<b>/Linux2", "Netscape/BeOS", "Firefox"] {
            assert_eq!(UserAgent::from_stored(text), UserAgent::default(), "{text}");
        }
    }
}
