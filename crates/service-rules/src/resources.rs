//! Resource indicators: which resource a token request names (RFC 8707).

/// A resource that tokens are issued for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Api,
    Mcp,
}

impl Resource {
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Api => "/v1",
            Self::Mcp => "/mcp",
        }
    }

    /// The audience of its tokens.
    #[must_use]
    pub fn audience(self, base_url: &str) -> String {
        format!("{base_url}{}", self.path())
    }

    /// The resource that a URI names. The URL of the whole service stands for `usual`, and a trailing slash is ignored. Any
    /// other difference is an unknown resource.
    #[must_use]
    pub fn parse(uri: &str, base_url: &str, usual: Self) -> Option<Self> {
        match uri.strip_prefix(base_url)? {
            "" | "/" => Some(usual),
            "/v1" | "/v1/" => Some(Self::Api),
            "/mcp" | "/mcp/" => Some(Self::Mcp),
            _ => None,
        }
    }

    /// Whether a URI names the resource of this audience.
    #[must_use]
    pub fn is_of(uri: &str, base_url: &str, audience: &str) -> bool {
        let own = if audience == Self::Mcp.audience(base_url) { Self::Mcp } else { Self::Api };
        Self::parse(uri, base_url, own) == Some(own)
    }

    /// The one resource that all these URIs name; without any URI, `usual`. `None`: a URI is unknown, or they differ.
    #[must_use]
    pub fn of_all<'a>(uris: impl IntoIterator<Item = &'a str>, base_url: &str, usual: Self) -> Option<Self> {
        let mut resources = uris.into_iter().map(|uri| Self::parse(uri, base_url, usual));
        let first = resources.next().unwrap_or(Some(usual))?;
        resources.all(|other| other == Some(first)).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_has_few_spellings_az_12() {
        let check = |uris: &[&str], expected| {
            let precondition = Resource::of_all(uris.iter().copied(), "https://service.test", Resource::Mcp);
            assert_eq!(precondition, expected, "{uris:?}");
        };
        check(&[], Some(Resource::Mcp));
        for usual in
            ["https://service.test", "https://service.test/", "https://service.test/mcp", "https://service.test/mcp/"]
        {
            check(&[usual], Some(Resource::Mcp));
        }
        check(&["https://service.test/v1"], Some(Resource::Api));
        check(&["https://service.test/v1", "https://service.test/v1/"], Some(Resource::Api));
        check(&["https://service.test/v1", "https://service.test/mcp"], None);
        for other in [
            "https://other.test",
            "/rel",
            "",
            "https://service.test/#f",
            "https://service.test/v1//",
            "https://service.test.evil.test",
            "https://service.test/V1",
            "http://service.test/v1",
            "https://service.test/v1?x=1",
            "https://service.test:443/v1",
        ] {
            check(&[other], None);
        }
    }
}
