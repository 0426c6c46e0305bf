//! The image: `serviced` and nothing else.

use std::{fs, process::Command};

use anyhow::Result;

use super::{Built, Release, VERSION};
use crate::{say_error, tools::succeed_in_silence};

/// The user and group that `serviced` runs as: no system has one of this number by default.
const USER: &str = "65532:65532";

/// Builds the image from nothing, and writes it as an archive that `podman load`, `docker load` and `skopeo copy` read.
pub(super) fn pack(release: &Release, built: &Built) -> Result<()> {
    let architecture = built.platform.architecture();
    say_error(&format!("Building the image for {architecture} …"));
    let folder = tempfile::tempdir()?;
    fs::copy(built.programs.join("serviced"), folder.path().join("serviced"))?;
    fs::write(folder.path().join("Containerfile"), containerfile(release))?;
    let tag = format!("serviced:{VERSION}-{architecture}");
    // Images of others, and what is left of earlier ones, are in another store. This kind of store needs no mounts.
    let store = tempfile::tempdir()?;
    let buildah = || {
        let mut command = Command::new("buildah");
        command.args(["--storage-driver", "vfs", "--root"]).arg(store.path().join("root"));
        command.arg("--runroot").arg(store.path().join("run"));
        command
    };
    let mut build = buildah();
    build
        .args(["build", "--isolation", "chroot", "--platform"])
        .arg(format!("linux/{architecture}"))
        // The format of Docker, because the other one has no health checks.
        .args(["--identity-label=false", "--format", "docker", "--timestamp", &release.time, "--tag", &tag])
        .arg(folder.path());
    succeed_in_silence(&mut build)?;
    let archive = release.out.join(format!("serviced-{VERSION}-image-{architecture}.tar"));
    let mut push = buildah();
    push.args(["push", "--quiet", &tag]).arg(format!("docker-archive:{}:{tag}", archive.display()));
    succeed_in_silence(&mut push)
}

fn containerfile(release: &Release) -> String {
    format!(
        r#"FROM scratch
COPY --chmod=0555 serviced /serviced
USER {USER}
EXPOSE 8080 9090
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s CMD ["/serviced", "healthcheck"]
ENTRYPOINT ["/serviced"]
CMD ["run"]
LABEL org.opencontainers.image.title="serviced" \
      org.opencontainers.image.description="The access and authentication service" \
      org.opencontainers.image.licenses="Apache-2.0 OR MIT" \
      org.opencontainers.image.version="{VERSION}" \
      org.opencontainers.image.revision="{}"
"#,
        release.commit
    )
}
