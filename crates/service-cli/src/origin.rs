//! The address of a service. A credential belongs to the address that issued it, and is sent nowhere else.

use std::fmt;

use url::{Host, Url};

use crate::failure::{Code, Failure};

/// Where a developer's own service listens, when nothing else was ever said.
pub(crate) const DEFAULT: &str = "http://127.0.0.1:8080";

/// `scheme://host[:port]`, in one spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin(String);

impl Origin {
    /// `https`, or `http` on this machine: elsewhere a token would pass in plain text.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            Failure::new(Code::Usage, format!("The address of the service {why}.")).next("set SERVICE_API_URL")
        };
        let url = Url::parse(text).map_err(|_| wrong("is not an address such as https://service.example"))?;
        let plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if !plain || !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("has more than a host and a port"));
        }
        let here = match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => return Err(wrong("has no host")),
        };
        match url.scheme() {
            "https" => {}
            "http" if here => {}
            _ => return Err(wrong("must begin with https://")),
        }
        Ok(Self(url.origin().ascii_serialization()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The host as people read it.
    pub(crate) fn host(&self) -> &str {
        self.0.split_once("://").map_or(&self.0, |(_, host)| host)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_one_spelling() {
        for (text, origin) in [
            ("https://Service.Example", "https://service.example"),
            ("https://service.example:443/", "https://service.example"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:9", "http://[::1]:9"),
            ("http://localhost", "http://localhost"),
        ] {
            assert_eq!(Origin::parse(text).unwrap().as_str(), origin);
        }
    }

    #[test]
    fn no_token_goes_out_in_plain_text_or_to_a_disguised_host() {
        for wrong in [
            "http://service.example",
            "http://127.0.0.1.service.example",
            "http://localhost.service.example",
            "https://service.example@other.example",
            "https://service.example/v1",
            "https://service.example?a",
            "ftp://service.example",
            "service.example",
            "",
        ] {
            assert!(Origin::parse(wrong).is_err(), "{wrong}");
        }
    }
}
