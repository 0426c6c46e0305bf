//! Knowing the caller by its bearer token.
//!
//! 1. A token that was seen before is known by its digest: a signature need not be checked again, a token for automation
//!    not be looked up again for a few minutes.
//! 2. Any other is taken apart and verified, or looked up by its id, and remembered.
//! 3. Whether it opens *this* endpoint *now* is judged every time: time, audience, scope, whether its key is still
//!    accepted and whether it was ended are never remembered.

use std::{net::IpAddr, sync::Arc};

use service_api::{
    errors::Reason,
    ids::CliTokenId,
    oauth::is_first_party,
    token::{Cli, CliToken, TokenKind as _},
};
use service_rules::{
    Timestamp,
    bearer::{self, Claims, Refusal, UnverifiedJwt},
    cli_tokens,
    credential::{Credential, Kind},
    space::{Place, Reach},
};
use subtle::ConstantTimeEq as _;

use crate::{
    app::App,
    cli_tokens::REMEMBERED_FOR,
    digest::sha256,
    failure::Failure,
    store::{self, cli_tokens::StoredCliToken},
    verified_tokens::Verified,
};

/// Who a token speaks for, whatever it may do.
pub async fn authenticate(app: &App, token: &str, from: IpAddr) -> Result<Arc<Credential>, Failure<Refusal>> {
    let now = app.clock.now();
    if token.starts_with(Cli::PREFIX) {
        let (id, credential) = cli_token(app, token, now).await?;
        app.cli_tokens.note_use(id, now, from);
        return Ok(credential);
    }
    let verified = genuine(app, token).await?;
    judge(app, &verified, &app.audience, now)?;
    Ok(verified.credential.clone())
}

/// Whether an access token that is genuine opens an audience now.
pub fn judge(app: &App, verified: &Verified, audience: &str, now: Timestamp) -> Result<(), Failure<Refusal>> {
    app.revocations.judge(&verified.claims, &verified.key_id)?;
    if !app.signing_keys.accept(&verified.key_id, now)? {
        return Err(Failure::Refused(Refusal::Invalid));
    }
    bearer::judge(&verified.claims, &app.config.base_url, audience, now).map_err(Failure::Refused)
}

/// The claims of an access token that one of our keys signed, whatever has become of it since.
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
    let credential = Credential {
        kind: Kind::Session(claims.grant),
        user_id: claims.sub,
        client_id: claims.client_id.clone(),
        scopes: claims.scopes(),
        reach: reach(&claims),
        created_at: Timestamp::from_second(claims.iat).map_err(|_| Failure::Refused(Refusal::Invalid))?,
        expires_at: Timestamp::from_second(claims.exp).map_err(|_| Failure::Refused(Refusal::Invalid))?,
    };
    let verified = Arc::new(Verified { claims, key_id: jwt.key_id().to_owned(), credential: Arc::new(credential) });
    app.verified_tokens.insert(token, verified.clone());
    Ok(verified)
}

/// Our own clients go wherever their user may. Any other stays in the space that its user chose for it.
fn reach(claims: &Claims) -> Reach {
    if is_first_party(&claims.client_id) {
        Reach::Anywhere(claims.workspace)
    } else {
        Reach::Only(claims.workspace.map_or(Place::Personal, Place::Workspace))
    }
}

/// Who a token for automation speaks for, asked of the database.
pub async fn live_cli_token(app: &App, token: &CliToken, now: Timestamp) -> Result<Arc<Credential>, Failure<Refusal>> {
    look_up(app, token, now).await.map(|(_, credential)| credential)
}

/// The row of a token for automation, if the secret is its own; whatever has become of it since.
pub async fn genuine_cli_token(app: &App, token: &CliToken) -> anyhow::Result<Option<StoredCliToken>> {
    let Some(id) = token.id() else { return Ok(None) };
    let db = app.database.connect().await?;
    let stored = store::cli_tokens::find(&db, id).await?;
    Ok(stored.filter(|stored| stored.digest.ct_eq(&sha256(token.expose())).into()))
}

type Found = (CliTokenId, Arc<Credential>);

async fn cli_token(app: &App, text: &str, now: Timestamp) -> Result<Found, Failure<Refusal>> {
    // A wrong checksum costs no query.
    let token = CliToken::parse(text).ok_or(Failure::Refused(Refusal::Invalid))?;
    if let Some(known) = app.cli_tokens.get(&sha256(text)) {
        let workspace = known.credential.reach.workspace();
        let unchanged =
            app.revocations.is_unchanged(known.id, known.credential.user_id, workspace, known.looked_up_at)?;
        // A machine that was put to sleep has lost time that only this clock has not.
        let recent = (0..=REMEMBERED_FOR).contains(&(now.as_second() - known.looked_up_at));
        let over = app.revocations.epoch()?.is_some_and(|epoch| known.credential.created_at < epoch);
        if unchanged && recent && !over {
            if known.credential.expires_at <= now {
                return Err(Failure::Refused(Refusal::Ended(Reason::Expired)));
            }
            return Ok((known.id, known.credential.clone()));
        }
    }
    look_up(app, &token, now).await
}

/// Asks the database, which is right about everything but what happens next.
async fn look_up(app: &App, token: &CliToken, now: Timestamp) -> Result<Found, Failure<Refusal>> {
    let epoch = app.revocations.epoch()?;
    let stored = genuine_cli_token(app, token).await?.ok_or(Failure::Refused(Refusal::Invalid))?;
    let id = stored.id;
    let mut found = stored.found;
    if epoch.is_some_and(|epoch| found.created_at < epoch) {
        found.ended = found.ended.or(Some(Reason::RevokedByAdmin));
    }
    cli_tokens::judge(&found, now).map_err(|reason| Failure::Refused(Refusal::Ended(reason)))?;
    let credential = Arc::new(Credential {
        kind: Kind::CliToken(id),
        user_id: stored.user_id,
        client_id: stored.client_id,
        scopes: found.scopes,
        reach: Reach::Only(found.workspace_id.map_or(Place::Personal, Place::Workspace)),
        created_at: found.created_at,
        expires_at: found.expires_at,
    });
    app.cli_tokens.insert(sha256(token.expose()), id, credential.clone(), now.as_second());
    Ok((id, credential))
}
