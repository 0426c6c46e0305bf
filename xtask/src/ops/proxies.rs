//! The proxies of `deploy/proxy`, started with the files as they are shipped: only addresses, ports and paths are replaced.

use std::fmt::{self, Display, Write as _};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use reqwest::{Certificate, Client};
use service_testkit::ports;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::nodes::Installation;
use crate::root;

const HOST: &str = "service.example";
const START_TIMEOUT: Duration = Duration::from_secs(20);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Product {
    Haproxy,
    Nginx,
    Caddy,
}

impl Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Caddy => "caddy",
        })
    }
}

/// A running proxy, which is killed when dropped.
pub(super) struct Proxy {
    pub(super) url: String,
    /// A client that trusts the proxy's certificate.
    pub(super) client: Client,
    _process: Child,
}

impl Proxy {
    /// Starts a proxy in front of the nodes, and waits until it accepts connections.
    pub(super) async fn start(product: Product, installation: &Installation) -> Result<Self> {
        let directory = installation.directory.path().join(product.to_string());
        fs::create_dir_all(&directory)?;
        let certificate = write_certificate(&directory)?;
        let port = ports::free()?;
        let file = write_configuration(product, &directory, installation, port)?;
        let log = fs::File::create(directory.join("log"))?;
        let mut command = command(product, &directory, &file);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let mut process = command.spawn().with_context(|| format!("{product} is not installed"))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let began = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            let exited = process.try_wait()?.is_some();
            let log = || fs::read_to_string(directory.join("log")).unwrap_or_default();
            ensure!(!exited && began.elapsed() < START_TIMEOUT, "{product} does not start:\n{}", log());
            sleep(Duration::from_millis(20)).await;
        }
        let client = Client::builder()
            .tls_certs_only([Certificate::from_pem(certificate.as_bytes())?])
            .resolve(HOST, address)
            .timeout(REQUEST_TIMEOUT)
            .build()?;
        Ok(Self { url: format!("https://{HOST}:{port}"), client, _process: process })
    }
}

/// Writes the key of a self-signed certificate, and both in one file; returns the certificate.
fn write_certificate(directory: &Path) -> Result<String> {
    let made = rcgen::generate_simple_self_signed([HOST.to_owned()])?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    fs::write(directory.join("service.key"), &key)?;
    fs::write(directory.join("service.pem"), format!("{certificate}{key}"))?;
    Ok(certificate)
}

/// Writes the shipped configuration for these nodes and this port.
fn write_configuration(product: Product, directory: &Path, installation: &Installation, port: u16) -> Result<PathBuf> {
    let name = match product {
        Product::Haproxy => "haproxy.cfg",
        Product::Nginx => "nginx.conf",
        Product::Caddy => "Caddyfile",
    };
    let shipped = fs::read_to_string(root().join("deploy/proxy").join(name))?;
    let text = shipped.replace("10.0.0.", "127.0.0.");
    let paths = directory.to_str().context("the path is not UTF-8")?;
    let (node, ops, tls, plain) = (
        installation.port.to_string(),
        installation.ops_port.to_string(),
        port.to_string(),
        ports::free()?.to_string(),
    );
    let replaced: &[(&str, &str)] = match product {
        Product::Haproxy => &[
            (":8080", &format!(":{node}")),
            ("port 9090", &format!("port {ops}")),
            ("bind :443", &format!("bind 127.0.0.1:{tls}")),
            ("bind :80", &format!("bind 127.0.0.1:{plain}")),
            ("/etc/haproxy", paths),
            // It is to pass without.
            ("retries 3", "retries 0"),
        ],
        Product::Nginx => &[
            (":8080", &format!(":{node}")),
            ("listen 443", &format!("listen 127.0.0.1:{tls}")),
            ("listen 80", &format!("listen 127.0.0.1:{plain}")),
            ("/etc/nginx", paths),
        ],
        Product::Caddy => &[
            (":8080", &format!(":{node}")),
            ("health_port 9090", &format!("health_port {ops}")),
            (":443", &format!(":{tls}")),
            ("/etc/caddy", paths),
        ],
    };
    fs::write(directory.join(name), super::replace(&text, replaced)?)?;
    if product == Product::Nginx {
        return write_nginx_frame(directory, name);
    }
    Ok(directory.join(name))
}

/// Writes the file that includes the site, as /etc/nginx/nginx.conf does, with everything that nginx writes in `directory`.
fn write_nginx_frame(directory: &Path, site: &str) -> Result<PathBuf> {
    let here = directory.display();
    // One process: a worker would outlive a master that is killed.
    let mut frame = format!(
        "daemon off;\nmaster_process off;\npid {here}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n    access_log off;\n"
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        writeln!(frame, "    {kind}_temp_path {here}/{kind};")?;
    }
    writeln!(frame, "    include {here}/{site};\n}}")?;
    let path = directory.join("frame.conf");
    fs::write(&path, frame)?;
    Ok(path)
}

fn command(product: Product, directory: &Path, file: &Path) -> Command {
    let mut command = match product {
        Product::Haproxy => Command::new("haproxy"),
        Product::Nginx => Command::new("nginx"),
        Product::Caddy => Command::new("caddy"),
    };
    match product {
        Product::Haproxy => command.args(["-db", "-f"]).arg(file),
        Product::Nginx => command.arg("-p").arg(directory).args(["-e", "stderr", "-c"]).arg(file),
        Product::Caddy => command
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(file)
            .env("XDG_DATA_HOME", directory)
            .env("XDG_CONFIG_HOME", directory)
            .env("CADDY_ADMIN", "off"),
    };
    command
}
