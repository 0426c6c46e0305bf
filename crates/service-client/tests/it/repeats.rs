//! Only what is safe is sent again.

use anyhow::Result;
use service_api::{JsonObject, cli_tokens::CreateCliToken, contents::Kind, token::AccessToken};
use service_client::{Client, NewContent};

use crate::scripted::Scripted;

const HANG_UP: &[(u16, &str)] = &[(0, "")];
const BUSY: &[(u16, &str)] =
    &[(503, r#"{"error":"temporarily_unavailable","error_description":"Later.","request_id":"req_1"}"#)];

fn token() -> AccessToken {
    AccessToken::new("a.b.c".to_owned())
}

#[tokio::test]
async fn what_only_reads_is_asked_again_and_what_makes_something_is_not() -> Result<()> {
    for responses in [HANG_UP, BUSY] {
        let server = Scripted::start(responses).await?;
        let client = Client::new(&server.url)?;
        client.whoami(&token(), None).await.unwrap_err();
        assert_eq!(server.asked(), 3);
        client.create_cli_token(&token(), &CreateCliToken::default()).await.unwrap_err();
        assert_eq!(server.asked(), 4);
        client.request_otp("ana@acme.test", "service-cli", None).await.unwrap_err();
        assert_eq!(server.asked(), 5);
        client.create_workspace(&token(), "Acme").await.unwrap_err();
        assert_eq!(server.asked(), 6);
        let fields = JsonObject::new();
        let new = NewContent { kind: Kind::Project, workspace: None, fields: &fields, idempotency_key: None };
        client.create_content(&token(), new).await.unwrap_err();
        assert_eq!(server.asked(), 7);
        client.create_content(&token(), NewContent { idempotency_key: Some("k"), ..new }).await.unwrap_err();
        assert_eq!(server.asked(), 10);
    }
    Ok(())
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_not_asked_for_again() -> Result<()> {
    const REFUSED: &[(u16, &str)] =
        &[(404, r#"{"error":"not_found","error_description":"Nothing.","request_id":"req_1"}"#)];
    let server = Scripted::start(REFUSED).await?;
    let error = Client::new(&server.url)?.whoami(&token(), None).await.unwrap_err();
    assert_eq!(error.refusal().map(|refusal| refusal.status), Some(404));
    assert_eq!(server.asked(), 1);
    Ok(())
}

#[tokio::test]
async fn a_redirect_is_not_followed_ci_07() -> Result<()> {
    let elsewhere = Scripted::start(&[(200, "{}")]).await?;
    let server = Scripted::start_with(&[(307, "")], format!("Location: {}/v1/whoami\r\n", elsewhere.url)).await?;
    Client::new(&server.url)?.whoami(&token(), None).await.unwrap_err();
    assert_eq!((server.asked(), elsewhere.asked()), (1, 0));
    Ok(())
}
