//! TLS of a listener that requires client certificates. Its files can be read again while the node runs.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use data_encoding::HEXLOWER;
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{self, ServerTlsFiles},
    crypto::digest::sha256,
};

/// From accepting a connection to the end of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The certificate that a client proved to have, by its SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerCertificate([u8; 32]);

impl PeerCertificate {
    /// The beginning of the SHA-256, by which operators find the certificate.
    #[must_use]
    pub fn name(&self) -> String {
        HEXLOWER.encode(&self.0[..8])
    }
}

/// The TLS configuration of a listener.
pub struct ServerTls {
    current: RwLock<TlsGeneration>,
    /// Cancelled when the node is about to stop.
    leaving: CancellationToken,
}

/// A configuration, until it is replaced.
#[derive(Clone)]
struct TlsGeneration {
    config: Arc<ServerConfig>,
    /// Cancelled when the files were read again, or the node is about to stop.
    closing: CancellationToken,
}

/// A connection whose client has a valid certificate.
pub struct TlsConnection {
    pub stream: TlsStream<TcpStream>,
    pub certificate: PeerCertificate,
    /// Cancelled when the connection should be closed after the next response.
    pub closing: CancellationToken,
}

impl ServerTls {
    /// Begins with this configuration. `leaving` is cancelled when the node is about to stop.
    #[must_use]
    pub fn new(config: ServerConfig, leaving: &CancellationToken) -> Self {
        let current = TlsGeneration { config: Arc::new(config), closing: leaving.child_token() };
        Self { current: RwLock::new(current), leaving: leaving.clone() }
    }

    /// Uses another configuration for new connections. Open ones are closed after their next response, because their
    /// certificates may no longer be valid.
    pub fn replace(&self, config: ServerConfig) {
        let new = TlsGeneration { config: Arc::new(config), closing: self.leaving.child_token() };
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, new).closing.cancel();
    }

    /// Does the handshake, within a timeout. Fails for clients without a valid certificate.
    pub async fn accept(&self, stream: TcpStream) -> anyhow::Result<TlsConnection> {
        let TlsGeneration { config, closing } = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let handshake = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream));
        let stream = handshake.await.context("the handshake took too long")??;
        let presented = stream.get_ref().1.peer_certificates().and_then(<[CertificateDer<'_>]>::first);
        // The verifier requires one. A connection without one must never be served.
        let certificate = PeerCertificate(sha256(presented.context("the client has no certificate")?));
        Ok(TlsConnection { stream, certificate, closing })
    }
}

/// Reads the files: TLS 1.3, for clients with a certificate of these authorities. There is no resumption, so that every
/// connection presents a certificate that is valid now.
pub fn read(files: &ServerTlsFiles) -> anyhow::Result<ServerConfig> {
    read_all(files).context("the files of the support listener cannot be used")
}

fn read_all(files: &ServerTlsFiles) -> anyhow::Result<ServerConfig> {
    let mut roots = RootCertStore::empty();
    let authorities = config::certificates(&files.client_ca)?;
    authorities.into_iter().try_for_each(|der| roots.add(der)).context("a client authority is not a certificate")?;
    ensure!(!roots.is_empty(), "{} holds no PEM certificates", files.client_ca.display());
    let chain = config::certificates(&files.certificate)?;
    ensure!(!chain.is_empty(), "{} holds no PEM certificates", files.certificate.display());
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .with_context(|| format!("{} holds no PEM private key", files.key.display()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .context("the certificate and the private key do not belong together")?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
