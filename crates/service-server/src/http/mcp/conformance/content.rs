//! The suite's prompts and resources.

use rmcp::{
    ErrorData,
    model::{
        GetPromptRequestParams, GetPromptResponse, GetPromptResult, Prompt, ReadResourceResult, Resource,
        ResourceTemplate,
    },
};
use serde_json::{Value, json};

use super::{complete, input, parse, tools::PIXEL};

pub(super) fn prompts() -> Result<Vec<Prompt>, ErrorData> {
    let argument = |name: &str| json!({ "name": name, "description": "A text", "required": true });
    let all = [
        ("test_simple_prompt", json!([])),
        ("test_prompt_with_arguments", json!([argument("arg1"), argument("arg2")])),
        ("test_prompt_with_embedded_resource", json!([argument("resourceUri")])),
        ("test_prompt_with_image", json!([])),
        ("test_input_required_result_prompt", json!([])),
    ];
    let written = |(name, arguments)| json!({ "name": name, "description": "For the suite", "arguments": arguments });
    all.map(written).into_iter().map(parse).collect()
}

/// Fills in a prompt, unless the name is none of ours.
pub(super) fn prompt(request: &GetPromptRequestParams) -> Option<Result<GetPromptResponse, ErrorData>> {
    let says = |content: Value| json!({ "role": "user", "content": content });
    let text = |text: &str| says(json!({ "type": "text", "text": text }));
    let argument = |name: &str| request.arguments.as_ref().and_then(|all| all.get(name)?.as_str()).unwrap_or_default();
    let messages = match request.name.as_str() {
        "test_simple_prompt" => json!([text("This is a simple prompt for testing.")]),
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            json!([text(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))])
        }
        "test_prompt_with_embedded_resource" => {
            let uri = argument("resourceUri");
            let resource = json!({ "uri": uri, "mimeType": "text/plain", "text": "An embedded resource." });
            json!([
                says(json!({ "type": "resource", "resource": resource })),
                text("Please process the resource above.")
            ])
        }
        "test_prompt_with_image" => {
            let image = json!({ "type": "image", "data": PIXEL, "mimeType": "image/png" });
            json!([says(image), text("Please analyze the image above.")])
        }
        "test_input_required_result_prompt" => {
            if !input::has_all(request.input_responses.as_ref(), ["user_context"]) {
                let asked = input::form("What context should the prompt use?", "context", "string");
                return Some(input::required(vec![("user_context", asked)], None).map(GetPromptResponse::from));
            }
            json!([text("This prompt has its context.")])
        }
        _ => return None,
    };
    Some(complete::<GetPromptResult>(json!({ "messages": messages })).map(GetPromptResponse::from))
}

pub(super) fn resources() -> Result<Vec<Resource>, ErrorData> {
    let all = [("test://static-text", "text/plain"), ("test://static-binary", "image/png")];
    let written =
        |(uri, mime_type)| json!({ "uri": uri, "name": uri, "description": "For the suite", "mimeType": mime_type });
    all.map(written).into_iter().map(parse).collect()
}

pub(super) fn templates() -> Result<Vec<ResourceTemplate>, ErrorData> {
    let template = json!({
        "uriTemplate": "test://template/{id}/data",
        "name": "test-template",
        "description": "For the suite",
        "mimeType": "application/json",
    });
    Ok(vec![parse(template)?])
}

/// Reads a resource, unless the address is none of ours.
pub(super) fn resource(uri: &str) -> Option<Result<ReadResourceResult, ErrorData>> {
    let contents = match uri {
        "test://static-text" => json!({ "uri": uri, "mimeType": "text/plain", "text": "This is a static text." }),
        "test://static-binary" => json!({ "uri": uri, "mimeType": "image/png", "blob": PIXEL }),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let text = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            json!({ "uri": uri, "mimeType": "application/json", "text": text.to_string() })
        }
    };
    Some(complete(json!({ "contents": [contents] })))
}
