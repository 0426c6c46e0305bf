//! Connections to the support listener: TLS 1.3 with a certificate, or nothing.

use std::{fs, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use reqwest::{Certificate, Client, Identity, tls::Version};
use rustls::{
    ClientConfig, HandshakeKind, RootCertStore,
    pki_types::{PrivateKeyDer, ServerName, pem::PemObject as _},
};
use serde_json::json;
use service_server::config;
use service_testkit::server::{Setup, TestServer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::support::{
    authority::Authority,
    support_tool::{SupportTool, http, send, url, with_listener},
};

const FIND: &str = "/v1/user/find";

#[test]
fn a_connection_without_tls_1_3_gets_nothing() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default(), &authority)?.run(async |server| {
        let tool = SupportTool::register(server, &authority).await?;
        let body = tool.body(server, &json!({ "whom": "ann@acme.test" }))?;
        let identity = [fs::read(authority.path("tool.pem"))?, fs::read(authority.path("tool.key"))?].concat();
        let older = Client::builder()
            .tls_certs_only([Certificate::from_pem(&fs::read(authority.path("ca.pem"))?)?])
            .identity(Identity::from_pem(&identity)?)
            .tls_version_max(Version::TLS_1_2)
            .build()?;
        ensure!(send(&older, &url(server)?, FIND, &body).await.is_err(), "TLS 1.2 is accepted");

        let mut clear = TcpStream::connect(server.support_address.context("off")?).await?;
        clear.write_all(b"POST /v1/user/find HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}").await?;
        let mut answer = Vec::new();
        drop(clear.read_to_end(&mut answer).await);
        ensure!(!answer.windows(4).any(|bytes| bytes == b"HTTP"), "HTTP without TLS is answered");

        // A client that says nothing is not waited for.
        let mut silent = TcpStream::connect(server.support_address.context("off")?).await?;
        assert_eq!(silent.read(&mut [0; 1]).await?, 0);
        let failed = server.ops.get("/metrics", None).await?.text;
        ensure!(failed.contains("service_support_handshakes_failed_total 3\n"), "{failed}");
        assert_eq!(tool.send(server, FIND, &body).await?.status, 404);
        Ok(())
    })
}

async fn connect(server: &TestServer, tls: &Arc<ClientConfig>) -> Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(server.support_address.context("off")?).await?;
    let mut stream = TlsConnector::from(tls.clone()).connect(ServerName::try_from("127.0.0.1")?, stream).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    ensure!(answer.starts_with(b"HTTP/1.1 404"), "{}", String::from_utf8_lossy(&answer));
    Ok(stream)
}

#[test]
fn every_connection_presents_its_certificate_again() -> Result<()> {
    let authority = Authority::new()?;
    with_listener(Setup::default(), &authority)?.run(async |server| {
        let mut roots = RootCertStore::empty();
        roots.add(authority.issuer.der().clone())?;
        let own = config::certificates(authority.path("tool.pem").as_ref())?;
        let key = PrivateKeyDer::from_pem_file(authority.path("tool.key"))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(own, key)?;
        let tls = Arc::new(tls);
        for _ in 0..2 {
            let stream = connect(server, &tls).await?;
            assert_eq!(stream.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
        }
        Ok(())
    })
}

#[test]
fn another_authority_counts_when_the_files_are_read_again() -> Result<()> {
    let (authority, next) = (Authority::new()?, Authority::new()?);
    with_listener(Setup::default(), &authority)?.run(async |server| {
        server.sign_in("ann@acme.test", "read").await?;
        let tool = SupportTool::register(server, &authority).await?;
        let whom = json!({ "whom": "ann@acme.test" });
        let closes = async || -> Result<bool> {
            let response = tool.call(server, FIND, &whom).await?;
            ensure!(response.status == 200, "{}", response.body);
            Ok(response.headers.get("connection").is_some_and(|value| value == "close"))
        };
        assert!(!closes().await?);
        // Files that cannot be used change nothing.
        fs::write(authority.path("ca.pem.new"), "nothing")?;
        let before = fs::read(authority.path("ca.pem"))?;
        fs::rename(authority.path("ca.pem.new"), authority.path("ca.pem"))?;
        ensure!(server.app.reload(&server.app.config).is_err(), "a file without certificates is taken over");
        assert!(!closes().await?);

        next.issue("tool", None, "tool")?;
        fs::write(authority.path("ca.pem"), next.issuer.pem())?;
        server.app.reload(&server.app.config)?;
        // The open connection is closed after a response, and the certificate opens no other one.
        assert!(closes().await?);
        let body = tool.body(server, &whom)?;
        ensure!(tool.send(server, FIND, &body).await.is_err(), "a certificate of the former authority is accepted");
        fs::write(authority.path("ca.pem"), before)?;
        let renewed = http(&authority, Some((&next, "tool")))?;
        assert_eq!(send(&renewed, &url(server)?, FIND, &body).await?.status, 200);
        Ok(())
    })
}
