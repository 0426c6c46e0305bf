//! The arguments of `service project` and `service pack` that create, show, change and delete.

use clap::{ArgGroup, Args, Subcommand};
use service_api::contents::PACK_TYPES;

#[derive(Subcommand)]
pub(crate) enum ProjectContentCommand {
    /// Create a project
    Create(CreateProjectArgs),
    /// Show a project
    View(ViewProjectArgs),
    /// Change a project
    Edit(EditProjectArgs),
    /// Delete projects (can be restored for 30 days)
    Delete(DeleteProjectArgs),
}

#[derive(Subcommand)]
pub(crate) enum PackContentCommand {
    /// List packs
    #[command(visible_alias = "ls")]
    List(ListPacksArgs),
    /// Create a pack
    Create(CreatePackArgs),
    /// Show a pack
    View(ViewPackArgs),
    /// Change a pack
    Edit(EditPackArgs),
    /// Delete packs (can be restored for 30 days)
    Delete(DeletePackArgs),
}

#[derive(Args)]
#[command(after_help = "Examples:
  service project create Garden --description \"Beds and paths\"
  service project create Garden --description-file notes.txt --json")]
pub(crate) struct CreateProjectArgs {
    /// Name of the project
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) description: DescriptionOptions,
}

#[derive(Args)]
#[command(group = ArgGroup::new("changes").required(true).multiple(true)
    .args(["name", "description", "description_file"]))]
#[command(after_help = "Examples:
  service project edit proj_01m955vw00fjqrz47smcqrkmzz --name Orchard
  service project edit proj_01m955vw00fjqrz47smcqrkmzz --description-file notes.txt --if-match 3")]
pub(crate) struct EditProjectArgs {
    /// Project to change
    #[arg(value_name = "PROJECT-ID")]
    pub(crate) id: String,
    /// New name
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) description: DescriptionOptions,
    #[command(flatten)]
    pub(crate) precondition: PreconditionOption,
}

#[derive(Args)]
#[command(after_help = "Examples:
  service project view proj_01m955vw00fjqrz47smcqrkmzz
  service project view proj_01m955vw00fjqrz47smcqrkmzz --jq .project.description")]
pub(crate) struct ViewProjectArgs {
    /// Project to show
    #[arg(value_name = "PROJECT-ID")]
    pub(crate) id: String,
}

#[derive(Args)]
#[command(after_help = "Examples:
  service project delete proj_01m955vw00fjqrz47smcqrkmzz
  service project delete proj_01m955vw00fjqrz47smcqrkmzz --yes")]
pub(crate) struct DeleteProjectArgs {
    /// Projects to delete
    #[arg(required = true, value_name = "PROJECT-ID")]
    pub(crate) ids: Vec<String>,
}

#[derive(Args)]
#[command(after_help = "Examples:
  service pack list
  service pack list --jq '.packs[] | select(.type == \"template\") | .id'")]
pub(crate) struct ListPacksArgs {}

#[derive(Args)]
#[command(after_help = "Examples:
  service pack create \"Refund policy\" --text-file policy.md
  service pack create Letter --type template --text \"Dear …\"")]
pub(crate) struct CreatePackArgs {
    /// Name of the pack
    pub(crate) name: String,
    /// Type of the pack
    #[arg(long = "type", default_value = "context", value_name = "TYPE", value_parser = PACK_TYPES)]
    pub(crate) pack_type: String,
    #[command(flatten)]
    pub(crate) text: TextOptions,
}

#[derive(Args)]
#[command(group = ArgGroup::new("changes").required(true).multiple(true).args(["name", "pack_type", "text", "text_file"]))]
#[command(after_help = "Examples:
  service pack edit pack_01m955vw00fjqrz47smcqrkmzz --name \"Refund policy 2027\"
  service pack edit pack_01m955vw00fjqrz47smcqrkmzz --text-file policy.md --if-match 3")]
pub(crate) struct EditPackArgs {
    /// Pack to change
    #[arg(value_name = "PACK-ID")]
    pub(crate) id: String,
    /// New name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// New type
    #[arg(long = "type", value_name = "TYPE", value_parser = PACK_TYPES)]
    pub(crate) pack_type: Option<String>,
    #[command(flatten)]
    pub(crate) text: TextOptions,
    #[command(flatten)]
    pub(crate) precondition: PreconditionOption,
}

#[derive(Args)]
#[command(after_help = "Examples:
  service pack view pack_01m955vw00fjqrz47smcqrkmzz
  service pack view pack_01m955vw00fjqrz47smcqrkmzz --jq .pack.text > policy.md")]
pub(crate) struct ViewPackArgs {
    /// Pack to show
    #[arg(value_name = "PACK-ID")]
    pub(crate) id: String,
}

#[derive(Args)]
#[command(after_help = "Examples:
  service pack delete pack_01m955vw00fjqrz47smcqrkmzz
  service pack delete pack_01m955vw00fjqrz47smcqrkmzz --yes")]
pub(crate) struct DeletePackArgs {
    /// Packs to delete
    #[arg(required = true, value_name = "PACK-ID")]
    pub(crate) ids: Vec<String>,
}

/// The description of a project, from an argument or a file.
#[derive(Args)]
pub(crate) struct DescriptionOptions {
    /// Description
    #[arg(long, value_name = "TEXT", conflicts_with = "description_file")]
    pub(crate) description: Option<String>,
    /// File with the description (- for stdin)
    #[arg(long, value_name = "FILE")]
    pub(crate) description_file: Option<String>,
}

/// The text of a pack, from an argument or a file.
#[derive(Args)]
pub(crate) struct TextOptions {
    /// Text
    #[arg(long, conflicts_with = "text_file")]
    pub(crate) text: Option<String>,
    /// File with the text (- for stdin)
    #[arg(long, value_name = "FILE")]
    pub(crate) text_file: Option<String>,
}

#[derive(Args)]
pub(crate) struct PreconditionOption {
    /// Only change this version, as `view` shows it
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    pub(crate) if_match: Option<String>,
}

/// Accepts a version with or without the quotes that it has in an `ETag`.
fn parse_version(text: &str) -> Result<String, String> {
    let version = text.trim_start_matches("W/").trim_matches('"');
    if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(version.to_owned());
    }
    Err("use a version such as 3".to_owned())
}
