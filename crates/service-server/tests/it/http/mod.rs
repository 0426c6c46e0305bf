//! HTTP: bodies, framing, limits and the shape of errors.

pub(crate) mod bodies;
pub(crate) mod conventions;
pub(crate) mod errors;
pub(crate) mod floods;
pub(crate) mod framing;
pub(crate) mod limits;
pub(crate) mod request_claims;
