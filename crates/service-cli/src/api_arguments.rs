//! The arguments of `service api` that make up the request, beyond its method and path.

use clap::Args;

#[derive(Args)]
#[command(after_help = "Examples:
  service api GET /v1/projects --paginate --jq '.data[].name'
  service api POST /v1/projects -f name=Garden
  service api POST /v1/cases -f name=Audit -F inputs='{\"year\":2027}'")]
pub(crate) struct RequestFields {
    /// Add a string field: to the body, or to the query of GET and DELETE (repeatable; a[b]=… nests, a[]=… makes a list)
    #[arg(long, short = 'f', value_name = "KEY=VALUE", conflicts_with = "input")]
    pub(crate) raw_field: Vec<String>,
    /// Add a field whose value is JSON, other text, or @FILE for the text of a file (@- for stdin)
    #[arg(long, short = 'F', value_name = "KEY=VALUE", conflicts_with = "input")]
    pub(crate) field: Vec<String>,
    /// Read every page of a list (GET only; --jq filters each page)
    #[arg(long)]
    pub(crate) paginate: bool,
}
