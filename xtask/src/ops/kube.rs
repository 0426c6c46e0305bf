//! `cargo xtask ops kube`: podman runs the Deployment of `deploy/helm/serviced` on a real database.
//!
//! podman 4.3 is no Kubernetes, so the Deployment is changed: Secrets become `ConfigMap`s, there are no probes and one replica, and
//! the pod uses the network of the drill without ports of its own. The migration, a Job, is done by the drill.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use service_testkit::postgres::Cluster;
use service_testkit::server::fresh_database;
use tokio::time::sleep;

use super::chart::{CHART, install_helm};
use super::compose_images::{load_service, pack_service};
use super::containers::{Podman, is_root, said_by, skip};
use super::{namespaces, report};
use crate::root;

const POD: &str = "acme-serviced-pod-0";
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL_EVERY: Duration = Duration::from_millis(100);

/// What the chart is rendered with.
const VALUES: &str = r#"config:
  base_url: https://service.example
  mail: {from: "Service <no-reply@service.example>", host: 127.0.0.1, tls: none}
secrets:
  database: {name: serviced-database}
  rootKeys: {name: serviced-root-keys}
migration: {enabled: false}
networkPolicy: {enabled: false}
probes: {enabled: false}
replicaCount: 1
"#;

/// The ports of the container as the chart renders them. podman would publish them.
const PORTS: &str = "          ports:
          - containerPort: 8080
            name: public
            protocol: TCP
          - containerPort: 9090
            name: internal
            protocol: TCP
";

#[derive(clap::Args)]
pub(super) struct KubeOptions {
    /// Run in namespaces of its own already, with what was prepared in this folder
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

pub(super) async fn run(options: &KubeOptions) -> Result<()> {
    if let Some(folder) = &options.inside {
        return run_inside(folder).await;
    }
    if !is_root()? {
        return skip("kube", "only root can make the network of the drill");
    }
    if let Some(reason) = Podman::new()?.refuses(&[])? {
        return skip("kube", &reason);
    }
    install_helm()?;
    let folder = tempfile::Builder::new().prefix("drill-").tempdir()?;
    pack_service(folder.path())?;
    let path = folder.path().to_str().context("a path is not UTF-8")?;
    namespaces::run_inside(folder.path(), &["ops", "kube", "--inside", path])
}

async fn run_inside(folder: &Path) -> Result<()> {
    let cluster = Cluster::start_quiet()?;
    let url = cluster.service_url(&fresh_database(&cluster).await?);
    let podman = Podman::new()?;
    let service = load_service(&podman, folder)?;
    let file = folder.join("pod.yaml");
    fs::write(&file, render(folder, &service.name, &url)?)?;
    let file = file.to_str().context("a path is not UTF-8")?;
    let began = Instant::now();
    podman.run(&["play", "kube", "--network", "host", file])?;
    until_ready(&podman).await?;
    let ready = began.elapsed();
    let inspected =
        podman.run(&["inspect", "--format", "{{.HostConfig.ReadonlyRootfs}}", &format!("{POD}-serviced")])?;
    podman.run(&["play", "kube", "--down", file])?;
    let measured = json!({ "drill": "kube", "image": service.from, "ready_seconds": ready.as_secs_f64() });
    report(&measured, inspected == "true")
}

/// Renders the Deployment, and changes it for podman.
fn render(folder: &Path, image: &str, database_url: &str) -> Result<String> {
    let (repository, tag) = image.rsplit_once(':').context("the image has no tag")?;
    let values = folder.join("values.yaml");
    fs::write(&values, VALUES.to_owned() + &format!("image: {{repository: {repository}, tag: {tag:?}}}\n"))?;
    let mut helm = Command::new(install_helm()?);
    let rendered = said_by(helm.args(["template", "acme", CHART, "-f"]).arg(values).current_dir(root()))?;
    let deployment = rendered.split("---\n").find(|document| document.contains("kind: Deployment"));
    let deployment = deployment.context("the chart has no Deployment")?;
    let words = [(PORTS, ""), ("secret:\n", "configMap:\n"), ("secretName: ", "name: ")];
    let root_keys = format!("1:{}", said_by(Command::new("openssl").args(["rand", "-base64", "32"]))?);
    let secrets =
        [("serviced-database", "database-url", database_url), ("serviced-root-keys", "root-keys", &root_keys)];
    let documents = secrets.map(|(name, key, secret)| {
        let map =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { key: secret } });
        map.to_string() + "\n---\n"
    });
    Ok(documents.concat() + &super::replace(deployment, &words)?)
}

async fn until_ready(podman: &Podman) -> Result<()> {
    let http = reqwest::Client::builder().timeout(Duration::from_secs(2)).build()?;
    let began = Instant::now();
    loop {
        let response = http.get("http://127.0.0.1:9090/readyz").send().await;
        if let Ok(response) = response
            && response.text().await.is_ok_and(|text| text == "ready\n")
        {
            return Ok(());
        }
        let logs = || podman.run(&["pod", "logs", POD]).unwrap_or_default();
        ensure!(began.elapsed() < READY_WITHIN, "the pod is not ready\n{}", logs());
        sleep(POLL_EVERY).await;
    }
}
