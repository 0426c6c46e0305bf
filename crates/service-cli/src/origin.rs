//! The origin of a service. A credential belongs to the origin that issued it, and is sent nowhere else.

use std::fmt;

use url::{Host, Url};

use crate::failure::{Failure, FailureCode};

/// A normalized `scheme://host[:port]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin(String);

impl Origin {
    /// Parses a URL. Accepts `https`, and `http` only on this machine, because a token must not be sent in plain text.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let invalid = |why: &str| {
            Failure::new(FailureCode::Usage, format!("The URL of the service {why}.")).hint("Set SERVICE_API_URL")
        };
        let url = Url::parse(text).map_err(|_| invalid("is invalid. Use one like https://service.example"))?;
        let is_origin = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if !is_origin || !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("must not have a path, a query or a user"));
        }
        let is_loopback = match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => return Err(invalid("has no host")),
        };
        match url.scheme() {
            "https" => {}
            "http" if is_loopback => {}
            _ => return Err(invalid("must start with https://")),
        }
        Ok(Self(url.origin().ascii_serialization()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The host, and the port if there is one.
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
