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
    spinner,
    terminal::Terminal,
};

pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) output: Output,
    pub(crate) global: GlobalOptions,
    pub(crate) profile: String,
    /// Whether this command has saved a new session, so that it must not say that nothing was saved.
    saved: Cell<bool>,
}

impl Context {
    pub(crate) fn gather(global: GlobalOptions) -> Self {
        let environment = Environment::read();
        let json = global.json || global.jq.is_some();
        let terminal = Terminal::detect(&environment, global.no_input, json || global.quiet);
        let output = Output { json, jq: global.jq.clone(), quiet: global.quiet, terminal };
        let profile = global.profile.clone().or_else(|| environment.profile.clone());
        Self {
            environment,
            output,
            global,
            profile: profile.unwrap_or_else(|| "default".to_owned()),
            saved: Cell::new(false),
        }
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

    /// The URL of the service: `SERVICE_API_URL`, or the one that this profile last signed in to.
    pub(crate) fn origin(&self) -> Result<Origin, Failure> {
        if let Some(url) = &self.environment.api_url {
            return Origin::parse(url);
        }
        let last = self.credentials()?.last_origin(&self.profile).map_err(store_failed)?;
        // There is no default: credentials go only to a service that the user named.
        let last = last.ok_or_else(|| {
            Failure::new(FailureCode::Usage, "No server is configured.")
                .hint("Set SERVICE_API_URL to the URL of the service, for example https://service.example")
        })?;
        Origin::parse(&last)
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

    /// Runs `work`, with a spinner if the terminal shows one.
    pub(crate) async fn spin_while<T>(&self, work: impl Future<Output = T>) -> T {
        spinner::spin_while(self.terminal(), work).await
    }
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
