//! Support clients: tools of the operator that make calls of support for the people who use them.
//!
//! A client has no secret here, only its public keys. Every call reads its row, so that a revocation counts at once.

use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use service_api::{audit_events::EventName, ids::SupportClientId};
use service_rules::registration;

use super::{SupportError, SupportOperator};
use crate::{
    app::App,
    crypto::random,
    flows::{clients::assertions, operator::is_line},
    store::{
        self,
        support_clients::{NewSupportClient, StoredSupportClient},
    },
};

const MAX_NAME_CHARS: usize = 64;
const ALGORITHMS: [Algorithm; 2] = [Algorithm::ES256, Algorithm::EdDSA];

/// Creates a client with these public keys. Returns its id.
pub async fn create(
    app: &App,
    operator: &SupportOperator,
    name: &str,
    jwks: &Value,
) -> Result<SupportClientId, SupportError> {
    if !is_line(name, MAX_NAME_CHARS) {
        return Err(
            anyhow::anyhow!("the name is empty, longer than {MAX_NAME_CHARS} characters, or not plain text").into()
        );
    }
    if registration::has_private_key(jwks) {
        return Err(anyhow::anyhow!("the file contains a private or a symmetric key: use public keys only").into());
    }
    assertions::check_keys(jwks, &ALGORITHMS)?;
    let now = app.clock.now();
    let id: SupportClientId = random::id(now)?;
    let db = app.database.begin().await?;
    store::support_clients::insert(&db, &NewSupportClient { id, name, jwks }, now).await?;
    operator.event(EventName::SupportClientCreated, now, json!({ "name": name }))?.subject(id).insert(&db).await?;
    db.commit().await?;
    Ok(id)
}

/// Lists all clients, also revoked ones.
pub async fn list(app: &App) -> Result<Vec<StoredSupportClient>, SupportError> {
    Ok(store::support_clients::list(&app.database.connect().await?).await?)
}

/// Revokes a client: its next call is refused.
pub async fn revoke(app: &App, operator: &SupportOperator, id: SupportClientId) -> Result<(), SupportError> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    if !store::support_clients::mark_revoked(&db, id, now).await? {
        return Err(SupportError::NotFound);
    }
    operator.event(EventName::SupportClientRevoked, now, json!({}))?.subject(id).insert(&db).await?;
    Ok(db.commit().await?)
}
