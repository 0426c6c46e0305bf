//! TLS for outgoing connections.

use std::{path::Path, sync::Arc};

use rustls::{ClientConfig, RootCertStore};

use crate::config;

/// Returns a client configuration that trusts the certificates in a file, or else the web's certificate authorities.
pub fn client(ca_file: Option<&Path>) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => config::certificates(path)?.into_iter().try_for_each(|der| roots.add(der))?,
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
