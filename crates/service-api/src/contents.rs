//! Contents of a space: projects, packs, playbooks, cases and records. All kinds have the same form.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    JsonObject, Timestamp,
    endpoints::{ContentOperations, content_texts},
    ids::{UserId, WorkspaceId},
    instant,
    scope::Resource,
    workspaces::ContentScope,
};

/// Declares the kinds: name, singular and plural, prefix of its ids, resource of its scopes, fields.
macro_rules! kinds {
    ($($kind:ident: $name:literal $one:literal $many:literal, $prefix:literal, $resource:ident, $fields:expr;)*) => {
        /// A kind of content.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($kind,)*
        }

        impl Kind {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kind),*];

            /// The prefix of its ids: `proj` in `proj_01h2…`.
            #[must_use]
            pub const fn prefix(self) -> &'static str {
                match self {
                    $(Self::$kind => $prefix,)*
                }
            }

            /// Its name in the singular, capitalized.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// The resource that scopes for it name.
            #[must_use]
            pub const fn resource(self) -> Resource {
                match self {
                    $(Self::$kind => Resource::$resource,)*
                }
            }

            /// The fields that a caller sets.
            #[must_use]
            pub const fn fields(self) -> &'static [Field] {
                match self {
                    $(Self::$kind => const { $fields },)*
                }
            }

            pub(crate) const fn operations(self) -> &'static ContentOperations {
                match self {
                    $(Self::$kind => const { &ContentOperations::new(Self::$kind, &content_texts!($name, $one, $many)) },)*
                }
            }
        }
    };
}

// A new kind is a line here, a type and a route in the server, and a migration.
kinds! {
    Project: "Project" "project" "projects", "proj", Projects,
        &[NAME, field("description", Form::Text, "What the project is about.")];
    Pack: "Pack" "pack" "packs", "pack", Packs,
        &[NAME, field("type", Form::PackType, "The type of the pack.").required(), field("text", Form::Text, "The text of the pack.")];
    Playbook: "Playbook" "playbook" "playbooks", "play", Playbooks,
        &[NAME, field("definition", Form::Object, "The definition: any JSON object.")];
    Case: "Case" "case" "cases", "case", Cases,
        &[NAME, field("inputs", Form::Object, "The inputs: any JSON object."), field("dueOn", Form::Date, "The due date.")];
    Record: "Record" "record" "records", "rec", Records,
        &[NAME, field("data", Form::Object, "The data: any JSON object."), field("recordedOn", Form::Date, "The date of the record.")];
}

/// The types of packs.
pub const PACK_TYPES: [&str; 3] = ["context", "reference", "template"];
/// The maximum length of a name, in characters.
pub const MAX_NAME: usize = 200;
/// The maximum length of a text, in characters.
pub const MAX_TEXT: usize = 20_000;

/// A field of a content.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub form: Form,
    pub required: bool,
    /// What the field is, in a sentence.
    pub about: &'static str,
}

impl Field {
    const fn required(self) -> Self {
        Self { required: true, ..self }
    }
}

/// The type of a field's value.
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

/// An optional field.
const fn field(name: &'static str, form: Form, about: &'static str) -> Field {
    Field { name, form, required: false, about }
}

const NAME: Field = field("name", Form::Name, "The name, on one line.").required();

/// A content of any kind.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    pub id: String,
    /// Whether it is in personal space or in a workspace. Not an OAuth scope.
    pub scope: ContentScope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    #[serde(with = "instant::Written")]
    pub updated_at: Timestamp,
    /// The fields of its kind ([`Kind::fields`]).
    #[serde(flatten)]
    pub fields: JsonObject,
}

impl Content {
    /// The name; empty if there is none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.fields.get("name").and_then(Value::as_str).unwrap_or_default()
    }
}

/// A deleted content that can still be restored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletedContent {
    #[serde(flatten)]
    pub content: Content,
    #[serde(with = "instant::Written")]
    pub deleted_at: Timestamp,
    pub deleted_by: UserId,
    /// When it can no longer be restored.
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
}
