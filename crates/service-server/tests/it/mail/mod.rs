//! Mail: what it says and how it is sent.

pub(crate) mod bounces;
pub(crate) mod content;
pub(crate) mod transport;
