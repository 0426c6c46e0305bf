//! A server of documents over TLS, such as the metadata documents of clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

/// A certificate with its key.
pub type Certificate = rcgen::CertifiedKey<rcgen::KeyPair>;

/// Makes a certificate for this machine that signs itself.
pub fn certificate() -> Result<Certificate> {
    Ok(rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()])?)
}

/// Accepts TLS connections with this certificate.
pub fn acceptor(cert: &Certificate) -> Result<tokio_rustls::TlsAcceptor> {
    let chain = vec![cert.cert.der().clone()];
    let key = rustls::pki_types::PrivateKeyDer::try_from(cert.signing_key.serialize_der())
        .map_err(|_| anyhow::anyhow!("no key"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(tokio_rustls::TlsAcceptor::from(Arc::new(config)))
}

/// A server of documents with a certificate of its own; it answers every request with the same bytes.
pub struct DocumentHost {
    asked: Arc<AtomicUsize>,
}

impl DocumentHost {
    /// `response` is the whole response; `slow` sends it a byte a second.
    pub fn start(listener: TcpListener, cert: &Certificate, response: Vec<u8>, slow: bool) -> Result<Self> {
        let acceptor = acceptor(cert)?;
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let (acceptor, response) = (acceptor.clone(), response.clone());
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut head = [0; 4_096];
                    drop(stream.read(&mut head).await);
                    if slow {
                        for byte in &response {
                            if stream.write_all(&[*byte]).await.is_err() || stream.flush().await.is_err() {
                                return;
                            }
                            tokio::time::sleep(Duration::from_secs(1)).await;
                        }
                    }
                    drop(stream.write_all(&response).await);
                    drop(stream.shutdown().await);
                });
            }
        });
        Ok(Self { asked })
    }

    /// Returns how many connections it accepted.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Composes a whole response.
#[must_use]
pub fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
        .into_bytes()
}
