//! Ids in a path.

use std::{borrow::Cow, convert::Infallible};

use axum::{extract::FromRequestParts, http::request::Parts};
use percent_encoding::percent_decode_str;

/// The variable segments of a path, as they were sent.
#[derive(Clone)]
pub struct PathVariables(Vec<String>);

impl PathVariables {
    /// `None`: the path has no variable segments.
    pub(super) fn of(parameters: &matchit::Params<'_, '_>) -> Option<Self> {
        (!parameters.is_empty()).then(|| Self(parameters.iter().map(|(_, value)| value.to_owned()).collect()))
    }

    /// The segment at a place. One that cannot be decoded, or that there is not, is empty.
    fn at(parts: &Parts, place: usize) -> String {
        let sent = parts.extensions.get().and_then(|Self(values)| values.get(place));
        let decoded = sent.and_then(|text| percent_decode_str(text).decode_utf8().ok());
        decoded.map(Cow::into_owned).unwrap_or_default()
    }
}

/// The variable segment of a path. One that cannot be decoded is empty, and identifies nothing.
pub struct PathId(pub String);

impl<S: Sync> FromRequestParts<S> for PathId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(PathVariables::at(parts, 0)))
    }
}

/// The two variable segments of a path.
pub struct PathIds(pub String, pub String);

impl<S: Sync> FromRequestParts<S> for PathIds {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(PathVariables::at(parts, 0), PathVariables::at(parts, 1)))
    }
}
