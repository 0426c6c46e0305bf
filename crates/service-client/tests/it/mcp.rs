//! What the client makes of each response of the MCP endpoint.

use anyhow::{Context as _, Result};
use service_api::{errors::ErrorCode, token::AccessToken};
use service_client::{Client, Error};

use crate::scripted::Scripted;

async fn answering(responses: &'static [(u16, &'static str)], header: &str) -> Result<Scripted> {
    Scripted::start_with(responses, header.to_owned()).await
}

/// Posts one message to a server, and reads every message of the response.
async fn post(server: &Scripted) -> Result<Vec<String>, Error> {
    let (client, token) = (Client::new(&server.url)?, AccessToken::new("a.b.c".to_owned()));
    let read = async {
        let mut response = client.post_mcp(&token, b"{}".to_vec(), &[("mcp-method", "ping")]).await?;
        let mut messages = Vec::new();
        while let Some(message) = response.next().await? {
            messages.push(String::from_utf8_lossy(&message).into_owned());
        }
        Ok(messages)
    };
    let result = read.await;
    assert_eq!(server.asked(), 1, "a message was sent twice");
    result
}

const STREAM: &str = "id: 0\ndata:\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n\
                  data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";
const UNKNOWN: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}"#;
const LIMITED: &str = r#"{"error":"rate_limited","error_description":"x","request_id":"req_1"}"#;
const SCOPE: &str = r#"{"error":"insufficient_scope","error_description":"x","request_id":"req_1"}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

#[tokio::test]
async fn messages_are_read_from_json_and_from_streams() -> Result<()> {
    assert_eq!(post(&answering(&[(200, ANSWER)], "").await?).await?, [ANSWER]);
    assert!(post(&answering(&[(202, "")], "").await?).await?.is_empty());
    let messages = post(&answering(&[(200, STREAM)], "Content-Type: text/event-stream\r\n").await?).await?;
    assert_eq!(messages, [r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#, ANSWER]);
    // An error of the protocol has a status of its own, and is a message all the same.
    assert_eq!(post(&answering(&[(404, UNKNOWN)], "").await?).await?, [UNKNOWN]);
    Ok(())
}

#[tokio::test]
async fn a_response_that_is_no_message_is_an_error() -> Result<()> {
    assert!(matches!(post(&answering(&[(200, "<html>")], "").await?).await, Err(Error::Unexpected(200))));
    assert!(matches!(post(&answering(&[(502, "<html>")], "").await?).await, Err(Error::Unexpected(502))));
    let cut = post(&answering(&[(200, "data: cut\n\n")], "Content-Type: text/event-stream\r\n").await?).await;
    assert!(matches!(cut, Err(Error::Unexpected(200))), "{cut:?}");
    let error = post(&answering(&[(429, LIMITED)], "Retry-After: 7\r\n").await?).await.err().context("no error")?;
    assert!(error.is_code(ErrorCode::RateLimited));
    assert_eq!(error.refusal().and_then(|refusal| refusal.retry_after), Some(7));
    let challenge = "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"read packs:write\"\r\n";
    let error = post(&answering(&[(403, SCOPE)], challenge).await?).await.err().context("no error")?;
    assert_eq!(error.refusal().and_then(|refusal| refusal.scope.as_deref()), Some("read packs:write"));
    Ok(())
}
