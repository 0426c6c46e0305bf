//! Installs the products below target/peers: two from npm, with the Node.js that runs them, and one from `PyPI`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

use crate::{root, say_error, tools};

/// What the products from npm are started from. The modules stand beside the packages, or they would not find them.
const NODE_FILES: [&str; 6] =
    ["package.json", "package-lock.json", "main.mjs", "database.mjs", "oidc-provider.mjs", "better-auth.mjs"];

/// An installed product.
pub(super) struct PeerProgram {
    /// The name of its database, too.
    pub(super) name: &'static str,
    interpreter: PathBuf,
    arguments: Vec<PathBuf>,
}

impl PeerProgram {
    /// Returns the command that sets the product up (`setup`) or runs it (`serve`), in production mode.
    pub(super) fn command(&self, subcommand: &str, database_url: &str) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.args(&self.arguments).arg(subcommand).env("DATABASE_URL", database_url).env("NODE_ENV", "production");
        command.stdin(Stdio::null());
        command
    }
}

/// Installs all products, unless they are there.
pub(super) fn install() -> Result<[PeerProgram; 3]> {
    let (sources, target) = (root().join("peers"), root().join("target/peers"));
    fs::create_dir_all(&target)?;
    for file in NODE_FILES {
        fs::copy(sources.join(file), target.join(file)).with_context(|| format!("peers/{file} is missing"))?;
    }
    say_error("Installing other products from npm and PyPI …");
    tools::install_node_once(&target)?;
    tools::install_python(&target.join("python"), &sources.join("requirements.txt"))?;
    let django = PeerProgram {
        name: "django-oauth-toolkit",
        interpreter: target.join("python/bin/python"),
        arguments: vec![sources.join("django/server.py")],
    };
    Ok([node(&target, "oidc-provider"), node(&target, "better-auth"), django])
}

fn node(target: &Path, name: &'static str) -> PeerProgram {
    let interpreter = target.join("node_modules/.bin/node");
    PeerProgram { name, interpreter, arguments: vec![target.join("main.mjs"), PathBuf::from(name)] }
}
