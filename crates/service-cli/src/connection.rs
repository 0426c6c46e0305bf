//! A service, the credential to use there, and the workspace to work in.

use service_api::{
    errors::ErrorCode,
    ids::WorkspaceId,
    oauth::SERVICE_CLI,
    scope::Scopes,
    token::{AccessToken, Cli, CliToken, TokenKind as _},
    workspaces::PERSONAL,
};
use service_client::{Client, Error, Session, SessionError};

use crate::{
    clock,
    context::{Context, kept_failed, store_failed},
    credentials::{Kept, SavedWorkspace, SignIn},
    explain,
    failure::{Code, Failure},
    origin::Origin,
    table::clean,
};

pub(crate) const TOKEN_VARIABLE: &str = "SERVICE_TOKEN";

pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) origin: Origin,
    pub(crate) credential: Credential,
    pub(crate) workspace: Chosen,
}

pub(crate) enum Credential {
    /// From `SERVICE_TOKEN`.
    Environment(AccessToken),
    Saved(Box<(Session<Kept>, SignIn)>),
}

/// The workspace that requests name, and who chose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// None: the token's own.
    pub(crate) id: Option<String>,
    /// What it is called, where that is known.
    pub(crate) name: Option<String>,
    pub(crate) by: Chooser,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chooser {
    Flag,
    Environment,
    Token,
    Saved,
    Nobody,
}

impl Chooser {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::Token => "token",
            Self::Saved => "saved",
            Self::Nobody => "default",
        }
    }
}

impl Connection {
    pub(crate) fn open(context: &Context) -> Result<Self, Failure> {
        let origin = context.origin()?;
        if let Some(present) = &context.environment.token {
            let token = check_token(present.text())?;
            if context.environment.api_url.is_none() {
                let text =
                    "SERVICE_TOKEN is set, and SERVICE_API_URL is not. A token is sent only where somebody said.";
                return Err(Failure::new(Code::Usage, text)
                    .next("set SERVICE_API_URL to the address of the service")
                    .next("to use your own sign-in: unset SERVICE_TOKEN"));
            }
            let workspace = choose(context, true, None)?;
            return Ok(Self {
                client: context.client(&origin)?,
                origin,
                credential: Credential::Environment(token),
                workspace,
            });
        }
        Self::of_sign_in(context, origin)
    }

    /// With the sign-in, whatever `SERVICE_TOKEN` says.
    pub(crate) fn saved(context: &Context) -> Result<Self, Failure> {
        let origin = context.origin()?;
        Self::of_sign_in(context, origin)
    }

    fn of_sign_in(context: &Context, origin: Origin) -> Result<Self, Failure> {
        let kept = context.kept(&origin)?;
        let sign_in = kept.record().map_err(store_failed)?.ok_or_else(|| explain::not_signed_in(&origin))?;
        let workspace = choose(context, false, sign_in.workspace.as_ref())?;
        let client = context.client(&origin)?;
        let session = Session::new(client.clone(), SERVICE_CLI, kept, clock::now);
        Ok(Self { client, origin, credential: Credential::Saved(Box::new((session, sign_in))), workspace })
    }

    /// Calls with a token that works, and explains what went wrong.
    pub(crate) async fn call<T>(
        &self,
        context: &Context,
        call: impl AsyncFn(&Client, &AccessToken) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let trouble = match context.waiting(self.try_call(call)).await {
            Ok(answer) => return Ok(answer),
            Err(trouble) => trouble,
        };
        Err(match trouble {
            SessionError::Store(_) | SessionError::Busy => kept_failed(trouble),
            SessionError::NotSignedIn => explain::not_signed_in(&self.origin),
            SessionError::Ended(reason) => explain::ended(reason),
            SessionError::Call(error) if error.is_code(ErrorCode::InsufficientScope) => {
                explain::refused(self, &error, self.scopes().await)
            }
            SessionError::Call(error) => explain::refused(self, &error, None),
        })
    }

    /// What the credential may do, if that can be had.
    async fn scopes(&self) -> Option<Scopes> {
        match &self.credential {
            Credential::Saved(saved) => Some(saved.1.scopes),
            Credential::Environment(token) => {
                self.client.whoami(token, None).await.ok().map(|whoami| whoami.credential.scopes)
            }
        }
    }

    async fn try_call<T>(
        &self,
        call: impl AsyncFn(&Client, &AccessToken) -> Result<T, Error>,
    ) -> Result<T, SessionError> {
        match &self.credential {
            Credential::Environment(token) => Ok(call(&self.client, token).await?),
            Credential::Saved(saved) => saved.0.call(async |token| call(&self.client, token).await).await,
        }
    }

    /// What to call the credential where it is to blame.
    pub(crate) const fn source(&self) -> &'static str {
        match self.credential {
            Credential::Environment(_) => TOKEN_VARIABLE,
            Credential::Saved(_) => "session",
        }
    }

    pub(crate) const fn is_from_environment(&self) -> bool {
        matches!(self.credential, Credential::Environment(_))
    }

    pub(crate) fn workspace_id(&self) -> Option<&str> {
        self.workspace.id.as_deref()
    }
}

/// First match wins: the flag, the environment, the token's own, what was saved.
fn choose(context: &Context, has_token: bool, saved: Option<&SavedWorkspace>) -> Result<Chosen, Failure> {
    let unnamed = |id: &str, by| {
        if id != PERSONAL && id.parse::<WorkspaceId>().is_err() {
            let text = format!("No workspace {} that you can use.", clean(id));
            return Err(Failure::new(Code::NotFound, text).next("service workspace list"));
        }
        let name = (id == PERSONAL).then(|| "Personal".to_owned());
        Ok(Chosen { id: Some(id.to_owned()), name, by })
    };
    if let Some(id) = &context.everywhere.workspace_id {
        return unnamed(id, Chooser::Flag);
    }
    if let Some(id) = &context.environment.workspace_id {
        return unnamed(id, Chooser::Environment);
    }
    Ok(match saved {
        _ if has_token => Chosen { id: None, name: None, by: Chooser::Token },
        Some(saved) => Chosen { id: Some(saved.id.clone()), name: Some(saved.name.clone()), by: Chooser::Saved },
        None => Chosen { id: None, name: None, by: Chooser::Nobody },
    })
}

/// What can be seen without asking anybody. The value is never shown.
pub(crate) fn check_token(text: &str) -> Result<AccessToken, Failure> {
    if text.is_empty() {
        let failure = Failure::new(
            Code::TokenEmpty,
            "SERVICE_TOKEN is set but empty. In CI this usually means that the secret is missing.",
        );
        return Err(failure.next("to use your own sign-in: unset SERVICE_TOKEN").with("source", TOKEN_VARIABLE));
    }
    let wrong = if text.contains(['\n', '\r']) {
        Some("it has a line break")
    } else if text.to_ascii_lowercase().starts_with("bearer ") {
        Some("it begins with \"Bearer \"")
    } else if text.contains(|c: char| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        Some("it has characters that no token has")
    } else if text.starts_with(Cli::PREFIX) {
        CliToken::parse(text).is_none().then_some("it was cut or mistyped")
    } else if text.starts_with("svc_") {
        Some("it is another kind of secret")
    } else {
        (text.split('.').count() != 3).then_some("no token begins like this")
    };
    match wrong {
        None => Ok(AccessToken::new(text.to_owned())),
        Some(why) => {
            let failure = Failure::new(Code::TokenInvalid, format!("SERVICE_TOKEN does not look like a token: {why}."));
            Err(failure
                .next("a token begins with svc_cli_; make one with: service token create")
                .next("to use your own sign-in: unset SERVICE_TOKEN")
                .with("source", TOKEN_VARIABLE))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_cannot_be_one_is_noticed_and_not_shown() {
        let good = CliToken::from_body(&[7; Cli::BODY]).expose().to_owned();
        assert!(check_token(&good).is_ok());
        assert!(check_token("eyJh.eyJp.c2ln").is_ok());
        let cut = &good[..good.len() - 1];
        for (wrong, code) in [
            (String::new(), Code::TokenEmpty),
            (format!("{good}\n"), Code::TokenInvalid),
            (format!("Bearer {good}"), Code::TokenInvalid),
            (cut.to_owned(), Code::TokenInvalid),
            (good.replace("svc_cli_", "svc_rt_"), Code::TokenInvalid),
            ("hunter2".to_owned(), Code::TokenInvalid),
        ] {
            let failure = check_token(&wrong).unwrap_err();
            assert_eq!(failure.code, code);
            assert!(wrong.is_empty() || !failure.to_json().to_string().contains(&wrong));
        }
    }
}
