//! Refresh tokens: verdicts, races, growth.

pub(crate) mod batches;
pub(crate) mod growth;
pub(crate) mod races;
pub(crate) mod sequences;
pub(crate) mod standing;
pub(crate) mod verdicts;
