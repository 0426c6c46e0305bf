//! Client authentication, and the administration of clients by operators.

pub mod assertions;
pub mod blocked_hosts;
pub mod client_auth;

use serde_json::{Value, json};
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::ClientId,
    token::{Client as ClientSecretKind, Token},
};
use service_rules::{
    clients::Client,
    display_name::DisplayName,
    registration::{self, Redirects, RegistrationError},
    revocation::Subject,
};

use crate::{
    app::App,
    crypto::{digest::sha256, random},
    flows::{
        operator::Operator,
        revocation::{self, RevocationTransaction},
    },
    store::{self, Batch, clients::NewClient},
};

/// Clients on one page of the list.
const CLIENTS_PER_PAGE: i64 = 1_000;
/// Sessions that are revoked in one transaction.
const SESSIONS_PER_TRANSACTION: i64 = 1_000;
/// Characters of the name that an operator gives a client.
const MAX_CLIENT_NAME_CHARS: usize = 100;

/// A client that an operator registers.
#[derive(Default)]
pub struct ClientToRegister {
    pub name: String,
    pub redirect_uris: Vec<String>,
    /// It authenticates by a secret.
    pub with_secret: bool,
    /// It authenticates by signatures; these are its public keys.
    pub jwks: Option<Value>,
    pub may_introspect: bool,
    pub operator: Operator,
}

/// A client that was registered, with the secret that is shown once.
pub struct RegisteredClient {
    pub id: String,
    pub secret: Option<Token<ClientSecretKind>>,
}

pub async fn create(app: &App, wanted: &ClientToRegister) -> anyhow::Result<RegisteredClient> {
    let now = app.clock.now();
    // Users read it on the consent page, where nothing marks it as unverified.
    let name = DisplayName::parse(&wanted.name, MAX_CLIENT_NAME_CHARS, &app.config.brand.own_names);
    let name = name.map_err(|wrong| anyhow::anyhow!("the name {}", wrong.message()))?;
    let said = check(&wanted.redirect_uris)?;
    if let Some(jwks) = &wanted.jwks {
        anyhow::ensure!(
            !registration::has_private_key(jwks),
            "the file contains a private or a symmetric key: use public keys only"
        );
        assertions::check_keys(jwks, &client_auth::ALGORITHMS)?;
    }
    let secret = wanted.with_secret.then(random::client_secret).transpose()?;
    let made = RegisteredClient { id: random::id::<ClientId>(now)?.to_string(), secret };
    let digest = made.secret.as_ref().map(|secret| sha256(secret.expose()));
    let new = NewClient {
        id: &made.id,
        name: &name,
        redirect_uris: &said.redirect_uris,
        origins: &said.origins,
        may_introspect: wanted.may_introspect,
        secret: digest.as_ref(),
        jwks: wanted.jwks.as_ref(),
    };
    let details =
        json!({ "name": name.as_str(), "redirectUris": said.redirect_uris, "mayIntrospect": wanted.may_introspect });
    let event = wanted.operator.event(EventName::ClientCreated, now, details)?.client(&made.id);
    let db = app.database.begin().await?;
    store::clients::insert(&db, &new, now).await?;
    store::audit_events::insert(&db, &event).await?;
    db.commit().await?;
    Ok(made)
}

/// A client without redirect URIs cannot use the authorization endpoint.
fn check(redirect_uris: &[String]) -> anyhow::Result<Redirects> {
    if redirect_uris.is_empty() {
        return Ok(Redirects::default());
    }
    registration::check_redirects(redirect_uris).map_err(|error| match error {
        RegistrationError::RedirectUri(text) | RegistrationError::Metadata(text) => anyhow::anyhow!(text),
    })
}

/// A page of clients, in the order of their ids, after the given one. An empty page is the end.
pub async fn list(app: &App, after: Option<&str>) -> anyhow::Result<Vec<Client>> {
    Ok(store::clients::list(&app.database.connect().await?, after, CLIENTS_PER_PAGE).await?)
}

/// Disables a client, and revokes its access tokens. `false`: it was disabled already, or does not exist.
pub async fn disable(app: &App, operator: &Operator, id: &str) -> anyhow::Result<bool> {
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    if !store::clients::mark_disabled(transaction.db(), id, Some(now)).await? {
        return Ok(false);
    }
    transaction.revoke(Subject::Client(id.to_owned()), Reason::ClientDisabled)?;
    let event = operator.event(EventName::ClientDisabled, now, json!({}))?.client(id);
    store::audit_events::insert(transaction.db(), &event).await?;
    revocation::finish(app, transaction).await?;
    Ok(true)
}

/// Enables a disabled client. `false`: it was not disabled, or does not exist.
pub async fn enable(app: &App, operator: &Operator, id: &str) -> anyhow::Result<bool> {
    let event = operator.event(EventName::ClientEnabled, app.clock.now(), json!({}))?.client(id);
    let db = app.database.begin().await?;
    if !store::clients::mark_disabled(&db, id, None).await? {
        return Ok(false);
    }
    store::audit_events::insert(&db, &event).await?;
    db.commit().await?;
    Ok(true)
}

/// Revokes every session of a client, which may open new ones. Returns how many, or `None` if the client does not exist.
///
/// There may be very many, so they are revoked in batches. Each batch also revokes all access tokens of the client, so no
/// access token outlives its session.
pub async fn revoke_sessions(app: &App, operator: &Operator, id: &str) -> anyhow::Result<Option<u64>> {
    if store::clients::find(&app.database.connect().await?, id).await?.is_none() {
        return Ok(None);
    }
    let (reason, mut total) = (Reason::RevokedByAdmin, 0);
    loop {
        let now = app.clock.now();
        let mut transaction = RevocationTransaction::begin(app, now).await?;
        let batch = Batch { now, size: SESSIONS_PER_TRANSACTION };
        let revoked = store::grants::mark_revoked_by_client(transaction.db(), id, reason, batch).await?;
        total += revoked;
        transaction.revoke(Subject::Client(id.to_owned()), reason)?;
        let is_last = revoked < SESSIONS_PER_TRANSACTION.unsigned_abs();
        if is_last {
            let details = json!({ "sessions": total });
            let event = operator.event(EventName::ClientSessionsRevoked, now, details)?.client(id);
            store::audit_events::insert(transaction.db(), &event).await?;
        }
        revocation::finish(app, transaction).await?;
        if is_last {
            return Ok(Some(total));
        }
    }
}

/// Replaces the redirect URIs of a client. `false`: it does not exist.
pub async fn set_redirect_uris(
    app: &App,
    operator: &Operator,
    id: &str,
    redirect_uris: &[String],
) -> anyhow::Result<bool> {
    let said = check(redirect_uris)?;
    let details = json!({ "redirectUris": said.redirect_uris });
    let event = operator.event(EventName::ClientRedirectUrisSet, app.clock.now(), details)?.client(id);
    let db = app.database.begin().await?;
    if !store::clients::update_redirect_uris(&db, id, &said).await? {
        return Ok(false);
    }
    store::audit_events::insert(&db, &event).await?;
    db.commit().await?;
    Ok(true)
}

/// Whether an origin belongs to a client.
pub async fn is_origin(app: &App, origin: &str) -> anyhow::Result<bool> {
    Ok(store::clients::is_origin(&app.database.connect().await?, origin).await?)
}
