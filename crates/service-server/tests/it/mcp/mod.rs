//! `/mcp`: the protocol, the tools, and who may use them.

mod asking;
mod guard;
mod load;
mod protocol;
mod resources;
mod tools;
mod traps;
