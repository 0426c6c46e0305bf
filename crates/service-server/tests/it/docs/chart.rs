//! The chart for Kubernetes knows every setting, and has the version of the service.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use serde_json::Value;
use service_server::config::{SETTINGS, environment_name};

const SCHEMA: &str = include_str!("../../../../../deploy/helm/serviced/values.schema.json");
const EVERYTHING: &str = include_str!("../../../../../deploy/helm/serviced/ci/everything-values.yaml");
const TEMPLATES: &str = include_str!("../../../../../deploy/helm/serviced/templates/_helpers.tpl");
const CHART: &str = include_str!("../../../../../deploy/helm/serviced/Chart.yaml");

/// Settings that the chart does not pass on: it sets the addresses of two listeners itself, an anchor is of one restore, and
/// the support listener is for tools in the network of the operator.
const NOT_IN_THE_CHART: [&str; 8] = [
    "http.listen",
    "http.ops_listen",
    "restore.anchor_file",
    "support.listen",
    "support.url",
    "support.certificate_file",
    "support.key_file",
    "support.client_ca_file",
];

/// The settings in the schema of the values.
fn known_settings() -> Result<BTreeSet<String>> {
    let schema: Value = serde_json::from_str(SCHEMA)?;
    let sections = schema["properties"]["config"]["properties"].as_object().context("there is no config")?;
    let names = sections.iter().flat_map(|(section, content)| match content["properties"].as_object() {
        Some(settings) => settings.keys().map(|name| format!("{section}.{name}")).collect(),
        None => vec![section.clone()],
    });
    Ok(names.collect())
}

#[test]
fn every_setting_can_be_given_as_a_value() -> Result<()> {
    let public = SETTINGS.iter().filter(|setting| !setting.secret && !NOT_IN_THE_CHART.contains(&setting.key));
    let public: BTreeSet<String> = public.map(|setting| setting.key.to_owned()).collect();
    assert_eq!(known_settings()?, public, "deploy/helm/serviced/values.schema.json and the settings differ");
    for name in public.iter().filter_map(|key| key.rsplit('.').next()) {
        assert!(EVERYTHING.contains(&format!("{name}:")), "ci/everything-values.yaml does not try {name}");
    }
    for secret in SETTINGS.iter().filter(|setting| setting.secret) {
        let variable = format!("\"{}_FILE\"", environment_name(secret.key));
        assert!(TEMPLATES.contains(&variable), "templates/_helpers.tpl mounts no Secret for {}", secret.key);
    }
    Ok(())
}

#[test]
fn the_chart_has_the_version_of_the_service() {
    let version = env!("CARGO_PKG_VERSION");
    for line in [format!("version: {version}"), format!("appVersion: {version}")] {
        assert!(CHART.lines().any(|found| found.replace('"', "") == line), "Chart.yaml has no line {line}");
    }
}
