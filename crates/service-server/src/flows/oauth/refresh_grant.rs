//! Exchanges a refresh token for a new pair: the refresh grant of `POST /oauth/token`.
//!
//! 1. The text must have the form of a refresh token; a wrong checksum costs no query.
//! 2. One read by primary key finds the grant with its user, its client and its membership. If it waits for its user to sign in
//!    through a connection, a second read finds out whether the connection is still enabled.
//! 3. `rotation::judge` says what presenting this token means.
//! 4. One guarded statement advances the grant, in place. If another request advanced it first, begin again at 2.
//! 5. A replay revokes the grant; that is committed before the request is refused.
//!
//! Requests that arrive together share the statements of 2 and 4 (`batches/grants.rs`). A request whose grant a batch did not
//! advance writes alone from then on, and waits for the transaction that was in its way. So does everything that writes more.
//!
//! No session is lost if this node stops between these steps: the presented token stays valid until its successor is used.

use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{GrantId, UserId},
    oauth::{SERVICE_MCP, TokenRequest, TokenResponse},
    scope::Scopes,
    token::{McpRefresh, TokenKind},
};
use service_rules::{
    Timestamp,
    clients::{self, Proof},
    resources::Resource,
    rotation::{self, PresentedRefreshToken, RotationRefusal, RotationVerdict},
    scopes,
};

use crate::{
    app::App,
    batches::grants::InBatch,
    database::Error,
    flows::{
        RequestMeta,
        authenticate::{current_sso_deadline, grant_facts},
        clients::client_auth::{self, ClientProofError, PresentedClient},
        oauth::{
            issue::{self, Access, RefreshSeed},
            token_error::{InvalidGrant, InvalidTokenRequest, TokenError},
        },
        revocation::replay::{self, Replay},
    },
    store::{
        self,
        grant_batches::WantedRotation,
        grants::{GrantRotation, StoredGrant},
    },
    telemetry::traces,
    tokens::refresh_token::UnverifiedToken,
};

/// A request that loses a race reads the grant again. Losing this many races in a row does not happen.
const MAX_REFRESH_ATTEMPTS: usize = 8;

/// What else must authenticate a request, where the refresh token alone does not suffice.
#[derive(Clone, Copy, Debug)]
pub enum Bearer {
    User(UserId),
    Session(GrantId),
}

impl Bearer {
    fn authorizes(self, grant: &StoredGrant) -> bool {
        match self {
            Self::User(id) => id == grant.user_id,
            Self::Session(id) => id == grant.id,
        }
    }
}

pub async fn refresh<K: TokenKind>(
    app: &App,
    meta: &RequestMeta,
    client: &PresentedClient,
    request: &TokenRequest,
    bearer: Option<Bearer>,
) -> Result<TokenResponse<K>, TokenError> {
    traces::name_flow("refresh_grant");
    app.revocations.check()?;
    let now = app.clock.now();
    let text = request.refresh_token.as_ref().ok_or(InvalidTokenRequest::MissingParameter("refresh_token"))?;
    let token = UnverifiedToken::read::<K>(text).ok_or_else(|| not_accepted(None))?;
    let proof = verify_proof(app, meta, client).await?;
    let refreshing = Refreshing { app, meta, client, token, now };
    for attempt in 0..MAX_REFRESH_ATTEMPTS {
        let found = app.grant_batches.find(refreshing.token.grant_id).await?;
        let Some(mut grant) = found else { return Err(unknown_grant(app, client).await?) };
        grant.facts.sso_until = current_sso_deadline(app, grant.connection_id, grant.facts.sso_until, now).await?;
        let genuine = is_genuine(app, &refreshing.token, &grant, now)?;
        // Each kind of refresh token is accepted at its own endpoint only.
        let is_right_endpoint = (K::PREFIX == McpRefresh::PREFIX) == (grant.client.id == SERVICE_MCP);
        if !is_right_endpoint || bearer.is_some_and(|bearer| !bearer.authorizes(&grant)) {
            return Err(not_accepted(None));
        }
        if genuine && client.id.as_ref() == Some(&grant.client.id) {
            clients::authenticate(Some(&grant.client), &proof)?;
        }
        let verdict = refreshing.judge(&grant, genuine)?;
        app.metrics.refreshed(verdict);
        match verdict {
            RotationVerdict::Refuse(RotationRefusal::NotAccepted) => return Err(not_accepted(None)),
            RotationVerdict::Refuse(RotationRefusal::Inactive(reason)) => {
                replay::note_revoked(app, meta, &grant, refreshing.token.generation, now).await?;
                return Err(inactive(reason, &grant));
            }
            RotationVerdict::Revoke(reason) => {
                let replay = Replay { grant: &grant, presented: refreshing.token.generation, reason };
                if replay.revoke(app, meta, now).await? {
                    return Err(not_accepted(Some(reason)));
                }
            }
            RotationVerdict::Repeat
            | RotationVerdict::Rotate
            | RotationVerdict::Supersede
            | RotationVerdict::FastForward => {
                let scopes = check_request(app, request, &grant)?;
                let step = Step { verdict, may_share: attempt == 0 };
                if let Some(pair) = refreshing.advance(&grant, step, scopes).await? {
                    return Ok(pair);
                }
            }
        }
    }
    Err(Error::Unavailable("the grant was advanced by other requests every time".into()).into())
}

/// The error for a refresh token that is not accepted. The reason is given for a genuine token only.
const fn not_accepted(reason: Option<Reason>) -> TokenError {
    TokenError::InvalidGrant(InvalidGrant::RefreshToken(reason))
}

/// The error for a genuine refresh token of a session that is not valid.
const fn inactive(reason: Reason, grant: &StoredGrant) -> TokenError {
    match reason {
        Reason::SsoAgain => TokenError::InvalidGrant(InvalidGrant::SsoAgain(grant.connection_id)),
        reason => not_accepted(Some(reason)),
    }
}

/// The error for a refresh token of a session that does not exist. A client that does not exist either is told so: then it
/// registers again, instead of sending its user to a page that knows no such app.
async fn unknown_grant(app: &App, client: &PresentedClient) -> Result<TokenError, Error> {
    // A client with a metadata document is known by its URL, whether or not it was stored.
    let Some(id) = client.id.as_ref().filter(|id| !id.starts_with("https://")) else { return Ok(not_accepted(None)) };
    let is_known = store::clients::find(&app.database.connect().await?, id).await?.is_some();
    Ok(if is_known { not_accepted(None) } else { TokenError::InvalidClient })
}

/// Verifies the client's authentication, if the request has one. Not repeated with the steps, because an assertion can be
/// used once.
async fn verify_proof(app: &App, meta: &RequestMeta, client: &PresentedClient) -> Result<Proof, ClientProofError> {
    let (Some(id), true) = (&client.id, client.proof() != Proof::Nothing) else { return Ok(client.proof()) };
    let found = {
        let db = app.database.connect().await?;
        store::clients::find(&db, id).await?
    };
    client_auth::verify_proof(app, meta, found.as_ref(), client).await
}

/// The scopes of the new pair. The request may narrow the scopes of the grant, and change nothing else.
fn check_request(app: &App, request: &TokenRequest, grant: &StoredGrant) -> Result<Scopes, TokenError> {
    let is_other = |uri: &String| !Resource::is_of(uri, &app.config.base_url, &grant.audience);
    if request.resource.as_ref().is_some_and(is_other) {
        return Err(TokenError::InvalidTarget { expected: grant.audience.clone() });
    }
    let same = |workspace: &String| grant.workspace_id.is_some_and(|own| own.to_string() == *workspace);
    if !request.workspace_id.as_ref().is_none_or(same) {
        return Err(InvalidTokenRequest::OtherWorkspace.into());
    }
    Ok(scopes::narrow(request.scope.as_deref(), grant.scopes)?)
}

/// A verdict to be carried out.
#[derive(Clone, Copy, Debug)]
struct Step {
    verdict: RotationVerdict,
    /// Whether the grant may be advanced in a batch with others.
    may_share: bool,
}

struct Refreshing<'a> {
    app: &'a App,
    meta: &'a RequestMeta,
    client: &'a PresentedClient,
    token: UnverifiedToken,
    now: Timestamp,
}

impl Refreshing<'_> {
    fn judge(&self, grant: &StoredGrant, genuine: bool) -> Result<RotationVerdict, Error> {
        let presented = PresentedRefreshToken {
            genuine,
            generation: self.token.generation,
            client_id: self.client.id.as_deref(),
            address: self.meta.address,
        };
        Ok(rotation::judge(&presented, &grant_facts(self.app, grant)?, self.now))
    }

    /// Carries out a verdict that issues tokens. `None`: another request advanced the grant first.
    async fn advance<K: TokenKind>(
        &self,
        grant: &StoredGrant,
        step: Step,
        scopes: Scopes,
    ) -> anyhow::Result<Option<TokenResponse<K>>> {
        let seen = grant.facts.generations;
        let (key, issued) = match rotation::next(step.verdict, self.token.generation, seen) {
            Some(to) => {
                let key = self.app.root_keys.key_in_use();
                let advance = GrantRotation { to, issued_key: key, at: self.now, from: self.meta.address.to_string() };
                if !self.write(grant, advance, step).await? {
                    return Ok(None);
                }
                (key, to.issued)
            }
            None if step.verdict == RotationVerdict::Repeat => {
                let key = grant.issued_key;
                (key.ok_or_else(|| anyhow::anyhow!("a rotated grant has no issued_key"))?, seen.issued)
            }
            None => anyhow::bail!("the grant has no number left"),
        };
        let seed = RefreshSeed { grant_id: grant.id, salt: &grant.salt };
        let access = Access {
            grant_id: grant.id,
            user_id: grant.user_id,
            client_id: &grant.client.id,
            scopes,
            workspace_id: grant.workspace_id,
            audience: &grant.audience,
            ends_at: grant.token_end(),
        };
        issue::sign_pair(self.app, &access, seed.derive(self.app, key, issued)?, self.now).map(Some)
    }

    /// Advances a grant; `false`: another request advanced it first, or is about to.
    async fn write(&self, grant: &StoredGrant, rotation: GrantRotation, step: Step) -> anyhow::Result<bool> {
        let seen = grant.facts.generations;
        if step.verdict == RotationVerdict::FastForward {
            return self.fast_forward(grant, &rotation).await;
        }
        let wanted = WantedRotation { id: grant.id, seen, rotation };
        if step.may_share
            && let Some(rotated) = self.app.grant_batches.rotate(&wanted).await?
        {
            return Ok(rotated == InBatch::Rotated);
        }
        let db = self.app.database.connect().await?;
        Ok(store::grants::advance(&db, grant.id, seen, &wanted.rotation).await?)
    }

    async fn fast_forward(&self, grant: &StoredGrant, rotation: &GrantRotation) -> anyhow::Result<bool> {
        let db = self.app.database.begin().await?;
        let advanced = store::grants::advance(&db, grant.id, grant.facts.generations, rotation).await?;
        if advanced {
            let event =
                replay::event(self.meta, EventName::RefreshFastForwarded, grant, self.token.generation, self.now)?;
            store::audit_events::insert(&db, &event).await?;
            db.commit().await?;
        }
        Ok(advanced)
    }
}

/// Whether a token belongs to this grant. An error if this node lacks the root key to tell.
pub fn is_genuine(app: &App, token: &UnverifiedToken, grant: &StoredGrant, now: Timestamp) -> anyhow::Result<bool> {
    if let Some(genuine) = token.is_genuine(&app.root_keys, &grant.salt) {
        return Ok(genuine);
    }
    let facts = grant_facts(app, grant)?;
    let is_inactive = facts.ended.is_some() || facts.expires_at <= now || facts.rotated_at <= rotation::idle_since(now);
    // Other nodes use the key of the newest token. Any other key was removed for good.
    let in_use = grant.issued_key.is_none_or(|key| key == token.key_id);
    if in_use && !is_inactive {
        return Err(Error::Unavailable(format!("root key {} is not configured", token.key_id)).into());
    }
    Ok(false)
}
