//! The arguments of `service token rotate`.

use clap::Args;

use crate::arguments::TokenFormat;

#[derive(Args)]
#[command(after_help = "Examples:
  service token rotate clit_01m955vw00fjqrz47smcqrkmzz
  service token rotate clit_01m955vw00fjqrz47smcqrkmzz --overlap-hours 24 > token.txt")]
pub(crate) struct RotateTokenArgs {
    /// Token to replace
    #[arg(value_name = "TOKEN-ID")]
    pub(crate) id: String,
    /// Hours for which the old token still works (max 72) [default: 0]
    #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(i64).range(0..=72))]
    pub(crate) overlap_hours: Option<i64>,
    /// How to print the new one
    #[arg(long, default_value = "raw")]
    pub(crate) format: TokenFormat,
}
