//! Refreshing: a refresh token for a new pair, at `POST /oauth/token`.
//!
//! 1. The text must have the form of a refresh token; a wrong checksum costs no query.
//! 2. One read by primary key finds the grant with its user, its client and its membership.
//! 3. `rotation::judge` says what presenting this token means.
//! 4. One guarded statement moves the grant on, in place. If somebody else was faster, begin again at 2.
//! 5. A replay ends the grant; that is committed before it is refused.
//!
//! Nothing is lost if this node dies anywhere between: the token that was presented goes on working until its successor
//! is used.

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
    lifetimes,
    resources::Resource,
    rotation::{self, Presented, Verdict},
    scopes,
    signing::later,
};

use crate::{
    app::App,
    database::{Connection, Error},
    failure::Failure,
    flows::{
        Asker,
        clients::PresentedClient,
        issue::{self, Access, Lineage},
        prove_client,
        replay::{self, Replay},
    },
    refresh_token::UnverifiedToken,
    store::{
        self,
        grants::{Advance, StoredGrant},
    },
};

/// Whoever loses a race finds the grant moved on; losing so many in a row does not happen.
const TRIES: usize = 8;

#[derive(Debug)]
pub enum Refusal {
    Client(clients::Refusal),
    Unusable(&'static str),
    Scope,
    Target,
    /// The token opens nothing; if it is genuine, its holder is told why.
    Token(Option<Reason>),
}

/// Whom else a request must speak for, where the token alone does not do.
#[derive(Clone, Copy, Debug)]
pub enum Bearer {
    User(UserId),
    Session(GrantId),
}

impl Bearer {
    fn speaks_for(self, grant: &StoredGrant) -> bool {
        match self {
            Self::User(id) => id == grant.user_id,
            Self::Session(id) => id == grant.id,
        }
    }
}

pub async fn refresh<K: TokenKind>(
    app: &App,
    asker: &Asker,
    client: &PresentedClient,
    request: &TokenRequest,
    bearer: Option<Bearer>,
) -> Result<TokenResponse<K>, Failure<Refusal>> {
    app.revocations.check()?;
    let now = app.clock.now();
    let refuse = |why| Err(Failure::Refused(why));
    let Some(text) = &request.refresh_token else { return refuse(Refusal::Unusable("refresh_token is missing")) };
    let Some(token) = UnverifiedToken::read::<K>(text) else { return refuse(Refusal::Token(None)) };
    let proof = prove(app, asker, client).await?;
    let refreshing = Refreshing { app, asker, client, token, now };
    for _ in 0..TRIES {
        let db = app.database.connect().await?;
        let found = store::grants::find(&db, refreshing.token.grant_id).await?;
        let Some(grant) = found else { return refuse(Refusal::Token(None)) };
        let genuine = is_genuine(app, &refreshing.token, &grant, now)?;
        let of_this_door = (K::PREFIX == McpRefresh::PREFIX) == (grant.client.id == SERVICE_MCP);
        if !of_this_door || bearer.is_some_and(|bearer| !bearer.speaks_for(&grant)) {
            return refuse(Refusal::Token(None));
        }
        if genuine && client.id.as_ref() == Some(&grant.client.id) {
            clients::authenticate(Some(&grant.client), &proof)
                .map_err(|refusal| Failure::Refused(Refusal::Client(refusal)))?;
        }
        let verdict = refreshing.judge(&grant, genuine)?;
        app.metrics.refreshed(verdict);
        match verdict {
            Verdict::Refuse(rotation::Refusal::NotAccepted) => return refuse(Refusal::Token(None)),
            Verdict::Refuse(rotation::Refusal::Dead(reason)) => return refuse(Refusal::Token(Some(reason))),
            Verdict::Revoke(reason) => {
                drop(db);
                let replay = Replay { grant: &grant, presented: refreshing.token.generation, reason };
                if replay.end(app, asker, now).await? {
                    return refuse(Refusal::Token(Some(reason)));
                }
            }
            Verdict::Repeat | Verdict::Rotate | Verdict::Supersede | Verdict::FastForward => {
                let scopes = asked_for(app, request, &grant).map_err(Failure::Refused)?;
                if let Some(pair) = refreshing.advance(db, &grant, verdict, scopes).await? {
                    return Ok(pair);
                }
            }
        }
    }
    Err(Error::Unavailable("the grant moved on every time".into()).into())
}

/// By what the client proved itself, if it tries to; once, because what it signed counts once.
async fn prove(app: &App, asker: &Asker, client: &PresentedClient) -> Result<Proof, Failure<Refusal>> {
    let (Some(id), true) = (&client.id, client.proof() != Proof::Nothing) else { return Ok(client.proof()) };
    let found = {
        let db = app.database.connect().await?;
        store::clients::find(&db, id).await?
    };
    prove_client::prove(app, asker, found.as_ref(), client).await.map_err(|failure| failure.map(Refusal::Client))
}

/// What the request wants of the grant, which may be less than it has and nothing else.
fn asked_for(app: &App, request: &TokenRequest, grant: &StoredGrant) -> Result<Scopes, Refusal> {
    let is_other = |uri: &String| !Resource::is_of(uri, &app.config.base_url, &grant.audience);
    if request.resource.as_ref().is_some_and(is_other) {
        return Err(Refusal::Target);
    }
    let same = |workspace: &String| grant.workspace_id.is_some_and(|own| own.to_string() == *workspace);
    if !request.workspace_id.as_ref().is_none_or(same) {
        return Err(Refusal::Unusable("workspace_id is not that of the sign-in, and a refresh cannot change it"));
    }
    scopes::narrow(request.scope.as_deref(), grant.scopes).map_err(|_| Refusal::Scope)
}

struct Refreshing<'a> {
    app: &'a App,
    asker: &'a Asker,
    client: &'a PresentedClient,
    token: UnverifiedToken,
    now: Timestamp,
}

impl Refreshing<'_> {
    fn judge(&self, grant: &StoredGrant, genuine: bool) -> anyhow::Result<Verdict> {
        let presented = Presented {
            genuine,
            generation: self.token.generation,
            client_id: self.client.id.as_deref(),
            address: self.asker.address,
        };
        Ok(rotation::judge(&presented, &facts(self.app, grant)?, self.now))
    }

    /// Carries a verdict out that hands out tokens; `None`: somebody else was faster.
    async fn advance<K: TokenKind>(
        &self,
        db: Connection,
        grant: &StoredGrant,
        verdict: Verdict,
        scopes: Scopes,
    ) -> anyhow::Result<Option<TokenResponse<K>>> {
        let seen = grant.facts.generations;
        let (key, issued) = match rotation::next(verdict, self.token.generation, seen) {
            Some(to) => {
                let key = self.app.vault.key_in_use();
                let advance = Advance { to, issued_key: key, at: self.now, from: self.asker.address.to_string() };
                if !self.write(db, grant, &advance, verdict).await? {
                    return Ok(None);
                }
                (key, to.issued)
            }
            None if verdict == Verdict::Repeat => {
                let key = grant.issued_key;
                (key.ok_or_else(|| anyhow::anyhow!("a rotated grant has no issued_key"))?, seen.issued)
            }
            None => anyhow::bail!("the grant has no number left"),
        };
        let lineage = Lineage { grant_id: grant.id, salt: &grant.salt };
        let access = Access {
            grant_id: grant.id,
            user_id: grant.user_id,
            client_id: &grant.client.id,
            scopes,
            workspace_id: grant.workspace_id,
            audience: &grant.audience,
            ends_at: grant.facts.expires_at,
        };
        issue::pair(self.app, &access, lineage.token(self.app, key, issued)?, self.now).map(Some)
    }

    async fn write(
        &self,
        db: Connection,
        grant: &StoredGrant,
        advance: &Advance,
        verdict: Verdict,
    ) -> anyhow::Result<bool> {
        let seen = grant.facts.generations;
        if verdict != Verdict::FastForward {
            return Ok(store::grants::advance(&db, grant.id, seen, advance).await?);
        }
        drop(db);
        let db = self.app.database.begin().await?;
        let advanced = store::grants::advance(&db, grant.id, seen, advance).await?;
        if advanced {
            store::audit_events::insert(
                &db,
                &replay::event(self.asker, EventName::RefreshFastForwarded, grant, self.token.generation, self.now)?,
            )
            .await?;
            db.commit().await?;
        }
        Ok(advanced)
    }
}

/// What is to be judged about a grant: its row, and whether it was opened before everything ended.
pub fn facts(app: &App, grant: &StoredGrant) -> anyhow::Result<rotation::Grant> {
    let mut facts = grant.facts.clone();
    let over = app.revocations.ended_everybody_since(grant.created_at)?;
    facts.ended = facts.ended.or(over.then_some(Reason::RevokedByAdmin));
    Ok(facts)
}

/// Whether a token is one of this grant's; an error if this node lacks the root key that would tell.
pub fn is_genuine(app: &App, token: &UnverifiedToken, grant: &StoredGrant, now: Timestamp) -> anyhow::Result<bool> {
    if let Some(genuine) = token.is_genuine(&app.vault, &grant.salt) {
        return Ok(genuine);
    }
    let facts = facts(app, grant)?;
    let over = facts.ended.is_some() || facts.expires_at <= now || facts.rotated_at <= idle_since(now);
    // The key of the youngest token is one that other nodes use. Any other is gone for good.
    let in_use = grant.issued_key.is_none_or(|key| key == token.key_id);
    if in_use && !over {
        return Err(Error::Unavailable(format!("root key {} is not configured", token.key_id)).into());
    }
    Ok(false)
}

/// Sessions that were last refreshed before this are dead.
#[must_use]
pub fn idle_since(now: Timestamp) -> Timestamp {
    later(now, -lifetimes::REFRESH_IDLE)
}
