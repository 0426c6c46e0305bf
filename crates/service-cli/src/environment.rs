//! The only module that reads environment variables.

use std::path::PathBuf;

use etcetera::{BaseStrategy as _, choose_base_strategy};

use crate::failure::{Failure, FailureCode};

/// The rows of `service help environment`.
pub(crate) const VARIABLES: &[(&str, &str)] = &[
    ("SERVICE_TOKEN", "CLI token to use instead of your session"),
    ("SERVICE_API_URL", "URL of the service (default: last used)"),
    ("SERVICE_WORKSPACE_ID", "Workspace ID, or `personal`"),
    ("SERVICE_PROFILE", "Profile to use (default: `default`)"),
    ("SERVICE_CONFIG_DIR", "Directory for credentials"),
    ("SERVICE_CREDENTIAL_STORE", "Credential store: `keyring` or `file`"),
    ("SERVICE_BROWSER, BROWSER", "Browser to sign in with"),
    ("SERVICE_NO_INPUT", "Never prompt"),
    ("SERVICE_LOG", "`debug` logs HTTP requests"),
    ("NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "Turn colors off or on"),
    ("CI", "Set in CI: no prompts, no spinner"),
    ("HTTPS_PROXY, NO_PROXY", "HTTP proxy, and hosts that bypass it"),
    ("SSL_CERT_FILE", "Certificates to trust (default: system)"),
];

/// The variables that the command uses, and what they say about where it runs.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are independent of each other")]
pub(crate) struct Environment {
    /// Some if `SERVICE_TOKEN` is set, also if it is empty.
    pub(crate) token: Option<TokenVariable>,
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
    /// A window can open on this machine.
    pub(crate) display: bool,
    /// `TERM` is `dumb`.
    pub(crate) dumb_terminal: bool,
    /// The locale has only ASCII.
    pub(crate) ascii_locale: bool,
    /// `DBUS_SESSION_BUS_ADDRESS` is set.
    pub(crate) dbus_session: bool,
    pub(crate) wsl: bool,
}

/// The value of `SERVICE_TOKEN`, hidden from `Debug`.
pub(crate) struct TokenVariable(String);

impl TokenVariable {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for TokenVariable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenVariable(…)")
    }
}

impl Environment {
    pub(crate) fn read() -> Self {
        let is_set = |name| text(name).is_some();
        let display = cfg!(any(target_os = "macos", windows)) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
        Self {
            token: raw("SERVICE_TOKEN").map(TokenVariable),
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
            dumb_terminal: text("TERM").is_some_and(|term| term == "dumb"),
            ascii_locale: ["LC_ALL", "LC_CTYPE", "LANG"]
                .into_iter()
                .find_map(text)
                .is_some_and(|is| is == "C" || is == "POSIX"),
            dbus_session: is_set("DBUS_SESSION_BUS_ADDRESS"),
            wsl: is_set("WSL_DISTRO_NAME"),
        }
    }

    /// The directory of the command's files.
    pub(crate) fn config_dir(&self) -> Result<PathBuf, Failure> {
        match &self.config_dir {
            Some(directory) => Ok(directory.clone()),
            None => choose_base_strategy()
                .map(|base| base.config_dir().join("service"))
                .map_err(|_| no_home_directory(" Set SERVICE_CONFIG_DIR.")),
        }
    }

    /// The directory of files that can be deleted at any time.
    pub(crate) fn cache_dir() -> Result<PathBuf, Failure> {
        choose_base_strategy().map(|base| base.cache_dir().join("service")).map_err(|_| no_home_directory(""))
    }

    /// The directory of files that do not depend on `SERVICE_CONFIG_DIR`: the lock files of keyring entries.
    pub(crate) fn state_dir() -> Result<PathBuf, Failure> {
        etcetera::home_dir()
            .map(|home| home.join(".local").join("state").join("service"))
            .map_err(|_| no_home_directory(""))
    }
}

fn no_home_directory(hint: &str) -> Failure {
    Failure::new(FailureCode::StoreFailed, format!("Can't find your home directory.{hint}"))
}

/// Reads a variable; an empty one counts as not set.
fn text(name: &str) -> Option<String> {
    raw(name).filter(|value| !value.is_empty())
}

#[expect(clippy::disallowed_methods, reason = "the one module that reads the environment")]
fn raw(name: &str) -> Option<String> {
    match std::env::var(name) {
        Ok(value) => Some(value),
        Err(std::env::VarError::NotPresent) => None,
        // It is set but invalid; the code that parses the value reports it.
        Err(std::env::VarError::NotUnicode(_)) => Some("\u{fffd}".to_owned()),
    }
}
