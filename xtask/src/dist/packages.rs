//! The packages for Debian and Red Hat: `serviced` with its unit and its user, and `service`.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{Built, Release, VERSION, programs};
use crate::{root, say_error, tools::succeed_in_silence};

/// The formats of packages, and how their files end.
const FORMATS: [&str; 2] = ["deb", "rpm"];

/// The name of the file with `serviced` for Debian.
pub(super) fn file_name(architecture: &str) -> String {
    format!("serviced_{VERSION}_{architecture}.deb")
}

/// Packs what `deploy/packages` describes: a file for each package.
pub(super) fn pack(release: &Release, built: &Built, contents: &Path) -> Result<()> {
    let described = root().canonicalize()?.join("deploy/packages");
    for package in ["serviced", "service-cli"] {
        // nfpm replaces variables in a few places only, and not in the paths of files.
        let description = fs::read_to_string(described.join(format!("{package}.yaml")))
            .with_context(|| format!("deploy/packages/{package}.yaml cannot be read"))?
            .replace("{architecture}", built.platform.architecture())
            .replace("{version}", VERSION)
            .replace("{contents}", &contents.display().to_string())
            .replace("{packages}", &described.display().to_string());
        let file = release.out.join(format!("{package}.yaml"));
        fs::write(&file, description)?;
        for format in FORMATS {
            say_error(&format!("Packing {package}.{format} for {} …", built.platform.name()));
            let mut nfpm = Command::new(programs::python()?.join("nfpm"));
            nfpm.args(["package", "--packager", format, "--config"]).arg(&file).arg("--target").arg(&release.out);
            nfpm.env("SOURCE_DATE_EPOCH", &release.time);
            succeed_in_silence(&mut nfpm)?;
        }
        fs::remove_file(file)?;
    }
    Ok(())
}
