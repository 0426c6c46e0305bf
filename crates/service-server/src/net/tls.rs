//! TLS for outgoing connections.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{PrivateKeyDer, pem::PemObject as _},
};

use crate::config::{self, ClientCertificate};

/// Returns a client configuration that trusts the certificates in a file, or else the web's certificate authorities. It
/// proves its own identity with a client certificate, if there is one.
pub fn client(ca_file: Option<&Path>, own: Option<&ClientCertificate>) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            config::certificates(path)?.into_iter().try_for_each(|der| roots.add(der))?;
            anyhow::ensure!(!roots.is_empty(), "{} holds no PEM certificates", path.display());
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let Some(own) = own else { return Ok(builder.with_no_client_auth()) };
    let key = PrivateKeyDer::from_pem_file(&own.key)
        .with_context(|| format!("{} holds no PEM private key", own.key.display()))?;
    Ok(builder.with_client_auth_cert(config::certificates(&own.certificate)?, key)?)
}
