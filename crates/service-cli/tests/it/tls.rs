//! Tests of TLS: an untrusted certificate is an error of its own, and `SSL_CERT_FILE` adds a trusted authority.

use std::{fs, sync::Arc};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use rustls::{ServerConfig, crypto::aws_lc_rs::default_provider};
use serde_json::Value;
use service_testkit::leaks::Leaks;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use crate::machine::Machine;

const REFUSAL: &str = r#"{"error":"invalid_token","error_description":"No.","request_id":"req_1"}"#;

/// Starts a TLS server that refuses every request. Returns its URL and the certificate of its authority.
async fn start_server() -> Result<(String, String)> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()])?.signed_by(&key, &authority)?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            drop(stream.read(&mut [0; 16_384]).await);
            let head = "HTTP/1.1 401 X\r\nContent-Type: application/json\r\nConnection: close\r\n";
            let response = format!("{head}Content-Length: {}\r\n\r\n{REFUSAL}", REFUSAL.len());
            drop(stream.write_all(response.as_bytes()).await);
            drop(stream.shutdown().await);
        }
    });
    Ok((url, authority.pem()))
}

#[tokio::test]
async fn an_untrusted_certificate_is_named_and_ssl_cert_file_trusts_it() -> Result<()> {
    let (url, authority) = start_server().await?;
    let machine = Machine::new(&url, &Leaks::default())?.with("SERVICE_TOKEN", "a.b.c");
    let ran = machine.run(&["whoami", "--json"]).await?;
    let object: Value = serde_json::from_str(&ran.stdout)?;
    assert_eq!((object["reason"].as_str(), ran.code), (Some("tls"), Some(7)), "{ran:?}");
    let human = machine.run(&["project", "list"]).await?.stderr;
    assert!(human.contains("isn't trusted.\nnext: Behind a corporate proxy: set SSL_CERT_FILE"), "{human}");
    let file = machine.home.path().join("authority.pem");
    fs::write(&file, authority)?;
    let ran = machine.run_with(&["whoami", "--json"], &[("SSL_CERT_FILE", &file.display().to_string())]).await?;
    let object: Value = serde_json::from_str(&ran.stdout)?;
    assert_eq!((object["status"].as_str(), ran.code), (Some("invalid"), Some(4)), "{ran:?}");
    Ok(())
}
