//! `/mcp`: the protocol, the tools, and who may use them.

mod protocol;
mod tools;
