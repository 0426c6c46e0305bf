//! Exchanging an authorization code for tokens: the code grant of `POST /oauth/token`.
//!
//! 1. The text must have the form of a code; a wrong checksum costs no query.
//! 2. The client must prove itself as it was registered to.
//! 3. The code's row is held, so that of many uses at once each is judged after the one before.
//! 4. `codes::judge` says what presenting it means: one use opens a session, a second one ends it.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::GrantId,
    oauth::{TokenRequest, TokenResponse},
    token::{AuthorizationCode, Token},
};
use service_rules::{
    Timestamp, authorization,
    clients::{self, Client, GrantType},
    codes::{self, Presented, Verdict},
    redirect,
    resources::Resource,
};

use crate::{
    app::App,
    database::Connection,
    digest::{Digest, sha256},
    failure::Failure,
    flows::{Asker, clients::PresentedClient, end_access::EndingTransaction, issue, prove_client},
    mint,
    store::{self, authorization_codes::Stored, consents::About},
};

#[derive(Debug)]
pub enum Refusal {
    Client(clients::Refusal),
    Unusable(&'static str),
    Target,
    /// Whatever is wrong with the code: nobody learns what.
    Code,
}

pub async fn exchange_code(
    app: &App,
    asker: &Asker,
    client: &PresentedClient,
    request: &TokenRequest,
) -> Result<TokenResponse, Failure<Refusal>> {
    let now = app.clock.now();
    app.revocations.check()?;
    let refuse = |why| Failure::Refused(why);
    let id = client.id.as_deref().ok_or(refuse(Refusal::Unusable("client_id is missing")))?;
    let code = request.code.as_ref().ok_or(refuse(Refusal::Unusable("code is missing")))?;
    let verifier = request.code_verifier.as_ref().ok_or(refuse(Refusal::Unusable("code_verifier is missing")))?;
    let code = Token::<AuthorizationCode>::parse(code.expose()).ok_or(refuse(Refusal::Code))?;
    let found = {
        let db = app.database.connect().await?;
        store::clients::find(&db, id).await?
    };
    let proof = prove_client::prove(app, asker, found.as_ref(), client)
        .await
        .map_err(|failure| failure.map(Refusal::Client))?;
    let client = clients::judge(found.as_ref(), &proof, GrantType::AuthorizationCode)
        .map_err(|refusal| Failure::Refused(Refusal::Client(refusal)))?;
    let challenge = authorization::is_verifier(verifier.expose()).then(|| challenge_of(verifier.expose()));
    let presented = Presented {
        client_id: &client.id,
        redirect_uri: request.redirect_uri.as_deref(),
        challenge: challenge.as_deref(),
    };
    let redeeming = Redeeming { app, asker, client, request, digest: sha256(code.expose()), now };
    redeeming.run(&presented).await
}

/// What a verifier was announced by (RFC 7636 section 4.6).
#[must_use]
pub fn challenge_of(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(sha256(verifier))
}

struct Redeeming<'a> {
    app: &'a App,
    asker: &'a Asker,
    client: &'a Client,
    request: &'a TokenRequest,
    digest: Digest,
    now: Timestamp,
}

impl Redeeming<'_> {
    async fn run(&self, presented: &Presented<'_>) -> Result<TokenResponse, Failure<Refusal>> {
        let db = self.app.database.begin().await?;
        let Some(stored) = store::authorization_codes::lock(&db, &self.digest).await? else {
            return Err(Failure::Refused(Refusal::Code));
        };
        match codes::judge(&stored.code, presented, self.now) {
            Verdict::Redeem => self.redeem(db, &stored).await,
            Verdict::Refuse => Err(Failure::Refused(Refusal::Code)),
            Verdict::CountWrongVerifier => {
                store::authorization_codes::count_wrong_verifier(&db, &self.digest).await?;
                db.commit().await?;
                Err(Failure::Refused(Refusal::Code))
            }
            Verdict::Replay => {
                drop(db);
                self.end(stored.grant_id, &stored).await?;
                Err(Failure::Refused(Refusal::Code))
            }
        }
    }

    async fn redeem(&self, db: Connection, stored: &Stored) -> Result<TokenResponse, Failure<Refusal>> {
        let worth = &stored.worth;
        let is_other = |uri: &String| !Resource::is_of(uri, &self.app.config.base_url, &worth.audience);
        if self.request.resource.as_ref().is_some_and(is_other) {
            return Err(Failure::Refused(Refusal::Target));
        }
        let host = redirect::host(&stored.code.redirect_uri);
        let (user_id, audience) = (worth.user_id, &worth.audience);
        let about = About { user_id, client_id: &self.client.id, redirect_host: &host, audience };
        let enabled = store::users::lock_enabled(&db, worth.user_id).await?;
        let member = match worth.workspace_id {
            Some(id) => store::memberships::find_role(&db, worth.user_id, id).await?.is_some(),
            None => true,
        };
        // They may have been signed out meanwhile, or everybody.
        let signed_in_at = store::browser_sessions::lock_signed_in(&db, worth.browser_id, user_id).await?;
        let signed_in = match signed_in_at {
            Some(at) => !self.app.revocations.ended_everybody_since(at)?,
            None => false,
        };
        // What the person agreed to may have been taken back, too.
        if !enabled || !member || !signed_in || store::consents::find(&db, about).await?.is_none() {
            return Err(Failure::Refused(Refusal::Code));
        }
        let id: GrantId = mint::id(self.now)?;
        if !store::authorization_codes::mark_used(&db, &self.digest, id, self.now).await? {
            return Err(Failure::Refused(Refusal::Code));
        }
        let opening = issue::Opening {
            id,
            user_id: worth.user_id,
            client_id: &self.client.id,
            scopes: worth.scopes,
            workspace_id: worth.workspace_id,
            audience: &worth.audience,
            ends_at: issue::end_of_sign_in(self.app, &self.client.id, &worth.audience, self.now),
            event: EventName::SessionOpened,
            method: "code",
        };
        let tokens = issue::open(self.app, &db, self.asker, &opening, self.now).await?;
        db.commit().await?;
        Ok(tokens)
    }

    /// Ends what a code gave that came back.
    async fn end(&self, grant_id: Option<GrantId>, stored: &Stored) -> anyhow::Result<()> {
        let Some(id) = grant_id else { return Ok(()) };
        let mut transaction = EndingTransaction::begin(self.app, self.now).await?;
        if transaction.end_grant(id, Reason::Replayed).await? {
            let mut event = self.asker.event(EventName::CodeReplayed, self.now, json!({}))?;
            event.user_id = Some(stored.worth.user_id);
            event.client_id = Some(&self.client.id);
            event.workspace_id = stored.worth.workspace_id;
            event.subject = Some(id.to_string());
            store::audit_events::insert(transaction.db(), &event).await?;
        }
        Ok(transaction.commit().await?)
    }
}
