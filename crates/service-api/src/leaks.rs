//! Leaked tokens: reporting them (`POST /v1/token-leaks`), and finding them in a text, offline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::token::{
    AddressLink, AuthorizationCode, BrowserSession, Cli, Client, Device, KeepAccount, McpRefresh, PresentedToken,
    Refresh, SignInReport, Token, TokenKind, written_length,
};

/// The maximum number of tokens in a report.
pub const MOST_REPORTED: usize = 100;

/// `POST /v1/token-leaks`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenLeaks {
    /// The leaked tokens.
    #[schemars(length(min = 1, max = MOST_REPORTED))]
    pub tokens: Vec<Leaked>,
}

/// A leaked token, by itself or in an object with what a scanner says about it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Leaked {
    Alone(PresentedToken),
    Found {
        /// The leaked token.
        token: PresentedToken,
    },
}

impl Leaked {
    #[must_use]
    pub fn token(&self) -> &PresentedToken {
        match self {
            Self::Alone(token) | Self::Found { token } => token,
        }
    }
}

/// The response to every report, whatever its tokens.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReportReceived {
    /// Always `true`, whatever was reported.
    pub received: bool,
}

/// A token that was found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    pub kind: &'static str,
    /// Its offset in bytes.
    pub at: usize,
    /// Its length in bytes.
    pub length: usize,
    /// Its last four characters.
    pub hint: String,
}

/// Finds every token of the service in a text, by prefix, length and checksum. A token that is found may be expired.
#[must_use]
pub fn recognise(text: &str) -> Vec<Recognised> {
    text.match_indices("svc_").filter_map(|(at, _)| recognise_at(text, at)).collect()
}

fn recognise_at(text: &str, at: usize) -> Option<Recognised> {
    let rest = text.get(at..)?;
    let found = begins::<Refresh>(rest)
        .map(|found| ("refresh token", found))
        .or_else(|| Some(("MCP refresh token", begins::<McpRefresh>(rest)?)))
        .or_else(|| Some(("CLI token", begins::<Cli>(rest)?)))
        .or_else(|| Some(("client secret", begins::<Client>(rest)?)))
        .or_else(|| Some(("authorization code", begins::<AuthorizationCode>(rest)?)))
        .or_else(|| Some(("browser session", begins::<BrowserSession>(rest)?)))
        .or_else(|| Some(("device secret", begins::<Device>(rest)?)))
        .or_else(|| Some(("sign-in report", begins::<SignInReport>(rest)?)))
        .or_else(|| Some(("account link", begins::<KeepAccount>(rest)?)))
        .or_else(|| Some(("address link", begins::<AddressLink>(rest)?)));
    found.map(|(kind, (length, hint))| Recognised { kind, at, length, hint })
}

/// The length and the hint of the token that a text begins with.
fn begins<K: TokenKind>(rest: &str) -> Option<(usize, String)> {
    let length = written_length::<K>();
    Token::<K>::parse(rest.get(..length)?).map(|token| (length, token.hint()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::CliToken;

    #[test]
    fn tokens_are_recognised_wherever_they_stand() {
        let cli = CliToken::from_body(&[7; Cli::BODY]);
        let refresh = Token::<Refresh>::from_body(&[8; Refresh::BODY]);
        let mcp = Token::<McpRefresh>::from_body(&[9; Refresh::BODY]);
        let secret = Token::<Client>::from_body(&[10; Client::BODY]);
        let device = Token::<Device>::from_body(&[11; Device::BODY]);
        let text = format!(
            "TOKEN={} \"{}\"é{},{}svc_cli_nothing {}",
            cli.expose(),
            refresh.expose(),
            mcp.expose(),
            secret.expose(),
            device.expose()
        );
        let kinds: Vec<_> = recognise(&text).into_iter().map(|found| (found.kind, found.at)).collect();
        let at = |part: &str| text.find(part).unwrap_or_default();
        assert_eq!(
            kinds,
            [
                ("CLI token", at(cli.expose())),
                ("refresh token", at(refresh.expose())),
                ("MCP refresh token", at(mcp.expose())),
                ("client secret", at(secret.expose())),
                ("device secret", at(device.expose())),
            ]
        );
        assert!(recognise(&text.replace("svc_", "svc-")).is_empty());
        assert!(recognise(&cli.expose()[..cli.expose().len() - 1]).is_empty());
        assert!(recognise("svc_").is_empty() && recognise("svc_é").is_empty());
    }
}
