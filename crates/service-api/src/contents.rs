//! What lives in spaces: projects, packs, playbooks, cases and records. Five kinds, one form.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Timestamp, ids::WorkspaceId, instant, scope::Resource, workspaces::ContentScope};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Project,
    Pack,
    Playbook,
    Case,
    Record,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Project, Self::Pack, Self::Playbook, Self::Case, Self::Record];

    /// What its ids begin with.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Project => "proj",
            Self::Pack => "pack",
            Self::Playbook => "play",
            Self::Case => "case",
            Self::Record => "rec",
        }
    }

    /// What one is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Project => "Project",
            Self::Pack => "Pack",
            Self::Playbook => "Playbook",
            Self::Case => "Case",
            Self::Record => "Record",
        }
    }

    #[must_use]
    pub const fn resource(self) -> Resource {
        match self {
            Self::Project => Resource::Projects,
            Self::Pack => Resource::Packs,
            Self::Playbook => Resource::Playbooks,
            Self::Case => Resource::Cases,
            Self::Record => Resource::Records,
        }
    }

    /// What can be said of it, beside where it lives.
    #[must_use]
    pub const fn fields(self) -> &'static [Field] {
        match self {
            Self::Project => PROJECT,
            Self::Pack => PACK,
            Self::Playbook => PLAYBOOK,
            Self::Case => CASE,
            Self::Record => RECORD,
        }
    }
}

/// Types of packs that there are.
pub const PACK_TYPES: [&str; 3] = ["context", "reference", "template"];
pub const MAX_NAME: usize = 200;
pub const MAX_TEXT: usize = 20_000;

/// One thing that can be said of a content.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub form: Form,
    pub required: bool,
}

/// What a value must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// 1 to [`MAX_NAME`] characters on one line.
    Name,
    /// Up to [`MAX_TEXT`] characters.
    Text,
    /// One of [`PACK_TYPES`].
    PackType,
    /// A JSON object.
    Object,
    /// `YYYY-MM-DD`.
    Date,
}

const fn field(name: &'static str, form: Form, required: bool) -> Field {
    Field { name, form, required }
}

const NAME: Field = field("name", Form::Name, true);
const PROJECT: &[Field] = &[NAME, field("description", Form::Text, false)];
const PACK: &[Field] = &[NAME, field("type", Form::PackType, true), field("text", Form::Text, false)];
const PLAYBOOK: &[Field] = &[NAME, field("definition", Form::Object, false)];
const CASE: &[Field] = &[NAME, field("inputs", Form::Object, false), field("dueOn", Form::Date, false)];
const RECORD: &[Field] = &[NAME, field("data", Form::Object, false), field("recordedOn", Form::Date, false)];

/// One content of any kind.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    pub id: String,
    /// Where it lives; not an OAuth scope.
    pub scope: ContentScope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    #[serde(with = "instant::Written")]
    pub updated_at: Timestamp,
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}
