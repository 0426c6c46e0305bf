//! The arguments of `service config`.

use clap::{Args, Subcommand};

use crate::settings::Setting;

#[derive(Subcommand)]
#[command(after_help = "Examples:
  service config list
  service config set api-url https://service.example")]
pub(crate) enum ConfigCommand {
    /// List settings, their values and where these are set
    #[command(visible_alias = "ls")]
    List(ListSettingsArgs),
    /// Print the value of a setting
    Get(GetSettingArgs),
    /// Change a setting
    Set(SetSettingArgs),
    /// Remove settings, so that their defaults apply
    Unset(UnsetSettingsArgs),
    /// Print the path of the settings file
    Path(SettingsPathArgs),
}

#[derive(Args)]
#[command(after_help = "Examples:
  service config list
  service config list --jq '.settings[] | select(.source == \"file\") | .name'")]
pub(crate) struct ListSettingsArgs {}

#[derive(Args)]
#[command(after_help = "Examples:
  service config get browser")]
pub(crate) struct GetSettingArgs {
    /// Setting to print
    pub(crate) setting: Setting,
}

#[derive(Args)]
#[command(after_help = "Examples:
  service config set api-url https://service.example
  service config set browser \"firefox --private-window\"
  service config set credential-store file")]
pub(crate) struct SetSettingArgs {
    /// Setting to change
    pub(crate) setting: Setting,
    /// New value
    pub(crate) value: String,
}

#[derive(Args)]
#[command(after_help = "Examples:
  service config unset browser")]
pub(crate) struct UnsetSettingsArgs {
    /// Settings to remove
    #[arg(required = true)]
    pub(crate) settings: Vec<Setting>,
}

#[derive(Args)]
#[command(after_help = "Examples:
  service config path")]
pub(crate) struct SettingsPathArgs {}
