//! MCP token pairs.

pub(crate) mod asleep;
pub(crate) mod pairs;
