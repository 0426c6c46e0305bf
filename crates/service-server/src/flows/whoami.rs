//! The current user, their credential and the space of the request (`GET /v1/whoami`).

use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use service_api::{
    ids::UserId,
    whoami::{Credential as CredentialView, CredentialId, CredentialKind, User, Whoami},
};
use service_rules::{
    credential::{self, Credential},
    signing::later,
};

use crate::{app::App, database, flows::workspaces::enter_space::Entered, store, tokens::whoami_cache::WhoamiSource};

/// Seconds after which a node reads an address again.
const EMAIL_CACHED: i64 = 60;
/// Seconds until a node tries again to read a cached address, while the database is away.
const EMAIL_RETRY: i64 = 5;

/// What a request returns about its caller.
pub async fn whoami(app: &App, credential: &Arc<Credential>, space: &Entered) -> anyhow::Result<Whoami> {
    Ok(view(&source(app, credential, space).await?))
}

/// What a request returns about its caller, as JSON. It is not written again if the last request of the session or the CLI token
/// came with the same token and in the same space.
pub async fn whoami_json(app: &App, credential: &Arc<Credential>, space: &Entered) -> anyhow::Result<Bytes> {
    let source = source(app, credential, space).await?;
    if let Some(json) = app.whoami_responses.get(&source) {
        return Ok(json);
    }
    let json = Bytes::from(serde_json::to_vec(&view(&source))?);
    app.whoami_responses.insert(source, json.clone());
    Ok(json)
}

async fn source(app: &App, credential: &Arc<Credential>, space: &Entered) -> anyhow::Result<WhoamiSource> {
    let email = email_of(app, credential.user_id).await?;
    Ok(WhoamiSource { credential: credential.clone(), email, space: space.view() })
}

fn view(WhoamiSource { credential, email, space }: &WhoamiSource) -> Whoami {
    let (kind, id) = match credential.kind {
        credential::CredentialKind::Session(id) => (CredentialKind::AccessToken, CredentialId::Session(id)),
        credential::CredentialKind::CliToken(id) => (CredentialKind::CliToken, CredentialId::CliToken(id)),
    };
    Whoami {
        user: User { id: credential.user_id, email: email.to_string() },
        credential: CredentialView {
            kind,
            id,
            client: credential.client_id.clone(),
            scopes: credential.scopes,
            created_at: credential.created_at,
            expires_at: credential.expires_at,
        },
        space: *space,
    }
}

/// The email address of a user. While the database is away, the one that the node knows, however old: it decides about nothing.
async fn email_of(app: &App, user_id: UserId) -> anyhow::Result<Arc<str>> {
    let known = match app.user_emails.get(&user_id) {
        Some((email, read_at)) if later(read_at, EMAIL_CACHED) > app.clock.now() => return Ok(email),
        known => known,
    };
    match (Box::pin(look_up_email(app, user_id)).await, known) {
        (Err(error), Some((email, _))) if matches!(error.downcast_ref(), Some(database::Error::Unavailable(_))) => {
            let until_retry = later(app.clock.now(), EMAIL_RETRY - EMAIL_CACHED);
            app.user_emails.insert(user_id, (email.clone(), until_retry));
            Ok(email)
        }
        (found, _) => found,
    }
}

/// Reads the email address of a user from the database, and caches it.
async fn look_up_email(app: &App, user_id: UserId) -> anyhow::Result<Arc<str>> {
    let db = app.database.connect().await?;
    let user = store::users::find(&db, user_id).await?.context("the user of a credential does not exist")?;
    let email: Arc<str> = user.email.into();
    app.user_emails.insert(user_id, (email.clone(), app.clock.now()));
    Ok(email)
}
