//! Knowing the caller by its bearer token.
//!
//! 1. A token that was seen before is known by its digest: its signature need not be checked again.
//! 2. Any other is taken apart, its key found, its signature checked, and it is remembered.
//! 3. Whether it opens *this* endpoint *now* is judged every time: time, audience, scope, whether its key is still
//!    accepted and whether it was ended are never remembered.

use std::sync::Arc;

use service_api::scope::Scope;
use service_rules::bearer::{self, Claims, Refusal, UnverifiedJwt};

use crate::{app::App, failure::Failure, verified_tokens::Verified};

pub async fn authenticate(app: &App, token: &str, needed: Scope) -> Result<Arc<Verified>, Failure<Refusal>> {
    let now = app.clock.now();
    let verified = genuine(app, token).await?;
    app.revocations.judge(&verified.claims, &verified.key_id)?;
    if !app.signing_keys.accept(&verified.key_id, now)? {
        return Err(Failure::Refused(Refusal::Invalid));
    }
    bearer::judge(&verified.claims, &app.config.base_url, &app.audience, needed, now).map_err(Failure::Refused)?;
    Ok(verified)
}

/// The claims of a token that one of our keys signed, whatever has become of it since.
pub async fn genuine(app: &App, token: &str) -> Result<Arc<Verified>, Failure<Refusal>> {
    match app.verified_tokens.get(token) {
        Some(verified) => Ok(verified),
        None => verify(app, token).await,
    }
}

async fn verify(app: &App, token: &str) -> Result<Arc<Verified>, Failure<Refusal>> {
    let jwt = UnverifiedJwt::read(token).map_err(Failure::Refused)?;
    let genuine = app.signing_keys.verify(&jwt, &app.key_table()).await?;
    if !genuine {
        return Err(Failure::Refused(Refusal::Invalid));
    }
    let claims = Claims::read(jwt.payload()).map_err(Failure::Refused)?;
    let verified = Arc::new(Verified { claims, key_id: jwt.key_id().to_owned() });
    app.verified_tokens.insert(token, verified.clone());
    Ok(verified)
}
