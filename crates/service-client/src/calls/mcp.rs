//! MCP messages. Programs that are MCP clients use an MCP library instead; this is for those that send one message.

use serde_json::Value;
use service_api::{endpoints, token::AccessToken};

use crate::{Client, Error};

impl Client {
    /// Sends a JSON-RPC request to `/mcp`, and returns the JSON-RPC response. The token must be for MCP.
    ///
    /// # Errors
    /// [`Error::Refused`] if the token is not accepted or lacks the scope of the tool. An error of a tool is in the response.
    pub async fn send_mcp(&self, token: &AccessToken, message: &Value) -> Result<Value, Error> {
        let both = "application/json, text/event-stream";
        self.call_with(&endpoints::MCP, &[], message).header("accept", both).bearer(token).send().await
    }
}
