//! CLI tokens and MCP tokens: issuing them, and what happens when one leaks or is pasted into content.

pub mod cli_tokens;
pub mod exposed;
pub mod issuer;
pub mod leaks;
pub mod mcp_tokens;
