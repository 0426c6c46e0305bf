//! The endpoint of MCP clients.

use serde_json::Value;

use super::{
    Access,
    operation::{operations, post},
};
use crate::openapi::Shape;

operations! {
    /// Send an MCP message (JSON-RPC 2.0, streamable HTTP)
    MCP(Mcp, "mcp"): Value => Value =
        post("/mcp", Access::Mcp)
            .query(&["workspaceId"])
            .takes_shape(Shape::Standard)
            .returns_shape(200, Shape::Standard);
}
