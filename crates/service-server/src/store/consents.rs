//! Table `consents`: what people agreed to.

use service_api::{
    ids::{Id as _, UserId, WorkspaceId},
    scope::Scopes,
};
use service_rules::Timestamp;
use uuid::Uuid;

use crate::database::{Connection, Error};

/// Which client, and where its answers go.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    pub user_id: UserId,
    pub client_id: &'a str,
    pub redirect_host: &'a str,
    pub audience: &'a str,
}

pub struct Consent {
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
}

pub async fn find(db: &Connection, about: About<'_>) -> Result<Option<Consent>, Error> {
    let row = db
        .query_opt(
            r"select scopes, workspace_id from consents
               where user_id = $1 and client_id = $2 and redirect_host = $3 and audience = $4",
            &[&about.user_id.uuid(), &about.client_id, &about.redirect_host, &about.audience],
        )
        .await?;
    let consent = row.map(|row| -> Result<Consent, Error> {
        Ok(Consent {
            scopes: Scopes::parse(row.try_get("scopes")?),
            workspace_id: row.try_get::<_, Option<Uuid>>("workspace_id")?.map(Into::into),
        })
    });
    consent.transpose()
}

pub async fn replace(db: &Connection, about: About<'_>, consent: &Consent, now: Timestamp) -> Result<(), Error> {
    db.execute(
        r"insert into consents (user_id, client_id, redirect_host, audience, scopes, workspace_id, agreed_at)
          values ($1, $2, $3, $7, $4, $5, $6)
          on conflict (user_id, client_id, redirect_host, audience) do update
             set scopes = excluded.scopes, workspace_id = excluded.workspace_id, agreed_at = excluded.agreed_at",
        &[
            &about.user_id.uuid(),
            &about.client_id,
            &about.redirect_host,
            &consent.scopes.to_string(),
            &consent.workspace_id.map(WorkspaceId::uuid),
            &now,
            &about.audience,
        ],
    )
    .await
    .map(drop)
}

/// Takes back whatever this user agreed to for this client.
pub async fn delete_by_client(db: &Connection, user_id: UserId, client_id: &str) -> Result<u64, Error> {
    db.execute(r"delete from consents where user_id = $1 and client_id = $2", &[&user_id.uuid(), &client_id]).await
}
