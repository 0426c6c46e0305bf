//! What a session makes of each answer to a refresh: the tokens are kept, replaced or forgotten, never damaged.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use service_api::{
    Timestamp,
    errors::Reason,
    oauth::SERVICE_CLI,
    token::{AccessToken, Refresh, RefreshToken, TokenKind as _},
};
use service_client::{Access, Client, Session, SessionError, StoreError, TokenStore};

use crate::scripted::Scripted;

/// Keeps a sign-in in memory.
#[derive(Clone)]
struct Memory {
    folder: Arc<tempfile::TempDir>,
    kept: Arc<Mutex<Option<(String, String)>>>,
}

impl Memory {
    fn signed_in() -> Result<Self> {
        let kept = ("a.b.c".to_owned(), refresh_token(1).expose().to_owned());
        Ok(Self { folder: Arc::new(tempfile::tempdir()?), kept: Arc::new(Mutex::new(Some(kept))) })
    }

    fn kept(&self) -> Option<(String, String)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn refresh_token(number: u8) -> RefreshToken {
    RefreshToken::from_body(&[number; Refresh::BODY])
}

impl TokenStore for Memory {
    fn locks(&self) -> Result<Vec<PathBuf>, StoreError> {
        Ok(vec![self.folder.path().join("lock")])
    }

    fn access(&self) -> Result<Option<Access>, StoreError> {
        let token = self.kept().map(|(access, _)| AccessToken::new(access));
        Ok(token.map(|token| Access { token, expires_at: Timestamp::UNIX_EPOCH }))
    }

    fn refresh_token(&self) -> Result<Option<RefreshToken>, StoreError> {
        Ok(self.kept().and_then(|(_, refresh)| RefreshToken::parse(&refresh)))
    }

    fn save(&self, access: &Access, refresh_token: &RefreshToken) -> Result<(), StoreError> {
        let new = (access.token.expose().to_owned(), refresh_token.expose().to_owned());
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
        Ok(())
    }

    fn forget(&self) -> Result<(), StoreError> {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000)
}

/// Calls once, with a server that answers so; the error, what is kept afterwards, and how often the server was asked.
async fn renew(responses: &'static [(u16, &'static str)]) -> Result<(Result<String, SessionError>, Memory, usize)> {
    let server = Scripted::start(responses).await?;
    let memory = Memory::signed_in()?;
    let session = Session::new(Client::new(&server.url)?, SERVICE_CLI, memory.clone(), now);
    let called = session.call(async |token| Ok(token.expose().to_owned())).await;
    Ok((called, memory, server.asked()))
}

#[tokio::test]
async fn trouble_keeps_the_tokens_ci_06() -> Result<()> {
    const CASES: [(&[(u16, &str)], usize); 6] = [
        (&[(0, "")], 3),
        (&[(503, r#"{"error":"temporarily_unavailable","error_description":"Later.","request_id":"r"}"#)], 3),
        (&[(500, r#"{"error":"server_error","error_description":"A defect.","request_id":"r"}"#)], 1),
        (&[(200, "<html>Welcome to the hotel</html>")], 1),
        (&[(200, r#"{"access_token":"d.e.f","token_type":"Bearer","expi"#)], 1),
        (&[(200, r#"{"access_token":"d.e.f","token_type":"Bearer","expires_in":900,"scope":"read"}"#)], 1),
    ];
    for (responses, times) in CASES {
        let (called, memory, asked) = renew(responses).await?;
        assert!(matches!(called, Err(SessionError::Call(_))), "{responses:?}");
        assert_eq!(memory.kept(), Memory::signed_in()?.kept(), "{responses:?}");
        assert_eq!(asked, times, "{responses:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_refused_token_is_forgotten_and_never_sent_again() -> Result<()> {
    let responses: &[(u16, &str)] = &[(
        400,
        r#"{"error":"invalid_grant","error_description":"No.","request_id":"r","details":{"reason":"revoked_by_user"}}"#,
    )];
    let (called, memory, asked) = renew(responses).await?;
    assert!(matches!(called, Err(SessionError::Ended(Some(Reason::RevokedByUser)))));
    assert_eq!((memory.kept(), asked), (None, 1));
    Ok(())
}

#[tokio::test]
async fn a_session_that_waits_for_the_company_keeps_its_tokens() -> Result<()> {
    let responses: &[(u16, &str)] = &[(
        400,
        r#"{"error":"invalid_grant","error_description":"No.","request_id":"r","details":{"reason":"sso_again",
           "connectionId":"conn_01h2xcejqtf2nbrexx3vqjhp41"}}"#,
    )];
    let (called, memory, asked) = renew(responses).await?;
    let Err(SessionError::SsoAgain(Some(id))) = called else { anyhow::bail!("{called:?}") };
    assert_eq!(id.to_string(), "conn_01h2xcejqtf2nbrexx3vqjhp41");
    assert_eq!((memory.kept(), asked), (Memory::signed_in()?.kept(), 1));
    Ok(())
}

#[tokio::test]
async fn two_tasks_of_one_process_renew_once() -> Result<()> {
    let new = refresh_token(2);
    let body = format!(
        r#"{{"access_token":"d.e.f","token_type":"Bearer","expires_in":900,"refresh_token":"{}","scope":"read"}}"#,
        new.expose()
    );
    let responses: &'static [(u16, &'static str)] = Box::leak(Box::new([(200, &*body.leak())]));
    let server = Scripted::start(responses).await?;
    let memory = Fresh(Memory::signed_in()?);
    let session = Session::new(Client::new(&server.url)?, SERVICE_CLI, memory, now);
    let call = || session.call(async |token| Ok(token.expose().to_owned()));
    let (one, other) = tokio::join!(call(), call());
    assert_eq!((one?, other?), ("d.e.f".to_owned(), "d.e.f".to_owned()));
    assert_eq!(server.asked(), 1);
    Ok(())
}

/// A [`Memory`] in which an access token that was renewed is fresh.
struct Fresh(Memory);

impl TokenStore for Fresh {
    fn locks(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.0.locks()
    }

    fn access(&self) -> Result<Option<Access>, StoreError> {
        let is_new = self.0.kept().is_some_and(|(access, _)| access == "d.e.f");
        let later = now() + std::time::Duration::from_secs(900);
        Ok(self
            .0
            .access()?
            .map(|access| Access { expires_at: if is_new { later } else { access.expires_at }, ..access }))
    }

    fn refresh_token(&self) -> Result<Option<RefreshToken>, StoreError> {
        self.0.refresh_token()
    }

    fn save(&self, access: &Access, refresh_token: &RefreshToken) -> Result<(), StoreError> {
        self.0.save(access, refresh_token)
    }

    fn forget(&self) -> Result<(), StoreError> {
        self.0.forget()
    }
}
