//! Everything that a command needs to know before it begins.

use std::cell::Cell;

use service_client::{Client, SessionError, StoreError};

use crate::{
    arguments::Everywhere,
    credentials::{Credentials, Kept, shown},
    environment::Environment,
    failure::{Code, Failure},
    origin::{DEFAULT, Origin},
    output::{self, Output},
    spinner,
    terminal::Terminal,
};

pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) output: Output,
    pub(crate) everywhere: Everywhere,
    pub(crate) profile: String,
    /// Whether a sign-in was kept: from then on it is not true that nothing was.
    saved: Cell<bool>,
}

impl Context {
    pub(crate) fn gather(everywhere: Everywhere) -> Self {
        let environment = Environment::read();
        let json = everywhere.json || everywhere.jq.is_some();
        let terminal = Terminal::look(&environment, everywhere.no_input, json || everywhere.quiet);
        let output = Output { json, jq: everywhere.jq.clone(), quiet: everywhere.quiet, terminal };
        let profile = everywhere.profile.clone().or_else(|| environment.profile.clone());
        Self {
            environment,
            output,
            everywhere,
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

    /// The address of the service: what the environment says, else what was last signed in to.
    pub(crate) fn origin(&self) -> Result<Origin, Failure> {
        if let Some(url) = &self.environment.api_url {
            return Origin::parse(url);
        }
        let last = self.credentials()?.last_origin(&self.profile).map_err(store_failed)?;
        Origin::parse(last.as_deref().unwrap_or(DEFAULT))
    }

    pub(crate) fn credentials(&self) -> Result<Credentials, Failure> {
        Credentials::of(&self.environment)
    }

    /// The sign-in of this profile at this address. Says so if others could read it.
    pub(crate) fn kept(&self, origin: &Origin) -> Result<Kept, Failure> {
        let credentials = self.credentials()?;
        if let Some(mode) = credentials.repair().map_err(store_failed)? {
            let path = shown(&credentials.path());
            self.output.warn(&format!("{path} could be read by other users (mode {mode:o}). Fixed to 600."));
        }
        Ok(credentials.sign_in(&self.profile, origin))
    }

    pub(crate) fn client(&self, origin: &Origin) -> Result<Client, Failure> {
        let failed = |_| Failure::new(Code::RequestFailed, "This machine's certificates cannot be read.");
        let client = Client::new(origin.as_str()).map_err(failed)?;
        let tells = self.everywhere.verbose || self.environment.log;
        Ok(if tells { client.observed(output::trace) } else { client })
    }

    pub(crate) async fn waiting<T>(&self, work: impl Future<Output = T>) -> T {
        spinner::while_waiting(self.terminal(), work).await
    }
}

pub(crate) fn store_failed(error: impl Into<StoreError>) -> Failure {
    Failure::new(Code::StoreFailed, error.into().to_string())
}

/// What a failed lock or store says.
pub(crate) fn kept_failed(error: SessionError) -> Failure {
    if let SessionError::Store(error) = error {
        return store_failed(error);
    }
    Failure::new(Code::RefreshBusy, "Another service command has been renewing the sign-in for 30 s. Try again.")
}
