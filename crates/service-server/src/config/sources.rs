//! The sources of settings: defaults, then the file, then the environment. Each value carries its source for error
//! messages.

use std::{
    collections::BTreeMap, ffi::OsString, fmt, fs, os::unix::fs::PermissionsExt as _, path::Path, path::PathBuf,
    str::FromStr, time::Duration,
};

use crate::config::{
    service_links,
    settings::{SETTINGS, Setting, environment_name},
};

/// The settings that were given, each with its source.
#[derive(Clone, Default)]
pub struct Sources {
    values: BTreeMap<&'static str, (String, String)>,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

/// The source of settings that a test or the development command gives. Of these the last one wins.
const CALLER_SOURCE: &str = "the caller";

/// A problem with the configuration, its place, and what would be valid. It never contains the value of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

#[derive(Debug)]
pub struct Problems(pub Vec<Problem>);

/// Whether a setting is yes or no, by its default.
fn is_yes_or_no(key: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.key == key && matches!(setting.default, Some("yes" | "no")))
}

impl Sources {
    /// Reads the file, if any, and the environment, which overrides the file.
    #[must_use]
    pub fn gather(file: Option<&Path>, environment: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let mut sources = Self::default();
        if let Some(path) = file {
            sources.read_file(path);
        }
        for (name, value) in environment {
            let name = name.to_string_lossy().into_owned();
            if !name.starts_with("SERVICED_") {
                continue;
            }
            let Ok(value) = value.into_string() else {
                sources.report(format!("environment variable {name} is not text"));
                continue;
            };
            if service_links::is_service_link(&name, &value) {
                sources.warnings.push(format!(
                    "environment variable {name} is ignored: Kubernetes sets it for a Service; set enableServiceLinks: \
                     false for the pod"
                ));
                continue;
            }
            let known =
                SETTINGS.iter().find_map(|setting| match name.strip_prefix(&environment_name(setting.key))? {
                    "" => Some((setting, false)),
                    "_FILE" if setting.secret => Some((setting, true)),
                    _ => None,
                });
            match known {
                Some((setting, in_file)) => {
                    sources.give(setting, &value, &format!("environment variable {name}"), in_file);
                }
                None if name == "SERVICED_CONFIG" => {}
                None => sources.report(format!(
                    "environment variable {name} is not a known setting{}",
                    resembling(&name, environment_name)
                )),
            }
        }
        sources
    }

    /// Gives a setting, as tests and the development command do.
    pub fn set(&mut self, key: &str, value: &str) {
        match SETTINGS.iter().find(|setting| setting.key == key) {
            Some(setting) => self.give(setting, value, CALLER_SOURCE, false),
            None => self.report(format!("{key} is not a known setting")),
        }
    }

    /// Returns name, printable value and source of every setting, in the order of the table.
    pub fn shown(&self) -> impl Iterator<Item = (&'static str, String, &str)> {
        SETTINGS.iter().map(|setting| match self.values.get(setting.key) {
            Some((_, source)) if setting.secret => (setting.key, "(secret)".into(), source.as_str()),
            Some((value, source)) => (setting.key, value.clone(), source.as_str()),
            None => (setting.key, setting.default.unwrap_or_default().into(), "default"),
        })
    }

    /// Returns the settings whose values differ.
    pub fn changed_since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'static str> + 'a {
        let keys = SETTINGS.iter().map(|setting| setting.key);
        keys.filter(move |key| self.value(key) != before.value(key))
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|(value, _)| value.as_str())
    }

    /// Takes over a setting of other sources.
    pub fn take_over(&mut self, key: &'static str, from: &Self) {
        match from.values.get(key) {
            Some(given) => drop(self.values.insert(key, given.clone())),
            None => drop(self.values.remove(key)),
        }
    }

    pub(super) fn reader(&self) -> Reader<'_> {
        Reader { sources: self, problems: self.problems.clone() }
    }

    fn read_file(&mut self, path: &Path) {
        let source = path.display().to_string();
        let table = fs::read_to_string(path)
            .map_err(|error| format!("cannot read {source}: {error}"))
            .and_then(|text| text.parse::<toml::Table>().map_err(|error| syntax(&source, &text, &error)));
        match table {
            Ok(table) => self.read_table("", &table, &source),
            Err(problem) => self.report(problem),
        }
    }

    fn read_table(&mut self, prefix: &str, table: &toml::Table, source: &str) {
        for (name, value) in table {
            let key = format!("{prefix}{name}");
            let plain = match value {
                toml::Value::Table(inner) => {
                    self.read_table(&format!("{key}."), inner, source);
                    continue;
                }
                toml::Value::String(text) => text.clone(),
                toml::Value::Array(items) => {
                    let Some(texts) = items.iter().map(toml::Value::as_str).collect::<Option<Vec<_>>>() else {
                        self.report(format!("{key} in {source} is a list, but not of strings"));
                        continue;
                    };
                    texts.join(",")
                }
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(value) if is_yes_or_no(&key) => value.to_string(),
                toml::Value::Boolean(_) | toml::Value::Datetime(_) => {
                    self.report(format!("{key} in {source} is neither a string nor a number"));
                    continue;
                }
            };
            let found = SETTINGS.iter().find_map(|setting| match key.strip_prefix(setting.key)? {
                "" => Some((setting, false)),
                "_file" if setting.secret => Some((setting, true)),
                _ => None,
            });
            match found {
                Some((setting, in_file)) => self.give(setting, &plain, &format!("{key} in {source}"), in_file),
                None => {
                    self.report(format!("{key} in {source} is not a known setting{}", resembling(&key, str::to_owned)));
                }
            }
        }
    }

    fn give(&mut self, setting: &'static Setting, value: &str, source: &str, in_file: bool) {
        let value = if in_file {
            self.check_permissions(value, source);
            match fs::read_to_string(value) {
                Ok(text) => text.trim_end().to_owned(),
                // The error does not contain the path, because an operator may have put the secret itself there.
                Err(error) => return self.report(format!("{source} names a file that cannot be read: {error}")),
            }
        } else {
            if setting.key.ends_with(".key_file") {
                self.check_permissions(value, source);
            }
            value.to_owned()
        };
        let of_environment = |source: &str| source.starts_with("environment variable");
        let before = self.values.insert(setting.key, (value, source.to_owned()));
        if let Some((_, other)) = before
            && of_environment(&other) == of_environment(source)
            && source != CALLER_SOURCE
        {
            self.report(format!("{other} and {source} both set {}: remove one of them", setting.key));
        }
    }

    /// Warns of a secret file that other accounts can write. That others can read it may be intended: Kubernetes mounts
    /// secrets that way.
    fn check_permissions(&mut self, path: &str, source: &str) {
        let Ok(mode) = fs::metadata(path).map(|file| file.permissions().mode()) else { return };
        if mode & 0o002 != 0 {
            self.report(format!("{source} names a file that other users can write to: run chmod o-w on it"));
        } else if mode & 0o004 != 0 {
            self.warnings.push(format!("{source} names a file that other users can read"));
        }
    }

    /// Returns problems that do not keep the service from starting.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn report(&mut self, problem: String) {
        self.problems.push(Problem(problem));
    }
}

/// Returns line and reason of a TOML error, never the text of the line, which may hold a secret.
fn syntax(source: &str, text: &str, error: &toml::de::Error) -> String {
    let line =
        error.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.matches('\n').count() + 1);
    format!("{source}, line {line}: {}", error.message())
}

fn resembling(name: &str, spelling: fn(&str) -> String) -> String {
    let distance = |setting: &&Setting| strsim::damerau_levenshtein(&spelling(setting.key), name);
    SETTINGS.iter().min_by_key(distance).filter(|setting| distance(setting) <= 4).map_or_else(
        || "; docs/configuration.md lists them all".to_owned(),
        |setting| format!("; did you mean {}?", spelling(setting.key)),
    )
}

/// Reads values and collects problems.
pub(super) struct Reader<'a> {
    sources: &'a Sources,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// Returns the value or its default; `None`: the setting is optional and not given.
    pub(super) fn optional(&self, key: &'static str) -> Option<&str> {
        let default = SETTINGS.iter().find(|setting| setting.key == key).and_then(|setting| setting.default);
        let given = self.sources.values.get(key).map(|(value, _)| value.as_str());
        given.or(default).filter(|value| !value.is_empty())
    }

    pub(super) fn checked<T: Placeholder>(
        &mut self,
        key: &'static str,
        expected: &str,
        check: impl Fn(&str) -> Option<T>,
    ) -> T {
        let setting = SETTINGS.iter().find(|setting| setting.key == key);
        let given = self.sources.values.get(key);
        let value = given.map(|(value, _)| value.as_str()).or(setting.and_then(|setting| setting.default));
        let Some(value) = value else {
            let variable = environment_name(key);
            self.problems.push(Problem(format!("{key} is not set: give {expected}, in the file or as {variable}")));
            return T::placeholder();
        };
        check(value).unwrap_or_else(|| {
            let source = given.map_or("default", |(_, source)| source);
            let shown =
                if setting.is_some_and(|setting| setting.secret) { String::new() } else { format!(" `{value}`") };
            self.problems.push(Problem(format!("{key}{shown} (from {source}) is not {expected}")));
            T::placeholder()
        })
    }

    /// Reads a setting that may be empty.
    pub(super) fn optional_checked<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        check: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.checked(key, expected, |text| (text.is_empty() || check(text).is_some()).then_some(true));
        self.optional(key).and_then(check)
    }

    pub(super) fn parsed<T: FromStr + Placeholder>(&mut self, key: &'static str, expected: &str) -> T {
        self.checked(key, expected, |text| text.parse().ok())
    }

    /// Reads the path of a certificate file. The file is read at once, so that a mistake shows at the start.
    pub(super) fn certificates(&mut self, key: &'static str) -> Option<PathBuf> {
        let found = |text: &str| super::certificates(Path::new(text)).is_ok_and(|found| !found.is_empty());
        self.checked(key, "the path of a file with PEM certificates", |text| {
            (text.is_empty() || found(text)).then_some(true)
        });
        self.optional(key).map(PathBuf::from)
    }

    /// Reports a problem if only one of two settings is given that belong together.
    pub(super) fn require_together(&mut self, one: &'static str, other: &'static str) {
        if self.optional(one).is_some() != self.optional(other).is_some() {
            self.problems.push(Problem(format!("{one} and {other} belong together: set both, or neither")));
        }
    }

    /// Reads a positive number.
    pub(super) fn count(&mut self, key: &'static str) -> usize {
        self.checked(key, "a whole number above 0", |text| text.parse().ok().filter(|count| *count > 0))
    }

    /// Reads an optional positive number.
    pub(super) fn optional_count(&mut self, key: &'static str) -> Option<usize> {
        self.optional(key).is_some().then(|| self.count(key))
    }

    pub(super) fn seconds(&mut self, key: &'static str) -> Duration {
        self.seconds_below(key, f64::MAX, "a number of seconds")
    }

    /// Reads a time that may be 0.
    pub(super) fn pause(&mut self, key: &'static str) -> Duration {
        let within = |text: &str| text.parse().ok().filter(|seconds| (0.0..=600.0).contains(seconds));
        self.checked(key, "a number of seconds from 0 to 600", |text| {
            within(text).and_then(|s| Duration::try_from_secs_f64(s).ok())
        })
    }

    pub(super) fn seconds_below(&mut self, key: &'static str, limit: f64, expected: &str) -> Duration {
        let within = |text: &str| text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds < limit);
        self.checked(key, expected, |text| within(text).and_then(|s| Duration::try_from_secs_f64(s).ok()))
    }

    pub(super) fn days(&mut self, key: &'static str) -> Duration {
        let days = |text: &str| text.parse::<u32>().ok().filter(|days| *days > 0);
        self.checked(key, "a number of days", |text| {
            days(text).map(|days| Duration::from_secs(u64::from(days) * 86_400))
        })
    }

    /// Reports a problem with a combination of settings.
    pub(super) fn report(&mut self, problem: &str) {
        self.problems.push(Problem(problem.to_owned()));
    }

    pub(super) fn finish<T>(self, config: T) -> Result<T, Problems> {
        if self.problems.is_empty() { Ok(config) } else { Err(Problems(self.problems)) }
    }
}

/// A placeholder for a value that could not be read, so that the other settings are still checked. It is never used.
pub(super) trait Placeholder {
    fn placeholder() -> Self;
}

macro_rules! blank {
    ($($type:ty => $value:expr),* $(,)?) => {
        $(impl Placeholder for $type { fn placeholder() -> Self { $value } })*
    };
}

blank! {
    String => Self::new(),
    bool => false,
    u16 => 0,
    i64 => 0,
    usize => 0,
    Duration => Self::ZERO,
    super::DatabaseUrl => Self::default(),
    std::net::SocketAddr => std::net::SocketAddr::from(([0; 4], 0)),
    super::MailTls => Self::StartTls,
    super::FailureShare => Self::default(),
    super::SampleRatio => Self::NONE,
    super::Rate => Self { burst: 1, per_hour: 1 },
    super::NetworkRates => Self::from_narrowest(super::Rate { burst: 1, per_hour: 1 }),
}

impl<T> Placeholder for Option<T> {
    fn placeholder() -> Self {
        None
    }
}

impl<T> Placeholder for Vec<T> {
    fn placeholder() -> Self {
        Self::new()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Problem(problem) in &self.0 {
            writeln!(f, "- {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
