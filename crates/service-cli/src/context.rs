//! What every command knows before it starts: options, environment, terminal and profile.

use std::cell::Cell;

use service_client::{Client, SessionError, StoreError};

use crate::{
    arguments::GlobalOptions,
    credentials::{Credentials, SavedMcpTokens, SavedSignIn, display_path},
    environment::Environment,
    failure::{Failure, FailureCode},
    origin::Origin,
    output::{self, Output},
    settings::{Setting, Settings},
    spinner,
    terminal::Terminal,
};

/// The profile of a user who names none.
pub(crate) const DEFAULT_PROFILE: &str = "default";

pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) output: Output,
    pub(crate) global: GlobalOptions,
    pub(crate) profile: String,
    settings: Settings,
    /// Why the settings cannot be used, if they cannot.
    settings_failure: Cell<Option<Failure>>,
    /// Whether this command has saved a new session, so that it must not say that nothing was saved.
    saved: Cell<bool>,
}

impl Context {
    pub(crate) fn gather(global: GlobalOptions) -> Self {
        let mut environment = Environment::read();
        let (settings, settings_failure) = match Settings::read(&environment) {
            Ok(settings) => {
                let failure = settings.check().err();
                (settings, failure)
            }
            Err(failure) => (Settings::default(), Some(failure)),
        };
        settings.complete(&mut environment);
        let json = global.json || global.jq.is_some();
        let terminal = Terminal::detect(&environment, global.no_input, json || global.quiet);
        let output = Output { json, jq: global.jq.clone(), quiet: global.quiet, terminal };
        let profile = global.profile.clone().or_else(|| environment.profile.clone());
        Self {
            environment,
            output,
            global,
            profile: profile.unwrap_or_else(|| DEFAULT_PROFILE.to_owned()),
            settings,
            settings_failure: Cell::new(settings_failure),
            saved: Cell::new(false),
        }
    }

    /// Fails if the settings file cannot be used. Its values are not ignored, because the command would then use another server,
    /// profile or store than the user set.
    pub(crate) fn check_settings(&self) -> Result<(), Failure> {
        self.settings_failure.take().map_or(Ok(()), Err)
    }

    pub(crate) fn is_saved(&self) -> bool {
        self.saved.get()
    }

    pub(crate) fn mark_saved(&self) {
        self.saved.set(true);
    }

    pub(crate) fn terminal(&self) -> Terminal {
        self.output.terminal
    }

    /// The URL of the service: `SERVICE_API_URL`, the setting, or the one that this profile last signed in to.
    pub(crate) fn origin(&self) -> Result<Origin, Failure> {
        find_origin(&self.environment, &self.settings, &self.profile)
    }

    pub(crate) fn credentials(&self) -> Result<Credentials, Failure> {
        Credentials::open(&self.environment)
    }

    /// The sign-in of this profile at `origin`. Warns if other users could read the file until now.
    pub(crate) fn saved_sign_in(&self, origin: &Origin) -> Result<SavedSignIn, Failure> {
        Ok(self.private_credentials()?.sign_in(&self.profile, origin))
    }

    /// The MCP tokens of this profile at `origin`. Warns if other users could read the file until now.
    pub(crate) fn saved_mcp_tokens(&self, origin: &Origin) -> Result<SavedMcpTokens, Failure> {
        Ok(self.private_credentials()?.mcp_tokens(&self.profile, origin))
    }

    fn private_credentials(&self) -> Result<Credentials, Failure> {
        let credentials = self.credentials()?;
        if let Some(mode) = credentials.repair_mode().map_err(store_failed)? {
            let path = display_path(&credentials.path());
            self.output.warn(&format!("{path} was readable by other users (mode {mode:o}). Changed its mode to 600."));
        }
        Ok(credentials)
    }

    pub(crate) fn client(&self, origin: &Origin) -> Result<Client, Failure> {
        let failed = |_| Failure::new(FailureCode::RequestFailed, "Can't load this system's TLS certificates.");
        let client = Client::new(origin.as_str()).map_err(failed)?;
        let is_verbose = self.global.verbose || self.environment.log;
        Ok(if is_verbose { client.observed(output::log_exchange) } else { client })
    }

    /// Runs a request, and says on the terminal that the command waits for it.
    pub(crate) async fn spin_while<T>(&self, work: impl Future<Output = T>) -> T {
        self.wait_for("Waiting for the server", work).await
    }

    /// Runs `work`, and says on the terminal what the command waits for.
    pub(crate) async fn wait_for<T>(&self, waiting_for: &str, work: impl Future<Output = T>) -> T {
        spinner::spin_while(self.terminal(), waiting_for, work).await
    }
}

/// The URL of the service for a profile.
pub(crate) fn find_origin(environment: &Environment, settings: &Settings, profile: &str) -> Result<Origin, Failure> {
    if let Some(url) = environment.api_url.as_deref().or_else(|| settings.get(Setting::ApiUrl)) {
        return Origin::parse(url);
    }
    let last = Credentials::open(environment)?.last_origin(profile).map_err(store_failed)?;
    // There is no default: credentials go only to a service that the user named.
    let last = last.ok_or_else(|| {
        Failure::new(FailureCode::Usage, "No server is configured.")
            .hint("Set SERVICE_API_URL to the URL of the service, for example https://service.example")
            .hint("Or save it: service config set api-url https://service.example")
    })?;
    Origin::parse(&last)
}

pub(crate) fn store_failed(error: impl Into<StoreError>) -> Failure {
    Failure::new(FailureCode::StoreFailed, error.into().to_string())
}

/// Explains why the saved session could not be locked or read.
pub(crate) fn session_failed(error: SessionError) -> Failure {
    if let SessionError::Store(error) = error {
        return store_failed(error);
    }
    let text = "Another `service` command has been refreshing the session for 30 seconds. Try again.";
    Failure::new(FailureCode::RefreshBusy, text)
}
