//! Where settings come from: the defaults, then the file, then the environment. Each value remembers its source, so that
//! a complaint can name it.

use std::{collections::BTreeMap, ffi::OsString, fmt, fs, path::Path, path::PathBuf, str::FromStr, time::Duration};

use super::settings::{SETTINGS, Setting, environment_name};

/// Every setting that was given, with the place that gave it.
#[derive(Clone, Default)]
pub struct Sources {
    values: BTreeMap<&'static str, (String, String)>,
    problems: Vec<Problem>,
}

/// The source of settings that no operator gave; of these the last word counts.
const BY_HAND: &str = "the caller";

/// What is wrong, where, and what would be right. It never carries the value of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

#[derive(Debug)]
pub struct Problems(pub Vec<Problem>);

impl Sources {
    /// The file, if any, overridden by the environment.
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
                sources.complain(format!("environment variable {name} is not text"));
                continue;
            };
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
                None => sources.complain(format!(
                    "environment variable {name} is no setting{}",
                    resembling(&name, environment_name)
                )),
            }
        }
        sources
    }

    /// Gives a setting by hand, as tests and the development command do.
    pub fn set(&mut self, key: &str, value: &str) {
        match SETTINGS.iter().find(|setting| setting.key == key) {
            Some(setting) => self.give(setting, value, BY_HAND, false),
            None => self.complain(format!("{key} is no setting")),
        }
    }

    /// Key, value as it may be shown, and source of every setting, in the order of the table.
    pub fn shown(&self) -> impl Iterator<Item = (&'static str, String, &str)> {
        SETTINGS.iter().map(|setting| match self.values.get(setting.key) {
            Some((_, source)) if setting.secret => (setting.key, "(secret)".into(), source.as_str()),
            Some((value, source)) => (setting.key, value.clone(), source.as_str()),
            None => (setting.key, setting.default.unwrap_or_default().into(), "default"),
        })
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
            Err(problem) => self.complain(problem),
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
                        self.complain(format!("{key} in {source} is a list, but not of texts"));
                        continue;
                    };
                    texts.join(",")
                }
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(_) | toml::Value::Datetime(_) => {
                    self.complain(format!("{key} in {source} is neither text nor a number"));
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
                None => self.complain(format!("{key} in {source} is no setting{}", resembling(&key, str::to_owned))),
            }
        }
    }

    fn give(&mut self, setting: &'static Setting, value: &str, source: &str, in_file: bool) {
        let value = if in_file {
            match fs::read_to_string(value) {
                Ok(text) => text.trim_end().to_owned(),
                // Not what it names: somebody may have put the secret itself there.
                Err(error) => return self.complain(format!("{source} names a file that cannot be read: {error}")),
            }
        } else {
            value.to_owned()
        };
        let of_environment = |source: &str| source.starts_with("environment variable");
        let before = self.values.insert(setting.key, (value, source.to_owned()));
        if let Some((_, other)) = before
            && of_environment(&other) == of_environment(source)
            && source != BY_HAND
        {
            self.complain(format!("{other} and {source} both give {}: leave one out", setting.key));
        }
    }

    fn complain(&mut self, problem: String) {
        self.problems.push(Problem(problem));
    }
}

/// Line and reason of a TOML error; never the line's text, which may hold a secret.
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

/// Reads values and gathers what is wrong with them.
pub(super) struct Reader<'a> {
    sources: &'a Sources,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// The value as given or by default; `None`, without complaint, if it may be left out.
    pub(super) fn optional(&self, key: &'static str) -> Option<&str> {
        let default = SETTINGS.iter().find(|setting| setting.key == key).and_then(|setting| setting.default);
        let given = self.sources.values.get(key).map(|(value, _)| value.as_str());
        given.or(default).filter(|value| !value.is_empty())
    }

    pub(super) fn checked<T: Blank>(
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
            return T::blank();
        };
        check(value).unwrap_or_else(|| {
            let source = given.map_or("default", |(_, source)| source);
            let shown =
                if setting.is_some_and(|setting| setting.secret) { String::new() } else { format!(" `{value}`") };
            self.problems.push(Problem(format!("{key}{shown} (from {source}) is not {expected}")));
            T::blank()
        })
    }

    pub(super) fn parsed<T: FromStr + Blank>(&mut self, key: &'static str, expected: &str) -> T {
        self.checked(key, expected, |text| text.parse().ok())
    }

    /// Certificates are looked into at once, so that a mistake shows before the first connection is made.
    pub(super) fn certificates(&mut self, key: &'static str) -> Option<PathBuf> {
        let found = |text: &str| super::certificates(Path::new(text)).is_ok_and(|found| !found.is_empty());
        self.checked(key, "the path of a file with PEM certificates", |text| {
            (text.is_empty() || found(text)).then_some(true)
        });
        self.optional(key).map(PathBuf::from)
    }

    /// Two settings that make no sense without each other.
    pub(super) fn together(&mut self, one: &'static str, other: &'static str) {
        if self.optional(one).is_some() != self.optional(other).is_some() {
            self.problems.push(Problem(format!("{one} and {other} belong together: give both, or neither")));
        }
    }

    /// A number of things, of which there must be some.
    pub(super) fn count(&mut self, key: &'static str) -> usize {
        self.checked(key, "a whole number above 0", |text| text.parse().ok().filter(|count| *count > 0))
    }

    pub(super) fn seconds(&mut self, key: &'static str) -> Duration {
        self.seconds_below(key, f64::MAX, "a number of seconds")
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

    /// What is wrong with settings together, though each alone is right.
    pub(super) fn complain(&mut self, problem: &str) {
        self.problems.push(Problem(problem.to_owned()));
    }

    pub(super) fn finish<T>(self, config: T) -> Result<T, Problems> {
        if self.problems.is_empty() { Ok(config) } else { Err(Problems(self.problems)) }
    }
}

/// Stands in for a value that could not be read, so that the others still are; it is never used.
pub(super) trait Blank {
    fn blank() -> Self;
}

macro_rules! blank {
    ($($type:ty => $value:expr),* $(,)?) => {
        $(impl Blank for $type { fn blank() -> Self { $value } })*
    };
}

blank! {
    String => Self::new(),
    bool => false,
    u16 => 0,
    i64 => 0,
    usize => 0,
    Duration => Self::ZERO,
    zeroize::Zeroizing<String> => Self::default(),
    std::net::SocketAddr => std::net::SocketAddr::from(([0; 4], 0)),
    super::MailTls => Self::StartTls,
    super::Rate => Self { burst: 1, per_hour: 1 },
}

impl<T> Blank for Vec<T> {
    fn blank() -> Self {
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
