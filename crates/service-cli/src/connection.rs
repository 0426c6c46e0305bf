//! A service, the credential to use there, and the workspace to work in.

use service_api::{errors::ErrorCode, oauth::SERVICE_CLI, scope::Scopes, token::AccessToken};
use service_client::{Client, Error, Session, SessionError};

use crate::{
    chosen::Chosen,
    clock,
    context::{Context, kept_failed, store_failed},
    credentials::{Kept, SignIn},
    explain::{self, Used},
    failure::{Code, Failure},
    origin::Origin,
    token_variable::{TOKEN_VARIABLE, check_token},
};

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
            let workspace = Chosen::by_token().unless_named(flag(context), &context.environment)?;
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
        let workspace = Chosen::saved(sign_in.workspace.as_ref()).unless_named(flag(context), &context.environment)?;
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
                explain::refused(&self.used(), &error, self.scopes().await)
            }
            SessionError::Call(error) => explain::refused(&self.used(), &error, None),
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

    fn used(&self) -> Used<'_> {
        Used { origin: &self.origin, source: self.source(), workspace: &self.workspace }
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

fn flag(context: &Context) -> Option<&str> {
    context.everywhere.workspace_id.as_deref()
}
