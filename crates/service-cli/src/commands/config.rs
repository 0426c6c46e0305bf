//! `service config`: lists and changes the settings of the command.

use serde_json::json;
use service_client::lock_all;

use crate::{
    config_arguments::ConfigCommand,
    context::{Context, session_failed},
    credentials::display_path,
    environment::Environment,
    failure::{Failure, FailureCode},
    settings::{Setting, Settings},
    table::{Cell, Table},
};

/// A value that applies, and where it is set.
struct Effective {
    value: Option<String>,
    source: &'static str,
}

pub(super) async fn run(context: &Context, command: ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::List(_) => list(context),
        ConfigCommand::Get(arguments) => get(context, arguments.setting),
        ConfigCommand::Set(arguments) => set(context, arguments.setting, &arguments.value).await,
        ConfigCommand::Unset(arguments) => unset(context, &arguments.settings).await,
        ConfigCommand::Path(_) => {
            let path = display_path(&Settings::path(&context.environment)?);
            context.output.result(&json!({ "path": path }), &path)
        }
    }
}

fn list(context: &Context) -> Result<(), Failure> {
    let (file, variables) = (Settings::read(&context.environment)?, Environment::read());
    let mut table = Table::new(&["SETTING", "VALUE", "SOURCE"]);
    let mut entries = Vec::new();
    for setting in Setting::ALL {
        let Effective { value, source } = find(setting, &file, &variables);
        let shown = match source {
            "environment" => setting.variable(),
            source => source,
        };
        table.add_row([
            Cell::text(setting.name()),
            Cell::pair(value.as_deref().unwrap_or("-"), value.as_deref().unwrap_or_default()),
            Cell::pair(shown, source),
        ]);
        entries.push(json!({ "name": setting.name(), "value": value, "source": source }));
    }
    let path = display_path(&Settings::path(&context.environment)?);
    context.output.result(&json!({ "settings": entries, "path": path }), &table.render(&context.output))
}

fn get(context: &Context, setting: Setting) -> Result<(), Failure> {
    let Effective { value, source } = find(setting, &Settings::read(&context.environment)?, &Environment::read());
    let name = setting.name();
    let value = value.ok_or_else(|| {
        Failure::new(FailureCode::NotFound, format!("The setting {name} isn't set."))
            .hint(format!("service config set {name} <value>"))
    })?;
    context.output.result(&json!({ "name": name, "value": value, "source": source }), &value)
}

async fn set(context: &Context, setting: Setting, value: &str) -> Result<(), Failure> {
    let name = setting.name();
    let value = setting.check(value).map_err(|why| Failure::new(FailureCode::Usage, format!("{name} {why}.")))?;
    change(context, |settings| settings.set(setting, value.clone())).await?;
    context.output.success(&format!("Set {name} to {value}."));
    warn_if_overridden(context, setting);
    context.output.result(&json!({ "name": name, "value": value }), "")
}

async fn unset(context: &Context, settings: &[Setting]) -> Result<(), Failure> {
    let mut removed = Vec::new();
    change(context, |file| removed.extend(settings.iter().filter(|setting| file.unset(**setting)))).await?;
    for setting in settings {
        let name = setting.name();
        if removed.contains(setting) {
            context.output.success(&format!("Removed {name}."));
        } else {
            context.output.info(&format!("{name} isn't set."));
        }
        warn_if_overridden(context, *setting);
    }
    let removed: Vec<_> = removed.into_iter().map(Setting::name).collect();
    context.output.result(&json!({ "removed": removed }), "")
}

/// Changes the file, under a lock, so that concurrent changes are not lost.
async fn change(context: &Context, change: impl FnOnce(&mut Settings)) -> Result<(), Failure> {
    let environment = &context.environment;
    let locks = lock_all(vec![Settings::lock(environment)?]).await.map_err(session_failed)?;
    let mut settings = Settings::read(environment)?;
    change(&mut settings);
    let written = settings.write(environment);
    drop(locks);
    written
}

/// Finds the value that applies: of the environment variable, of the file, or the default.
fn find(setting: Setting, file: &Settings, variables: &Environment) -> Effective {
    let variable = match setting {
        Setting::ApiUrl => variables.api_url.clone(),
        Setting::Browser => variables.browser.clone(),
        Setting::CredentialStore => variables.credential_store.clone(),
        Setting::NoInput => variables.no_input.then(|| "true".to_owned()),
        Setting::Profile => variables.profile.clone(),
    };
    if variable.is_some() {
        return Effective { value: variable, source: "environment" };
    }
    match file.get(setting) {
        Some(value) => Effective { value: Some(value.to_owned()), source: "file" },
        None => Effective { value: setting.default_value().map(str::to_owned), source: "default" },
    }
}

/// Warns that an environment variable overrides the file.
fn warn_if_overridden(context: &Context, setting: Setting) {
    if find(setting, &Settings::default(), &Environment::read()).source == "environment" {
        context.output.warn(&format!("{} is set and overrides it.", setting.variable()));
    }
}
