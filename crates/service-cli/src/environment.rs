//! The only place that reads the environment: which settings there are, and what the command finds itself in.

use std::path::PathBuf;

use etcetera::{BaseStrategy as _, choose_base_strategy};

use crate::failure::{Code, Failure};

/// Variables as `service help environment` and the manual list them.
pub(crate) const VARIABLES: &[(&str, &str)] = &[
    ("SERVICE_TOKEN", "a token to use instead of the saved sign-in; it brings its own workspace"),
    ("SERVICE_API_URL", "the address of the service; else the one last signed in to"),
    ("SERVICE_WORKSPACE_ID", "the workspace to use, or `personal`"),
    ("SERVICE_PROFILE", "whose sign-in to use, if there are several"),
    ("SERVICE_CONFIG_DIR", "where the sign-in is kept"),
    ("SERVICE_CREDENTIAL_STORE", "`keyring` or `file`"),
    ("SERVICE_BROWSER, BROWSER", "the browser to sign in with"),
    ("SERVICE_NO_INPUT", "never ask anything"),
    ("SERVICE_LOG", "`debug` tells of every request"),
    ("NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "colours off, or on"),
    ("CI", "set by build servers: no questions, no spinner"),
    ("HTTPS_PROXY, NO_PROXY", "the proxy to go through, and for what not"),
    ("SSL_CERT_FILE", "certificates to trust instead of the system's"),
];

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are independent of each other")]
pub(crate) struct Environment {
    /// Set at all, also to nothing.
    pub(crate) token: Option<PresentToken>,
    pub(crate) api_url: Option<String>,
    pub(crate) workspace_id: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) config_dir: Option<PathBuf>,
    pub(crate) credential_store: Option<String>,
    pub(crate) browser: Option<String>,
    pub(crate) no_input: bool,
    pub(crate) log: bool,
    pub(crate) ci: bool,
    pub(crate) ssh: bool,
    /// Whether a window could open here.
    pub(crate) display: bool,
    pub(crate) dumb: bool,
    /// The locale says that there is nothing but ASCII.
    pub(crate) ascii: bool,
    /// A D-Bus session is named.
    pub(crate) bus: bool,
    pub(crate) wsl: bool,
}

/// What `SERVICE_TOKEN` holds, unseen.
pub(crate) struct PresentToken(String);

impl PresentToken {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for PresentToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PresentToken(…)")
    }
}

impl Environment {
    pub(crate) fn read() -> Self {
        let is_set = |name| text(name).is_some();
        let display = cfg!(any(target_os = "macos", windows)) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
        Self {
            token: raw("SERVICE_TOKEN").map(PresentToken),
            api_url: text("SERVICE_API_URL"),
            workspace_id: text("SERVICE_WORKSPACE_ID"),
            profile: text("SERVICE_PROFILE"),
            config_dir: text("SERVICE_CONFIG_DIR").map(PathBuf::from),
            credential_store: text("SERVICE_CREDENTIAL_STORE"),
            browser: text("SERVICE_BROWSER").or_else(|| text("BROWSER")),
            no_input: is_set("SERVICE_NO_INPUT"),
            log: text("SERVICE_LOG").is_some_and(|level| level == "debug" || level == "trace"),
            ci: text("CI").is_some_and(|value| value != "false"),
            ssh: is_set("SSH_CONNECTION") || is_set("SSH_TTY"),
            display,
            dumb: text("TERM").is_some_and(|term| term == "dumb"),
            ascii: ["LC_ALL", "LC_CTYPE", "LANG"]
                .into_iter()
                .find_map(text)
                .is_some_and(|is| is == "C" || is == "POSIX"),
            bus: is_set("DBUS_SESSION_BUS_ADDRESS"),
            wsl: is_set("WSL_DISTRO_NAME"),
        }
    }

    /// The folder of the command's own files.
    pub(crate) fn folder(&self) -> Result<PathBuf, Failure> {
        match &self.config_dir {
            Some(folder) => Ok(folder.clone()),
            None => choose_base_strategy()
                .map(|base| base.config_dir().join("service"))
                .map_err(|_| Failure::new(Code::StoreFailed, "There is no home directory. Set SERVICE_CONFIG_DIR.")),
        }
    }

    /// The folder of what belongs to the user and not to a configuration: locks of the keyring.
    pub(crate) fn user_folder() -> Result<PathBuf, Failure> {
        etcetera::home_dir()
            .map(|home| home.join(".local").join("state").join("service"))
            .map_err(|_| Failure::new(Code::StoreFailed, "There is no home directory."))
    }
}

/// A variable that is not empty.
fn text(name: &str) -> Option<String> {
    raw(name).filter(|value| !value.is_empty())
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn raw(name: &str) -> Option<String> {
    match std::env::var(name) {
        Ok(value) => Some(value),
        Err(std::env::VarError::NotPresent) => None,
        // It is set, and cannot be right; whoever checks it will say so.
        Err(std::env::VarError::NotUnicode(_)) => Some("\u{fffd}".to_owned()),
    }
}
