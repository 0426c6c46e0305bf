//! The configuration as an operator meets it: the real program, its complaints, and its documentation.

use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt as _, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use service_server::config::{SETTINGS, environment_name};
use service_testkit::{process::command, settings::Settings};
use tempfile::TempDir;

const DATABASE: &str = "postgres://serviced:canary-password@db.example/service";

struct Outcome {
    success: bool,
    text: String,
}

/// A configuration under test: settings from the environment, and a directory for its files.
struct Operator {
    settings: Settings,
    directory: TempDir,
}

fn root_key() -> String {
    BASE64_STANDARD.encode(b"canary: the root key, 32 bytes..")
}

impl Operator {
    /// What must be given, and nothing else.
    fn new() -> Result<Self> {
        let mut settings = Settings::default();
        for (key, value) in [
            ("base_url", "https://service.example"),
            ("database.url", DATABASE),
            ("secrets.root_keys", &format!("1:{}", root_key())),
            ("mail.from", "Service <no-reply@service.example>"),
            ("mail.host", "smtp.service.example"),
        ] {
            settings.set(key, value);
        }
        Ok(Self { settings, directory: tempfile::tempdir()? })
    }

    fn file(&self, name: &str, text: &str) -> Result<String> {
        let path = self.directory.path().join(name);
        fs::write(&path, text)?;
        path.to_str().map(str::to_owned).context("the path is no text")
    }

    /// Runs `check-config` with this file and these variables beside the settings.
    fn check(&self, file: Option<&str>, variables: &[(&str, &str)]) -> Result<Outcome> {
        let mut command = self.command("check-config");
        command.envs(variables.iter().copied());
        if let Some(text) = file {
            command.arg("--config").arg(self.file("serviced.toml", text)?);
        }
        finish(&mut command)
    }

    fn command(&self, subcommand: &str) -> Command {
        command(Path::new(env!("CARGO_BIN_EXE_serviced")), &self.settings, subcommand)
    }

    fn without(mut self, key: &str) -> Self {
        let mut kept = Settings::default();
        self.settings.iter().filter(|(other, _)| *other != key).for_each(|(key, value)| kept.set(key, value));
        self.settings = kept;
        self
    }
}

/// What the program said, all of it; no secret may be in it.
fn finish(command: &mut Command) -> Result<Outcome> {
    let output = command.output()?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let secret = text.contains("canary") || text.contains(&root_key()[..12]);
    ensure!(!secret, "a secret was printed");
    let code = output.status.code();
    ensure!(matches!(code, Some(0 | 1)), "it ended with {code:?}: {text}");
    Ok(Outcome { success: code == Some(0), text })
}

/// The complaint must hold all of these.
fn check_refused(outcome: &Outcome, expected: &[&str]) -> Result<()> {
    ensure!(!outcome.success, "accepted, although {expected:?} was to be expected:\n{}", outcome.text);
    for part in expected {
        ensure!(outcome.text.contains(part), "{part:?} is not in:\n{}", outcome.text);
    }
    Ok(())
}

#[test]
fn variables_of_kubernetes_are_ignored_with_a_warning_op_03() -> Result<()> {
    let operator = Operator::new()?;
    let links = [
        ("SERVICED_PORT", "tcp://10.96.0.11:8080"),
        ("SERVICED_SERVICE_HOST", "10.96.0.11"),
        ("SERVICED_SERVICE_PORT_HTTP", "8080"),
        ("SERVICED_PORT_8080_TCP_ADDR", "10.96.0.11"),
        ("SERVICED_MAIL_PORT", "tcp://10.96.0.12:25"),
    ];
    let outcome = operator.check(None, &links)?;
    ensure!(outcome.success && outcome.text.contains("mail.port = 587  (default)"), "{}", outcome.text);
    for (name, _) in links {
        let expected = format!("Warning: environment variable {name} is ignored: Kubernetes");
        assert!(outcome.text.contains(&expected), "{name}: {}", outcome.text);
    }
    for (name, value) in [("SERVICED_PORT", "8080"), ("SERVICED_PORT_8080_TCP_ADDR", "service.example")] {
        let complaint = format!("environment variable {name} is not a known setting");
        check_refused(&operator.check(None, &[(name, value)])?, &[&complaint])?;
    }
    Ok(())
}

#[test]
fn a_complete_configuration_passes_and_every_setting_is_shown_with_its_source() -> Result<()> {
    let operator = Operator::new()?;
    let outcome = operator.check(Some("[http]\nlisten = \"127.0.0.1:1234\"\n"), &[])?;
    assert!(outcome.success && outcome.text.ends_with("The configuration is valid.\n"), "{}", outcome.text);
    for setting in SETTINGS {
        let line = outcome.text.lines().find(|line| line.starts_with(&format!("{} = ", setting.key)));
        let line = line.with_context(|| format!("{} is not shown", setting.key))?;
        let given = operator.settings.get(setting.key);
        let expected = match (setting.key, given) {
            ("http.listen", _) => format!("127.0.0.1:1234  (http.listen in {}", operator.directory.path().display()),
            (key, Some(_)) if setting.secret => format!("(secret)  (environment variable {})", environment_name(key)),
            (key, Some(value)) => format!("{value}  (environment variable {})", environment_name(key)),
            (_, None) => format!("{}  (default)", setting.default.unwrap_or_default()),
        };
        assert!(line.contains(&expected), "{line}");
    }
    Ok(())
}

#[test]
fn a_missing_setting_is_named_with_both_its_names() -> Result<()> {
    for setting in SETTINGS.iter().filter(|setting| setting.default.is_none()) {
        let outcome = Operator::new()?.without(setting.key).check(None, &[])?;
        check_refused(&outcome, &[&format!("{} is not set", setting.key), &environment_name(setting.key), "give "])?;
    }
    Ok(())
}

#[test]
fn a_wrong_value_is_named_with_its_source_and_what_is_expected() -> Result<()> {
    let wrong: &[(&str, &[&str])] = &[
        ("base_url", &["", "service.example", "http://service.example", "ftp://service.example", "https://"]),
        ("base_url", &["https://service.example/", "https://service.example/v1", "https://Service.example"]),
        ("base_url", &["https://ann@service.example", "https://service.example?a", "https://service.example#a"]),
        ("base_url", &["https://service.example:port", "https://service.example:", "http://localhost.evil.example"]),
        ("base_url", &["http://127.0.0.1.evil.example", "http://localhost:8080/", " https://service.example"]),
        ("http.listen", &["", "localhost", "127.0.0.1", ":8080", "127.0.0.1:65536"]),
        ("http.ops_listen", &["9090"]),
        ("http.trusted_proxies", &["10.0.0.0/33", "proxy.example", "10.0.0.0/8 10.1.0.0/16"]),
        ("http.connections", &["0", "-1", "many", "1.5", ""]),
        ("http.in_flight", &["0", "all"]),
        ("http.deadline_seconds", &["0", "-1", "nan", "inf", "1s", ""]),
        ("http.body_limit_bytes", &["0", "64k"]),
        ("http.lame_duck_seconds", &["x", "-1", "601", "NaN", ""]),
        ("http.drain_seconds", &["x"]),
        ("database.ca_file", &["/nonexistent/ca.pem", "/dev/null"]),
        ("database.connections", &["0", "x"]),
        ("database.deadline_seconds", &["0", "x"]),
        ("mail.from", &["", "unknown", "a@b.example, c@d.example"]),
        ("mail.host", &["", "two words"]),
        ("mail.port", &["0", "65536", "smtp"]),
        ("mail.tls", &["", "maybe", "STARTTLS"]),
        ("mail.ca_file", &["/nonexistent/ca.pem"]),
        ("limits.otp_sends_per_address", &["", "1", "0/60", "1/0", "1/60;5/3600", "-1/60"]),
        ("limits.otp_failures_per_address", &["10+30"]),
        ("limits.otp_sends_per_network", &["", "10", "0+1", "1+0", "1/60"]),
        ("limits.otp_failures", &["x"]),
        (
            "limits.raised_networks",
            &["203.0.113.7", "203.0.113.7/32", "203.0.113.7/32=1", "203.0.113.7/32=1001", "x=10", "10"],
        ),
        ("limits.otp_failures_percent", &["", "x", "-1", "91", "100", "2.5"]),
        ("limits.login_options_per_network", &["1+"]),
        ("keys.rotate_every_days", &["0", "1.5", "-1"]),
        ("keys.publish_lead_seconds", &["0", "x"]),
        ("keys.refresh_every_seconds", &["0", "x"]),
        (
            "traces.endpoint",
            &["127.0.0.1:4318", "ftp://a.example", "http://", "https://a@b.example/", "http://a.example/?b=c"],
        ),
        ("traces.sample_ratio", &["", "x", "-0.1", "1.1", "NaN", "1%"]),
        ("traces.ca_file", &["/nonexistent/ca.pem"]),
        ("log.format", &["xml", ""]),
        ("log.filter", &["info,service_server=loud", "="]),
    ];
    let operator = Operator::new()?;
    for (key, values) in wrong {
        let name = environment_name(key);
        for value in *values {
            let outcome = operator.check(None, &[(&name, value)])?;
            let complaint = format!("- {key} `{value}` (from environment variable {name}) is not ");
            check_refused(&outcome, &[&complaint]).with_context(|| format!("{key} = {value:?}"))?;
            ensure!(outcome.text.matches("\n- ").count() == 1, "more than one complaint:\n{}", outcome.text);
        }
    }
    for base_url in ["https://service.example:8443", "http://localhost:8080", "http://127.0.0.1", "http://[::1]:8080"] {
        assert!(operator.check(None, &[("SERVICED_BASE_URL", base_url)])?.success, "{base_url}");
    }
    Ok(())
}

#[test]
fn the_token_of_a_collector_is_not_shown_and_does_not_travel_in_clear() -> Result<()> {
    let operator = Operator::new()?;
    let token = "collector-token-of-acme";
    let check = |url| operator.check(None, &[("SERVICED_TRACES_ENDPOINT", url), ("SERVICED_TRACES_TOKEN", token)]);
    for right in ["https://otel.acme.example/v1/traces", "http://127.0.0.1:4318/v1/traces", "http://localhost:4318", ""]
    {
        let outcome = check(right)?;
        ensure!(outcome.success && outcome.text.contains("traces.token = (secret)"), "{right}: {}", outcome.text);
        ensure!(!outcome.text.contains(token), "{right}: the token is shown");
    }
    let outcome = check("http://otel.acme.example:4318/v1/traces")?;
    check_refused(&outcome, &["traces.token is set, but traces.endpoint is http on another machine"])?;
    let outcome = operator.check(None, &[("SERVICED_TRACES_TOKEN", "two words-of-acme")])?;
    check_refused(&outcome, &["- traces.token (from environment variable SERVICED_TRACES_TOKEN) is not a token"])?;
    ensure!(!outcome.text.contains("words-of-acme"), "the token is shown");
    assert!(operator.check(None, &[("SERVICED_TRACES_ENDPOINT", "http://otel.acme.example:4318/v1/traces")])?.success);
    Ok(())
}

#[test]
fn an_issuer_in_a_private_network_is_listed_with_its_networks() -> Result<()> {
    let operator = Operator::new()?;
    let check = |value| operator.check(None, &[("SERVICED_SSO_ALLOWED_ISSUERS", value)]);
    for wrong in [
        "https://id.acme.example",
        "https://id.acme.example=",
        "=10.0.0.0/8",
        "id.acme.example=10.0.0.0/8",
        "http://id.acme.example=10.0.0.0/8",
        "https://id.acme.example=10.0.0.0/33",
        "https://ID.acme.example=10.0.0.0/8",
        "https://id.acme.example?a=10.0.0.0/8",
    ] {
        check_refused(&check(wrong)?, &[&format!("- sso.allowed_issuers `{wrong}`"), "issuers and networks such as "])?;
    }
    for right in ["", "https://a.example/t=10.0.0.0/8 fd00::/8, http://localhost:8080=127.0.0.0/8"] {
        assert!(check(right)?.success, "{right}");
    }
    let file = "[sso]\nallowed_issuers = [\"https://a.example=10.0.0.0/8\", \"https://a.example=fd00::/8\"]";
    assert!(operator.check(Some(file), &[])?.success);
    Ok(())
}

#[test]
fn what_is_no_setting_is_named_with_the_nearest_that_is() -> Result<()> {
    let operator = Operator::new()?;
    let file = &operator.file("serviced.toml", "")?;
    for (text, expected) in [
        (
            "[http]\nlisten_on = \"a\"",
            format!("http.listen_on in {file} is not a known setting; did you mean http.listen?"),
        ),
        ("bas_url = \"a\"", format!("bas_url in {file} is not a known setting; did you mean base_url?")),
        (
            "[frobnication]\nlevel = 1",
            format!("frobnication.level in {file} is not a known setting; docs/configuration.md"),
        ),
        ("base_url_file = \"a\"", format!("base_url_file in {file} is not a known setting")),
        ("http = \"a\"", format!("http in {file} is not a known setting")),
        ("[http]\nlisten = true", format!("http.listen in {file} is neither a string nor a number")),
        ("base_url = 2026-01-01", format!("base_url in {file} is neither a string nor a number")),
        ("[http]\ntrusted_proxies = [10]", format!("http.trusted_proxies in {file} is ")),
        ("[[http]]\nlisten = \"a\"", format!("http in {file} is ")),
        ("[limits]\notp_failures = { a = 1 }", format!("limits.otp_failures.a in {file} is not a known setting")),
        ("\n\n[http\n", format!("{file}, line 3: ")),
        ("base_url = \"a\"\nbase_url = \"b\"", format!("{file}, line 2: ")),
    ] {
        check_refused(&operator.check(Some(text), &[])?, &[&expected]).with_context(|| text.to_owned())?;
    }
    for (name, expected) in [
        ("SERVICED_HTTP_LISTN", "; did you mean SERVICED_HTTP_LISTEN?"),
        ("SERVICED_DATABASE_URI", "; did you mean SERVICED_DATABASE_URL?"),
        ("SERVICED_BASE_URL_FILE", ""),
        ("SERVICED_FROBNICATION_LEVEL", "; docs/configuration.md lists them all"),
        ("SERVICED_", ""),
    ] {
        let complaint = format!("environment variable {name} is not a known setting{expected}");
        check_refused(&operator.check(None, &[(name, "canary")])?, &[&complaint])?;
    }
    check_refused(
        &finish(operator.command("check-config").args(["--config", "/nonexistent/serviced.toml"]))?,
        &["cannot read /nonexistent/serviced.toml"],
    )
}

#[test]
fn all_that_is_wrong_is_named_at_once_whatever_the_command() -> Result<()> {
    let operator = Operator::new()?.without("mail.host");
    let file = operator.file("serviced.toml", "[http]\nlisten = \"here\"\n[unknown]\na = 1\n")?;
    for subcommand in ["check-config", "run", "migrate", "keys list"] {
        let mut command = operator.command(subcommand);
        command.args(["--config", &file]).envs([("SERVICED_MAIL_PORT", "x"), ("SERVICED_NOTHING", "x")]);
        let outcome = finish(command.env("SERVICED_MAIL_PASSWORD_FILE", "/nonexistent/password"))?;
        check_refused(
            &outcome,
            &["http.listen", "unknown.a", "mail.port", "SERVICED_NOTHING", "mail.host", "MAIL_PASSWORD_FILE"],
        )?;
        assert_eq!(outcome.text.matches("\n- ").count(), 6, "{}", outcome.text);
    }
    Ok(())
}

#[test]
fn secrets_come_from_files_and_the_environment_overrides_the_file() -> Result<()> {
    let operator = Operator::new()?.without("secrets.root_keys").without("database.url").without("mail.host");
    let keys = operator.file("keys", &format!("1:{}\n\n", root_key()))?;
    let address = operator.file("address", &format!("{DATABASE}\r\n"))?;
    let file = format!(
        "base_url = \"http://wrong.example\"\n[database]\nurl_file = {address:?}\n[secrets]\nroot_keys_file = {keys:?}
         [mail]\nhost = \"from-file.example\"\nuser = \"serviced\"\npassword = \"canary\"\nport = 25"
    );
    let outcome = operator.check(Some(&file), &[("SERVICED_MAIL_PORT", "587")])?;
    assert!(outcome.success, "{}", outcome.text);
    for shown in [
        "base_url = https://service.example  (environment variable SERVICED_BASE_URL)",
        "mail.host = from-file.example  (mail.host in ",
        "mail.port = 587  (environment variable SERVICED_MAIL_PORT)",
        "mail.password = (secret)  (mail.password in ",
        "database.url = (secret)  (database.url_file in ",
        "secrets.root_keys = (secret)  (secrets.root_keys_file in ",
    ] {
        assert!(outcome.text.contains(shown), "{shown:?} is not in:\n{}", outcome.text);
    }
    // One place that overrides another is fine; two of the same rank are a mistake.
    let overridden = operator.check(Some(&file), &[("SERVICED_SECRETS_ROOT_KEYS", "nonsense")])?;
    check_refused(&overridden, &["secrets.root_keys (from environment variable SERVICED_SECRETS_ROOT_KEYS) is not "])?;
    let twice = [("SERVICED_DATABASE_URL", DATABASE), ("SERVICED_DATABASE_URL_FILE", address.as_str())];
    check_refused(
        &operator.check(Some(&file), &twice)?,
        &["SERVICED_DATABASE_URL and ", "SERVICED_DATABASE_URL_FILE"],
    )?;
    let twice = file.replace("[secrets]", &format!("url = {DATABASE:?}\n[secrets]"));
    check_refused(&operator.check(Some(&twice), &[])?, &["database.url in ", "database.url_file in "])
}

#[test]
fn a_mistake_with_a_secret_does_not_print_it() -> Result<()> {
    let operator = Operator::new()?;
    let key = root_key();
    let (short, twice, foreign) = (format!("1:{}", &key[..40]), format!("1:{key},1:{key}"), format!("256:{key}"));
    for value in
        [key.as_str(), "", "1:", &format!(":{key}"), &short, &twice, &foreign, &format!("1:{key}=="), "1:canary"]
    {
        let expected = "secrets.root_keys (from environment variable SERVICED_SECRETS_ROOT_KEYS) is not id:key pairs";
        check_refused(
            &operator.check(None, &[("SERVICED_SECRETS_ROOT_KEYS", value)])?,
            &[expected, "32 bytes in base64"],
        )?;
    }
    for value in ["canary", "postgres://serviced:canary@:port/", "mysql://canary@db.example/", ""] {
        let expected = "database.url (from environment variable SERVICED_DATABASE_URL) is not a PostgreSQL address";
        check_refused(&operator.check(None, &[("SERVICED_DATABASE_URL", value)])?, &[expected])?;
    }
    // The secret where its file's name belongs, and secrets that TOML trips over.
    let without = Operator::new()?.without("database.url");
    check_refused(&without.check(None, &[("SERVICED_DATABASE_URL_FILE", DATABASE)])?, &["SERVICED_DATABASE_URL_FILE"])?;
    for text in
        ["url = canary", "url = \"canary\\q\"", "url = \"canary", "url = [\"canary\", 1]", "url = true", "canary"]
    {
        check_refused(&without.check(Some(&format!("[database]\n{text}\n")), &[])?, &["serviced.toml"])?;
    }
    for value in [("SERVICED_MAIL_USER", "ann"), ("SERVICED_MAIL_PASSWORD", "canary")] {
        check_refused(&operator.check(None, &[value])?, &["mail.user", "mail.password", "belong together"])?;
    }
    Ok(())
}

#[test]
fn variables_that_are_no_text_are_no_defect() -> Result<()> {
    let odd = OsString::from_vec(b"canary\xff".to_vec());
    let operator = Operator::new()?;
    assert!(finish(operator.command("check-config").env("OF_ANOTHER_PROGRAM", &odd))?.success);
    for name in ["SERVICED_MAIL_PASSWORD", "SERVICED_BASE_URL"] {
        check_refused(&finish(operator.command("check-config").env(name, &odd))?, &[name, "is not text"])?;
    }
    Ok(())
}

#[test]
fn every_problem_of_the_brand_is_reported_at_once_fh_13() -> Result<()> {
    let operator = Operator::new()?;
    let logo = operator.file("logo.svg", "<svg><script>alert(1)</script></svg>")?;
    let file = format!(
        "[brand]\nname = \"<b>Acme</b>\"\nlogo = \"{logo}\"\ncolor = \"green\"\nsupport_url = \"http://acme.test\"\n\
         support_email = \"help\"\nprivacy_url = \"javascript:alert(1)\"\nterms_url = \"/terms\"\n\
         [mail]\ncode_in_subject = \"maybe\"\n"
    );
    let outcome = operator.check(Some(&file), &[])?;
    let expected = [
        "brand.name `<b>Acme</b>`",
        "brand.logo `",
        "brand.color `green`",
        "brand.support_url `http://acme.test`",
        "brand.support_email `help`",
        "brand.privacy_url `javascript:alert(1)`",
        "brand.terms_url `/terms`",
        "mail.code_in_subject `maybe`",
    ];
    check_refused(&outcome, &expected)
}
