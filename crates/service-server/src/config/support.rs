//! The settings of the support listener.

use std::{net::SocketAddr, path::PathBuf};

use super::{sources::Reader, values::base_url};

const LISTEN: &str = "support.listen";
const URL: &str = "support.url";
const CERTIFICATE_FILE: &str = "support.certificate_file";
const KEY_FILE: &str = "support.key_file";
const CLIENT_CA_FILE: &str = "support.client_ca_file";

/// The support listener.
#[derive(Clone, Debug)]
pub struct SupportConfig {
    pub listen: SocketAddr,
    /// The audience of assertions, byte for byte.
    pub url: String,
    pub files: ServerTlsFiles,
}

/// The files of a listener that requires client certificates. Only a node and `check-config` read them: every other command works
/// while an operator replaces them.
#[derive(Clone, Debug)]
pub struct ServerTlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The certificate authorities of clients.
    pub client_ca: PathBuf,
}

/// Reads the settings; `None`: the listener is off.
pub(super) fn support(from: &mut Reader<'_>, public_url: &str) -> Option<SupportConfig> {
    let listen = from.optional_checked(LISTEN, "an address and port such as 10.0.0.5:8443", |text| text.parse().ok());
    let https = |text: &str| base_url(text).filter(|url| url.starts_with("https://"));
    let url = from.optional_checked(URL, "an https address without a path or trailing slash", https);
    from.optional(LISTEN)?;
    let needed = [URL, CERTIFICATE_FILE, KEY_FILE, CLIENT_CA_FILE];
    let missing: Vec<_> = needed.into_iter().filter(|key| from.optional(key).is_none()).collect();
    if !missing.is_empty() {
        from.report(&format!("{LISTEN} is set, so the support listener is on: set {} too", missing.join(", ")));
        return None;
    }
    if url.as_deref() == Some(public_url) {
        from.report(&format!(
            "{URL} is base_url: give the support listener a URL of its own, by which only tools reach it"
        ));
    }
    let path = |key| from.optional(key).map(PathBuf::from).unwrap_or_default();
    let files =
        ServerTlsFiles { certificate: path(CERTIFICATE_FILE), key: path(KEY_FILE), client_ca: path(CLIENT_CA_FILE) };
    Some(SupportConfig { listen: listen?, url: url?, files })
}
