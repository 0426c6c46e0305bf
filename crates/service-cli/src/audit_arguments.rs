//! The arguments of `service audit`.

use clap::Args;

#[derive(Args)]
#[command(after_help = "Examples:
  service audit --limit 20
  service audit --workspace-id personal --event cli_token.created
  service audit --since 2027-01-15 --json --jq '.events[].event'")]
pub(crate) struct AuditArgs {
    /// Number of events to list, newest first (max 10000)
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) limit: u16,
    /// Only list events with this name, such as `cli_token.created`
    #[arg(long, value_name = "NAME")]
    pub(crate) event: Option<String>,
    /// Only list events about this user
    #[arg(long, value_name = "USER-ID")]
    pub(crate) user: Option<String>,
    /// Only list events since this date or time, such as 2027-01-15 or 2027-01-15T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only list events before this date or time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Continue a list: `nextCursor` of its JSON
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}
