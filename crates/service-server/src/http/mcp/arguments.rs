//! The arguments of a tool call, read strictly.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use service_api::page::{DEFAULT_LIMIT, MAX_LIMIT};
use service_rules::space::Requested;

use crate::{
    http::errors::{ApiError, MalformedRequest},
    pagination::PageRequest,
};

/// The arguments of one call.
pub(super) struct Arguments(Map<String, Value>);

/// The arguments that choose a page of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageArguments {
    #[serde(default)]
    limit: Option<u16>,
    #[serde(default)]
    cursor: Option<String>,
}

impl PageArguments {
    pub(super) fn page(&self) -> Result<PageRequest<'_>, ApiError> {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(refused(format!("limit must be a number from 1 to {MAX_LIMIT}.")));
        }
        Ok(PageRequest { limit, cursor: self.cursor.as_deref() })
    }
}

impl Arguments {
    pub(super) fn new(arguments: Option<Map<String, Value>>) -> Self {
        Self(arguments.unwrap_or_default())
    }

    /// Takes an argument that is a text, if it is there.
    pub(super) fn take_text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(refused(format!("{name} must be a string."))),
        }
    }

    /// Takes an argument that is a text and has to be there.
    pub(super) fn take_required(&mut self, name: &str) -> Result<String, ApiError> {
        self.take_text(name)?.ok_or_else(|| refused(format!("{name} is missing.")))
    }

    /// Takes the space that the call names. `of_url`: the space that the URL names.
    pub(super) fn take_space(&mut self, of_url: Requested) -> Result<Requested, ApiError> {
        let text = self.take_text("workspaceId")?;
        let named = Requested::parse(text.as_deref())
            .ok_or_else(|| refused("workspaceId must be a workspace ID or `personal`.".into()))?;
        match (named, of_url) {
            (Requested::Nothing, _) => Ok(of_url),
            (_, Requested::Nothing) => Ok(named),
            _ if named == of_url => Ok(named),
            _ => Err(refused("workspaceId names another space than the URL of this connection. Leave it out.".into())),
        }
    }

    /// Whether the call names no space.
    pub(super) fn names_no_space(&self) -> bool {
        !self.0.contains_key("workspaceId") && !self.0.contains_key("scope")
    }

    /// Sets the space that the user chose.
    pub(super) fn set_space(&mut self, space: &Value) {
        self.0.insert("workspaceId".into(), space.clone());
    }

    /// The arguments that are left, as one of our types.
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<T, ApiError> {
        Ok(crate::http::body::typed(Value::Object(self.0))?)
    }

    /// The arguments that are left, as the body of a content.
    pub(super) fn into_fields(self) -> Map<String, Value> {
        self.0
    }

    /// Fails if an argument is left.
    pub(super) fn finish(self) -> Result<(), ApiError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(refused("An argument is unknown. See the tool's input schema.".into()))
        }
    }
}

fn refused(text: String) -> ApiError {
    MalformedRequest::Body(text).into()
}
