//! The images for `deploy/compose`, where none can be pulled: one of Debian's packages and `MailDev` in place of three, and one of
//! `serviced`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::containers::{Podman, said_by};
use crate::tools::{install_node_once, succeed_in_silence};
use crate::{dist, root, say_error};

/// PostgreSQL, Caddy and `MailDev`. Its interface is what `compose.yaml` uses of the three images: programs in `PATH`, the user
/// `postgres` with a home directory, Caddy with a capability, and `MailDev` as the program that runs by itself.
pub(super) const OTHERS: &str = "localhost/others:drill";

const PACKED: &str = "serviced.tar";

const SUITE: &str = "bookworm";
const PACKAGES: &str = "caddy,libcap2-bin,nodejs,openssl,postgresql";
const CHANGES: [&str; 2] = [
    "ENV PATH=/usr/sbin:/usr/bin:/usr/lib/postgresql/15/bin",
    r#"ENTRYPOINT ["node", "/opt/mail/node_modules/maildev/bin/maildev"]"#,
];

/// Makes the image of what others wrote, unless it is there; returns the folder of images.
pub(super) fn prepare_others() -> Result<PathBuf> {
    let tools = root().canonicalize()?.join("target/tools/compose");
    let (node, images, marker) = (tools.join("node"), tools.join("images"), tools.join("made"));
    fs::create_dir_all(&node)?;
    for file in ["package.json", "package-lock.json"] {
        fs::copy(root().join("xtask/tools/compose").join(file), node.join(file))?;
    }
    install_node_once(&node)?;
    let wanted = format!("{SUITE} {PACKAGES} {CHANGES:?}\n{}", fs::read_to_string(node.join("package-lock.json"))?);
    if fs::read_to_string(&marker).ok().as_ref() == Some(&wanted) {
        return Ok(images);
    }
    say_error("An image of PostgreSQL, Caddy and MailDev …");
    if images.exists() {
        fs::remove_dir_all(&images)?;
    }
    let archive = tempfile::Builder::new().suffix(".tar").tempfile()?;
    let modules = node.join("node_modules");
    let mut mmdebstrap = Command::new("mmdebstrap");
    mmdebstrap.args(["--quiet", "--variant=minbase", &format!("--include={PACKAGES}")]);
    for left_out in ["doc", "locale", "man"] {
        mmdebstrap.arg(format!("--dpkgopt=path-exclude=/usr/share/{left_out}/*"));
    }
    for hook in [
        "mkdir \"$1/opt/mail\"",
        &format!("copy-in {} /opt/mail", modules.display()),
        // As in the image of Caddy. The program does not start where it cannot have this capability.
        "chroot \"$1\" setcap cap_net_bind_service=+ep /usr/bin/caddy",
        "rm -rf \"$1/etc/postgresql\" \"$1/var/lib/postgresql\"/*",
    ] {
        mmdebstrap.arg(format!("--customize-hook={hook}"));
    }
    succeed_in_silence(mmdebstrap.args(["--format=tar", SUITE]).arg(archive.path()))?;
    import(&Podman::that_fills(&images)?, archive.path(), &CHANGES, OTHERS)?;
    fs::write(marker, wanted)?;
    Ok(images)
}

/// An image of `serviced`.
pub(super) struct ServiceImage {
    pub(super) name: String,
    /// Where it comes from.
    pub(super) from: &'static str,
}

/// Packs the debug build, unless there is a release. Both are for `load_service`.
pub(super) fn pack_service(folder: &Path) -> Result<()> {
    if dist::released_image().is_none() {
        fs::rename(dist::rehearse_image(folder)?, folder.join(PACKED))?;
    }
    Ok(())
}

/// Loads what `pack_service` has packed in `folder`, or else the image of the release that was built here.
pub(super) fn load_service(podman: &Podman, folder: &Path) -> Result<ServiceImage> {
    let packed = folder.join(PACKED);
    let (archive, from) = if packed.exists() {
        (packed, "the debug build")
    } else {
        (dist::released_image().context("no image was packed")?, "the release in target/dist")
    };
    let said = podman.run(&["load", "--quiet", "--input", archive.to_str().context("a path is not UTF-8")?])?;
    let name = said.rsplit(' ').next().with_context(|| format!("podman load says {said}"))?;
    Ok(ServiceImage { name: name.to_owned(), from })
}

/// Makes an image of the files in an archive.
fn import(podman: &Podman, archive: &Path, changes: &[&str], name: &str) -> Result<()> {
    let mut import = podman.command();
    import.args(["import", "--quiet"]);
    for change in changes {
        import.args(["--change", change]);
    }
    said_by(import.arg(archive).arg(name))?;
    Ok(())
}
