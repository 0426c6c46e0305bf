//! Who the token speaks for (`GET /v1/whoami`).

use std::sync::Arc;

use anyhow::Context as _;
use service_api::{
    Timestamp,
    ids::UserId,
    whoami::{Credential, CredentialKind, User, Whoami},
};
use service_rules::bearer::Claims;

use crate::{app::App, flows::enter_space::Entered, store};

pub async fn whoami(app: &App, claims: &Claims, space: &Entered) -> anyhow::Result<Whoami> {
    Ok(Whoami {
        user: User { id: claims.sub, email: email_of(app, claims.sub).await?.to_string() },
        credential: Credential {
            kind: CredentialKind::AccessToken,
            id: claims.grant,
            client: claims.client_id.clone(),
            scopes: claims.scopes(),
            created_at: Timestamp::from_second(claims.iat)?,
            expires_at: Timestamp::from_second(claims.exp)?,
        },
        space: space.view(),
    })
}

async fn email_of(app: &App, user_id: UserId) -> anyhow::Result<Arc<str>> {
    if let Some(email) = app.user_emails.get(&user_id) {
        return Ok(email);
    }
    let db = app.database.connect().await?;
    let user = store::users::find(&db, user_id).await?.context("a token speaks for a user who does not exist")?;
    let email: Arc<str> = user.email.into();
    app.user_emails.insert(user_id, email.clone());
    Ok(email)
}
