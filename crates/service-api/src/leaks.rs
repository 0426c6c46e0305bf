//! Leaked tokens: reporting them (`POST /v1/token-leaks`), and recognising them in any text, offline.

use serde::{Deserialize, Serialize};

use crate::token::{
    AuthorizationCode, Cli, Client, McpRefresh, PresentedToken, Refresh, Session, Token, TokenKind, written_length,
};

/// How many tokens one report may name.
pub const MOST_REPORTED: usize = 100;

/// `POST /v1/token-leaks`
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenLeaks {
    pub tokens: Vec<Leaked>,
}

/// One token, by itself or with what a scanner tells about where it was found.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Leaked {
    Alone(PresentedToken),
    Found { token: PresentedToken },
}

impl Leaked {
    #[must_use]
    pub fn token(&self) -> &PresentedToken {
        match self {
            Self::Alone(token) | Self::Found { token } => token,
        }
    }
}

/// What every report answers with, whatever it named.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReportReceived {
    pub received: bool,
}

/// A token that was recognised in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    pub kind: &'static str,
    /// Where it begins, in bytes.
    pub at: usize,
    /// Its last four characters.
    pub hint: String,
}

/// Every token of ours in a text, by prefix, length and checksum. Whether one is alive, the text does not say.
#[must_use]
pub fn recognise(text: &str) -> Vec<Recognised> {
    text.match_indices("svc_").filter_map(|(at, _)| recognise_at(text, at)).collect()
}

fn recognise_at(text: &str, at: usize) -> Option<Recognised> {
    let rest = text.get(at..)?;
    let found = hint::<Refresh>(rest)
        .map(|hint| ("refresh token", hint))
        .or_else(|| Some(("MCP refresh token", hint::<McpRefresh>(rest)?)))
        .or_else(|| Some(("token for automation", hint::<Cli>(rest)?)))
        .or_else(|| Some(("client secret", hint::<Client>(rest)?)))
        .or_else(|| Some(("authorization code", hint::<AuthorizationCode>(rest)?)))
        .or_else(|| Some(("browser session", hint::<Session>(rest)?)));
    found.map(|(kind, hint)| Recognised { kind, at, hint })
}

fn hint<K: TokenKind>(rest: &str) -> Option<String> {
    Token::<K>::parse(rest.get(..written_length::<K>())?).map(|token| token.hint())
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
        let text = format!(
            "TOKEN={} \"{}\"é{},{}svc_cli_nothing",
            cli.expose(),
            refresh.expose(),
            mcp.expose(),
            secret.expose()
        );
        let kinds: Vec<_> = recognise(&text).into_iter().map(|found| (found.kind, found.at)).collect();
        let at = |part: &str| text.find(part).unwrap_or_default();
        assert_eq!(
            kinds,
            [
                ("token for automation", at(cli.expose())),
                ("refresh token", at(refresh.expose())),
                ("MCP refresh token", at(mcp.expose())),
                ("client secret", at(secret.expose())),
            ]
        );
        assert!(recognise(&text.replace("svc_", "svc-")).is_empty());
        assert!(recognise(&cli.expose()[..cli.expose().len() - 1]).is_empty());
        assert!(recognise("svc_").is_empty() && recognise("svc_é").is_empty());
    }
}
