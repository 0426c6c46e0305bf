//! A connection to a service: its URL, the credential to use, and the workspace to work in.

use service_api::{errors::ErrorCode, oauth::SERVICE_CLI, page::Page, scope::Scopes, token::AccessToken};
use service_client::{Client, Error, Refusal, Session, SessionError};

use crate::{
    clock,
    commands::login::reauthenticate::reauthenticate,
    context::{Context, session_failed, store_failed},
    credentials::{SavedSignIn, SignInRecord},
    explain::{self, CallContext},
    failure::{Failure, FailureCode},
    origin::Origin,
    token_variable::{TOKEN_VARIABLE, UNSET_TOKEN_HINT, check_token},
    workspace_selection::WorkspaceSelection,
};

pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) origin: Origin,
    pub(crate) credential: Credential,
    pub(crate) workspace: WorkspaceSelection,
}

/// What a command authenticates with.
pub(crate) enum Credential {
    /// The token in `SERVICE_TOKEN`.
    Environment(AccessToken),
    /// The session that `service login` saved.
    Saved(Box<SavedSession>),
}

/// A saved session: the record of its sign-in, and its tokens, which are refreshed automatically.
pub(crate) struct SavedSession {
    pub(crate) session: Session<SavedSignIn>,
    pub(crate) record: SignInRecord,
}

impl Connection {
    /// Connects with the token in `SERVICE_TOKEN` or, if it is not set, with the saved session.
    pub(crate) fn open(context: &Context) -> Result<Self, Failure> {
        let origin = context.origin()?;
        if let Some(present) = &context.environment.token {
            let token = check_token(present.text())?;
            if context.environment.api_url.is_none() {
                return Err(Failure::new(FailureCode::Usage, "SERVICE_TOKEN is set, but SERVICE_API_URL is not.")
                    .hint("Set SERVICE_API_URL as well, so that the token is only sent to your server.")
                    .hint(UNSET_TOKEN_HINT));
            }
            let workspace =
                WorkspaceSelection::from_token().with_overrides(workspace_flag(context), &context.environment)?;
            return Ok(Self {
                client: context.client(&origin)?,
                origin,
                credential: Credential::Environment(token),
                workspace,
            });
        }
        Self::from_saved_session(context, origin)
    }

    /// Connects with the saved session, even if `SERVICE_TOKEN` is set.
    pub(crate) fn open_saved(context: &Context) -> Result<Self, Failure> {
        let origin = context.origin()?;
        Self::from_saved_session(context, origin)
    }

    fn from_saved_session(context: &Context, origin: Origin) -> Result<Self, Failure> {
        let saved = context.saved_sign_in(&origin)?;
        let record =
            saved.record().map_err(store_failed)?.ok_or_else(|| explain::not_signed_in(&context.profile, &origin))?;
        let workspace = WorkspaceSelection::from_saved(record.workspace.as_ref())
            .with_overrides(workspace_flag(context), &context.environment)?;
        let client = context.client(&origin)?;
        let session = Session::new(client.clone(), SERVICE_CLI, saved, clock::now);
        let credential = Credential::Saved(Box::new(SavedSession { session, record }));
        Ok(Self { client, origin, credential, workspace })
    }

    /// Calls the service with a valid access token. Asks the user to sign in again if the action needs a recent sign-in.
    pub(crate) async fn call<T>(
        &self,
        context: &Context,
        call: impl AsyncFn(&Client, &AccessToken) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let mut error = match Box::pin(context.spin_while(self.try_call(&call))).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        if self.needs_recent_sign_in(&error) {
            Box::pin(reauthenticate(context, &self.origin, needs_passkey(&error))).await?;
            // The refused request had no effect, so it is repeated with the new session.
            error = match Box::pin(context.spin_while(self.try_call(&call))).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
        }
        Err(match error {
            SessionError::Store(_) | SessionError::Busy => session_failed(error),
            SessionError::NotSignedIn => explain::not_signed_in(&context.profile, &self.origin),
            SessionError::Ended(reason) => explain::session_ended(reason),
            SessionError::SsoAgain(connection_id) => explain::sso_again(&self.origin, connection_id),
            SessionError::Call(error) if error.is_code(ErrorCode::InsufficientScope) => {
                explain::explain_call(&self.call_context(), &error, self.scopes().await)
            }
            SessionError::Call(error) => explain::explain_call(&self.call_context(), &error, None),
        })
    }

    fn needs_recent_sign_in(&self, error: &SessionError) -> bool {
        let is_too_old =
            matches!(error, SessionError::Call(error) if error.is_code(ErrorCode::InsufficientUserAuthentication));
        is_too_old && !self.is_from_environment()
    }

    /// Reads every page of a list. Fails if a page names itself as the next one.
    pub(crate) async fn list_all<T>(
        &self,
        context: &Context,
        page: impl AsyncFn(&Client, &AccessToken, Option<&str>) -> Result<Page<T>, Error>,
    ) -> Result<Vec<T>, Failure> {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let next = self.call(context, async |client, token| page(client, token, cursor.as_deref()).await).await?;
            all.extend(next.data);
            match next.next_cursor {
                None => return Ok(all),
                same if same == cursor => return Err(explain::unexpected_response(&self.origin)),
                other => cursor = other,
            }
        }
    }

    /// The scopes of the credential, if they can be found out.
    async fn scopes(&self) -> Option<Scopes> {
        match &self.credential {
            Credential::Saved(saved) => Some(saved.record.scopes),
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
            Credential::Saved(saved) => saved.session.call(async |token| call(&self.client, token).await).await,
        }
    }

    fn call_context(&self) -> CallContext<'_> {
        CallContext { origin: &self.origin, source: self.source(), workspace: &self.workspace }
    }

    /// The name of the credential in errors.
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

/// Whether the user has to sign in by a passkey, because a code is not enough.
fn needs_passkey(error: &SessionError) -> bool {
    matches!(error, SessionError::Call(error) if error.refusal().is_some_and(Refusal::needs_passkey))
}

fn workspace_flag(context: &Context) -> Option<&str> {
    context.global.workspace_id.as_deref()
}
