//! Support clients: tools of the operator that make calls of support for the people who use them.
//!
//! A client has no secret here, only its public keys. Every call reads its row, so that a revocation counts at once.

use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use service_api::{audit_events::EventName, ids::SupportClientId, token::ClientAssertion};
use service_rules::{
    limits::{Limited, Rate},
    registration,
};

use super::{SupportError, SupportOperator};
use crate::{
    app::App,
    config::SupportConfig,
    crypto::random,
    database,
    flows::{
        check_clock,
        clients::assertions::{self, AssertionError, AssertionPolicy, Signer},
        operator::is_line,
        rate_limit::Limit,
    },
    store::{
        self,
        support_clients::{NewSupportClient, StoredSupportClient},
    },
};

const MAX_NAME_CHARS: usize = 64;
const ALGORITHMS: [Algorithm; 2] = [Algorithm::ES256, Algorithm::EdDSA];
/// The longest lifetime of an assertion, in seconds.
const MAX_ASSERTION_SECONDS: i64 = 60;

/// Calls of one client: 120 at once, then two a second.
const MAX_CALL_RATE: Rate = Rate { burst: 120, per_hour: 7_200 };
/// Calls of one client that change something: 20 at once, then one every three seconds.
const MAX_CHANGE_RATE: Rate = Rate { burst: 20, per_hour: 1_200 };

/// Why a call is not by a support client, or is one too many.
#[derive(Debug, thiserror::Error)]
pub enum SupportClientError {
    #[error("no client or no assertion was sent")]
    Nothing,
    #[error("there is no such support client")]
    Unknown,
    #[error("the support client was revoked")]
    Revoked,
    #[error(transparent)]
    Assertion(AssertionError),
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
}

/// The client that a call names, and its assertion.
#[derive(Clone, Copy)]
pub struct PresentedSupportClient<'a> {
    pub id: Option<&'a str>,
    pub assertion: Option<&'a ClientAssertion>,
}

/// A client whose assertion was accepted for one call. Only [`authenticate`] makes one.
pub struct SupportClient {
    id: SupportClientId,
}

impl SupportClient {
    #[must_use]
    pub const fn id(&self) -> SupportClientId {
        self.id
    }
}

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

/// Authenticates the client of a call, and counts the call against the client's limits.
///
/// 1. A node whose clock is wrong cannot tell whether an assertion has expired, and refuses all.
/// 2. The client's row is read: an OAuth client has none here, and a revoked client is refused.
/// 3. Its assertion must be for the support listener, fresh, and used for the first time on any node.
/// 4. There must be room for another call, and for another change if the call is one.
pub async fn authenticate(
    app: &App,
    support: &SupportConfig,
    presented: PresentedSupportClient<'_>,
    changes: bool,
) -> Result<SupportClient, SupportClientError> {
    let now = app.clock.now();
    let (Some(id), Some(assertion)) = (presented.id, presented.assertion) else {
        return Err(SupportClientError::Nothing);
    };
    let id: SupportClientId = id.parse().map_err(|_| SupportClientError::Unknown)?;
    let db = app.database.connect().await?;
    check_clock(app, &db, now).await?;
    let keys = store::support_clients::find_keys(&db, id).await?.ok_or(SupportClientError::Unknown)?;
    if keys.revoked {
        return Err(SupportClientError::Revoked);
    }
    let client_id = id.to_string();
    let policy =
        AssertionPolicy { audiences: &[&support.url], max_seconds: MAX_ASSERTION_SECONDS, algorithms: &ALGORITHMS };
    let signer = Signer { client_id: &client_id, jwks: &keys.jwks };
    assertions::accept(app, &db, signer, assertion, policy).await.map_err(|error| match error {
        AssertionError::Database(error) => SupportClientError::Database(error),
        error => SupportClientError::Assertion(error),
    })?;
    let of_changes = changes.then_some(("support-changes", MAX_CHANGE_RATE));
    for (policy, rate) in [("support-calls", MAX_CALL_RATE)].into_iter().chain(of_changes) {
        let limit = Limit { policy, whom: client_id.as_bytes() };
        if let Some(limited) = limit.take_at_rate(app, &db, rate, now).await? {
            return Err(limited.into());
        }
    }
    Ok(SupportClient { id })
}
