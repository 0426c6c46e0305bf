//! The settings of the command: `config.json` next to the credentials. Options and environment variables override them.

use std::{collections::BTreeMap, path::PathBuf};

use clap::ValueEnum;
use service_api::leaks;
use service_client::private_file;

use crate::{
    credentials::display_path,
    environment::Environment,
    failure::{Failure, FailureCode},
    origin::Origin,
};

/// A setting, as an argument and the file name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Setting {
    /// URL of the service
    ApiUrl,
    /// Browser to open pages with (%s stands for the URL)
    Browser,
    /// Where to store credentials: keyring or file
    CredentialStore,
    /// Never prompt: true or false
    NoInput,
    /// Profile to use
    Profile,
}

impl Setting {
    pub(crate) const ALL: [Self; 5] =
        [Self::ApiUrl, Self::Browser, Self::CredentialStore, Self::NoInput, Self::Profile];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ApiUrl => "api-url",
            Self::Browser => "browser",
            Self::CredentialStore => "credential-store",
            Self::NoInput => "no-input",
            Self::Profile => "profile",
        }
    }

    /// The environment variable that overrides it.
    pub(crate) const fn variable(self) -> &'static str {
        match self {
            Self::ApiUrl => "SERVICE_API_URL",
            Self::Browser => "SERVICE_BROWSER",
            Self::CredentialStore => "SERVICE_CREDENTIAL_STORE",
            Self::NoInput => "SERVICE_NO_INPUT",
            Self::Profile => "SERVICE_PROFILE",
        }
    }

    /// The value that applies if it is set nowhere.
    pub(crate) const fn default_value(self) -> Option<&'static str> {
        match self {
            Self::NoInput => Some("false"),
            Self::Profile => Some("default"),
            Self::ApiUrl | Self::Browser | Self::CredentialStore => None,
        }
    }

    /// Checks a value, and returns it as it is stored. The error completes a sentence that begins with the name.
    pub(crate) fn check(self, value: &str) -> Result<String, &'static str> {
        if !leaks::recognise(value).is_empty() {
            return Err("must not be a token. Set SERVICE_TOKEN, or sign in with: service login");
        }
        let one_of = |values: &[&str], why| if values.contains(&value) { Ok(value.to_owned()) } else { Err(why) };
        match self {
            Self::ApiUrl => Origin::parse(value)
                .map(|origin| origin.as_str().to_owned())
                .map_err(|_| "must be a URL such as https://service.example"),
            Self::CredentialStore => one_of(&["keyring", "file"], "must be keyring or file"),
            Self::NoInput => one_of(&["true", "false"], "must be true or false"),
            Self::Browser | Self::Profile => {
                let is_line = !value.trim().is_empty() && !value.contains(char::is_control);
                if is_line { Ok(value.to_owned()) } else { Err("must be a line of text") }
            }
        }
    }
}

/// The values in the file, by name. Names that this version does not know are kept.
#[derive(Debug, Default)]
pub(crate) struct Settings(BTreeMap<String, String>);

impl Settings {
    /// The path of the file.
    pub(crate) fn path(environment: &Environment) -> Result<PathBuf, Failure> {
        Ok(environment.config_dir()?.join("config.json"))
    }

    /// The file to lock before the settings change.
    pub(crate) fn lock(environment: &Environment) -> Result<PathBuf, Failure> {
        Ok(environment.config_dir()?.join("config.lock"))
    }

    /// Reads the file. A file that does not exist has no settings.
    pub(crate) fn read(environment: &Environment) -> Result<Self, Failure> {
        // Without a home directory there is no file; a command that needs a directory says so.
        let Ok(path) = Self::path(environment) else { return Ok(Self::default()) };
        let contents = private_file::read(&path);
        let contents = contents.map_err(|error| Failure::new(FailureCode::StoreFailed, error.to_string()))?;
        let Some(contents) = contents else { return Ok(Self::default()) };
        serde_json::from_str(&contents.text).map(Self).map_err(|error| {
            let (path, line, column) = (display_path(&path), error.line(), error.column());
            let text =
                format!("{path} is invalid (line {line}, column {column}). It must be a JSON object of strings.");
            Failure::new(FailureCode::StoreFailed, text).hint("Correct the file, or delete it")
        })
    }

    /// Fails if the file has a value that the command cannot use: it is not ignored, because another server, profile or store
    /// would be used instead.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        for setting in Setting::ALL {
            let checked = self.get(setting).map_or(Ok(()), |value| setting.check(value).map(drop));
            checked.map_err(|why| {
                let name = setting.name();
                Failure::new(FailureCode::StoreFailed, format!("The setting {name} {why}."))
                    .hint(format!("service config set {name} <value>"))
            })?;
        }
        Ok(())
    }

    pub(crate) fn get(&self, setting: Setting) -> Option<&str> {
        self.0.get(setting.name()).map(String::as_str)
    }

    pub(crate) fn set(&mut self, setting: Setting, value: String) {
        self.0.insert(setting.name().to_owned(), value);
    }

    /// Removes a setting. Returns whether it was set.
    pub(crate) fn unset(&mut self, setting: Setting) -> bool {
        self.0.remove(setting.name()).is_some()
    }

    /// Writes the file. The caller holds the lock.
    pub(crate) fn write(&self, environment: &Environment) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(&self.0).unwrap_or_default();
        private_file::write(&Self::path(environment)?, &text)
            .map_err(|error| Failure::new(FailureCode::StoreFailed, error.to_string()))
    }

    /// Fills in what no environment variable sets. The URL of the service is not among it: a token in `SERVICE_TOKEN` is only
    /// sent to the server that `SERVICE_API_URL` names.
    pub(crate) fn complete(&self, environment: &mut Environment) {
        let fill = |place: &mut Option<String>, setting: Setting| {
            if place.is_none() {
                *place = self.get(setting).map(str::to_owned);
            }
        };
        fill(&mut environment.browser, Setting::Browser);
        fill(&mut environment.credential_store, Setting::CredentialStore);
        fill(&mut environment.profile, Setting::Profile);
        environment.no_input = environment.no_input || self.get(Setting::NoInput) == Some("true");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_the_same_name_in_arguments_and_in_the_file() {
        for setting in Setting::ALL {
            let name = setting.to_possible_value().unwrap();
            assert_eq!(name.get_name(), setting.name());
        }
        assert_eq!(Setting::ALL.len(), Setting::value_variants().len());
    }

    #[test]
    fn values_are_checked() {
        assert_eq!(Setting::ApiUrl.check("https://Service.example/"), Ok("https://service.example".to_owned()));
        for (setting, value) in [
            (Setting::ApiUrl, "http://service.example"),
            (Setting::ApiUrl, "https://ana:secret@service.example"),
            (Setting::CredentialStore, "cloud"),
            (Setting::NoInput, "1"),
            (Setting::Browser, " "),
            (Setting::Profile, "a\nb"),
        ] {
            assert!(setting.check(value).is_err(), "{value:?}");
        }
    }
}
