//! The suite's tools that answer at once.

use std::time::Duration;

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolResult, ClientCapabilities, ProgressNotificationParam, Tool},
    service::RequestContext,
};
use serde_json::{Value, json};

use super::{complete, parse};

/// A PNG of one red pixel.
pub(super) const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
/// A WAV without samples.
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

/// The tools without arguments, each with what it does.
const PLAIN: [(&str, &str); 18] = [
    ("test_simple_text", "Returns a text"),
    ("test_image_content", "Returns an image"),
    ("test_audio_content", "Returns a sound"),
    ("test_embedded_resource", "Returns a resource"),
    ("test_multiple_content_types", "Returns a text, an image and a resource"),
    ("test_error_handling", "Fails"),
    ("test_tool_with_progress", "Reports progress, if asked to"),
    ("test_missing_capability", "Needs a client that can sample"),
    ("test_streaming_elicitation", "Sends nothing that is a request on its own"),
    ("test_logging_tool", "Sends no log message, because no client asks for any"),
    ("test_input_required_result_elicitation", "Asks the user for a name"),
    ("test_input_required_result_sampling", "Asks the model for a capital"),
    ("test_input_required_result_list_roots", "Asks the client for its roots"),
    ("test_input_required_result_request_state", "Asks for a confirmation, with state"),
    ("test_input_required_result_multiple_inputs", "Asks for three things at once"),
    ("test_input_required_result_multi_round", "Asks twice, one after the other"),
    ("test_input_required_result_tampered_state", "Refuses a state that was changed"),
    ("test_input_required_result_capabilities", "Asks only for what the client can do"),
];

pub(super) fn all() -> Result<Vec<Tool>, ErrorData> {
    let nothing = json!({ "type": "object", "properties": {} });
    let plain = PLAIN.iter().map(|(name, what)| json!({ "name": name, "description": what, "inputSchema": nothing }));
    plain.chain([json_schema(), custom_headers()]).map(parse).collect()
}

/// A tool whose schema uses words of JSON Schema 2020-12 that servers tend to lose.
fn json_schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "name": "json_schema_2020_12_tool",
        "description": "Has a schema of many words",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": { "address": {
                "$anchor": "addressDef", "type": "object", "properties": { "street": text, "city": text },
            } },
            "properties": {
                "name": text,
                "address": { "$ref": "#/$defs/address" },
                "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                "phone": text,
                "email": text,
            },
            "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
            "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
            "then": { "required": ["phone"] },
            "else": { "required": ["email"] },
            "additionalProperties": false,
        },
    })
}

/// A tool with an argument that the client repeats in a header.
fn custom_headers() -> Value {
    json!({
        "name": "test_custom_headers",
        "description": "Has an argument that is also a header",
        "inputSchema": {
            "type": "object",
            "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
        },
    })
}

/// Calls a tool that needs no input, unless the name is none of ours.
pub(super) async fn call(
    name: &str,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResult, ErrorData>> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = json!({ "type": "image", "data": PIXEL, "mimeType": "image/png" });
    let content = match name {
        "test_simple_text" => json!([text("This is a simple text response for testing.")]),
        "test_image_content" => json!([image]),
        "test_audio_content" => json!([{ "type": "audio", "data": SILENCE, "mimeType": "audio/wav" }]),
        "test_embedded_resource" => {
            json!([embedded("test://embedded-resource", "text/plain", "An embedded resource.")])
        }
        "test_multiple_content_types" => json!([
            text("Multiple content types test:"),
            image,
            embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ]),
        "test_error_handling" => {
            let content = json!([text("This tool intentionally returns an error for testing")]);
            return Some(complete(json!({ "content": content, "isError": true })));
        }
        "test_tool_with_progress" => {
            report_progress(context).await;
            json!([text("It is done.")])
        }
        "test_missing_capability" => {
            let able = context.client_capabilities().is_some_and(|able| able.sampling.is_some());
            if !able {
                return Some(needs_sampling());
            }
            json!([text("The client can sample.")])
        }
        "test_streaming_elicitation" | "test_logging_tool" => json!([text("It is done.")]),
        "json_schema_2020_12_tool" | "test_custom_headers" => json!([text("The arguments are understood.")]),
        _ => return None,
    };
    Some(complete(json!({ "content": content })))
}

fn embedded(uri: &str, mime_type: &str, text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime_type, "text": text } })
}

fn needs_sampling() -> Result<CallToolResult, ErrorData> {
    let required: ClientCapabilities = parse(json!({ "sampling": {} }))?;
    Err(ErrorData::missing_required_client_capability(required))
}

/// Sends three notifications, if the client named a token for them.
async fn report_progress(context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else { return };
    for progress in [0.0, 50.0, 100.0] {
        let step = ProgressNotificationParam::new(token.clone(), progress).with_total(100.0);
        // A client that left does not want to know.
        drop(context.peer.notify_progress(step).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
