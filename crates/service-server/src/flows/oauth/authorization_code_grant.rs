//! Exchanges an authorization code for tokens: the code grant of `POST /oauth/token`.
//!
//! 1. The text must have the form of a code; a wrong checksum costs no query.
//! 2. The client must authenticate as it is registered.
//! 3. The code's row is locked, so that concurrent uses are judged one after the other.
//! 4. `codes::judge` says what presenting it means: the first use opens a session, a second one revokes it.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{GrantId, Id as _, UserId},
    oauth::{TokenRequest, TokenResponse},
    token::{AuthorizationCode, Token},
};
use service_rules::{
    Timestamp, authorization,
    clients::{self, Client, ClientKind, GrantType},
    codes::{self, CodeVerdict, PresentedCode},
    consent, lifetimes,
    lineage::Event,
    redirect,
    resources::Resource,
    signing::later,
};

use crate::{
    app::App,
    crypto::{digest::pkce_challenge, random},
    database::Connection,
    flows::{
        RequestMeta,
        clients::client_auth::{self, PresentedClient},
        oauth::{
            consents,
            issue::{self, SsoSession},
            token_error::{InvalidGrant, InvalidTokenRequest, TokenError},
        },
        revocation::{
            RevocationTransaction,
            lineage::{Cause, LineageRevocation, RevokedLineage},
        },
        sign_in::new_sign_in::NewSignIn,
        sso::required,
    },
    mail::{Email, SignedInWith},
    store::{
        self,
        authorization_codes::{CodeAccess, CodeKey, StoredAuthorizationCode},
        browser_sessions::LockedSignIn,
        consents::{Consent, ConsentKey},
    },
    telemetry::traces,
};

/// The one error for a code that is not accepted, whatever is wrong with it.
const NOT_ACCEPTED: TokenError = TokenError::InvalidGrant(InvalidGrant::AuthorizationCode);

pub async fn exchange_code(
    app: &App,
    meta: &RequestMeta,
    client: &PresentedClient,
    request: &TokenRequest,
) -> Result<TokenResponse, TokenError> {
    traces::name_flow("authorization_code_grant");
    let now = app.clock.now();
    app.revocations.check()?;
    let missing = InvalidTokenRequest::MissingParameter;
    let id = client.id.as_deref().ok_or(missing("client_id"))?;
    let code = request.code.as_ref().ok_or(missing("code"))?;
    let verifier = request.code_verifier.as_ref().ok_or(missing("code_verifier"))?;
    let code = Token::<AuthorizationCode>::parse(code.expose()).ok_or(NOT_ACCEPTED)?;
    let found = {
        let db = app.database.connect().await?;
        store::clients::find(&db, id).await?
    };
    let proof = client_auth::verify_proof(app, meta, found.as_ref(), client).await?;
    let client = clients::judge(found.as_ref(), &proof, GrantType::AuthorizationCode)?;
    let challenge = authorization::is_verifier(verifier.expose()).then(|| pkce_challenge(verifier.expose()));
    let presented = PresentedCode {
        client_id: &client.id,
        redirect_uri: request.redirect_uri.as_deref(),
        challenge: challenge.as_deref(),
    };
    let redeeming = Redeeming { app, meta, client, request, code: CodeKey::of(&code), now };
    redeeming.run(&presented).await
}

struct Redeeming<'a> {
    app: &'a App,
    meta: &'a RequestMeta,
    client: &'a Client,
    request: &'a TokenRequest,
    code: CodeKey,
    now: Timestamp,
}

impl Redeeming<'_> {
    async fn run(&self, presented: &PresentedCode<'_>) -> Result<TokenResponse, TokenError> {
        let db = self.app.database.begin().await?;
        let Some(stored) = store::authorization_codes::lock(&db, &self.code).await? else {
            return Err(NOT_ACCEPTED);
        };
        match codes::judge(&stored.code, presented, self.now) {
            CodeVerdict::Redeem => self.redeem(db, &stored).await,
            CodeVerdict::Refuse => Err(NOT_ACCEPTED),
            CodeVerdict::CountWrongVerifier => {
                store::authorization_codes::count_wrong_verifier(&db, &self.code).await?;
                db.commit().await?;
                Err(NOT_ACCEPTED)
            }
            CodeVerdict::Replay => {
                drop(db);
                self.revoke_replayed(stored.grant_id, &stored).await?;
                Err(NOT_ACCEPTED)
            }
        }
    }

    async fn redeem(&self, db: Connection, stored: &StoredAuthorizationCode) -> Result<TokenResponse, TokenError> {
        let worth = &stored.worth;
        let is_other = |uri: &String| !Resource::is_of(uri, &self.app.config.base_url, &worth.audience);
        if self.request.resource.as_ref().is_some_and(is_other) {
            return Err(TokenError::InvalidTarget { expected: worth.audience.clone() });
        }
        let host = redirect::host(&stored.code.redirect_uri);
        let (user_id, audience) = (worth.user_id, &worth.audience);
        let about = ConsentKey { user_id, client_id: &self.client.id, redirect_host: &host, audience };
        let enabled = store::users::lock_enabled(&db, worth.user_id).await?;
        let requirement = required::lock_requirement(self.app, &db, user_id).await?;
        let member = match worth.workspace_id {
            Some(id) => store::memberships::find_role(&db, worth.user_id, id).await?.is_some(),
            None => true,
        };
        // The user, or all users, may have been signed out meanwhile.
        let locked = store::browser_sessions::lock_signed_in(&db, worth.browser_id, user_id).await?;
        let browser = match locked {
            Some(locked) if !self.app.revocations.revoked_all_since(locked.sign_in.signed_in_at)? => locked,
            Some(_) | None => return Err(NOT_ACCEPTED),
        };
        if required::is_from_before(requirement, &browser.sign_in) {
            return Err(NOT_ACCEPTED);
        }
        // The consent may have been withdrawn or narrowed, too.
        let consent = store::consents::find(&db, about, consents::counting_at(self.now)).await?;
        let covers = |consent: &Consent| consent::covers(self.client, consent.prior(), worth.scopes);
        let consent = consent.filter(covers).ok_or(NOT_ACCEPTED)?;
        let ends_at = self.session_end(worth, &consent);
        if !enabled || !member || ends_at <= self.now {
            return Err(NOT_ACCEPTED);
        }
        let id: GrantId = random::id_in(user_id.shard(), self.now)?;
        if !store::authorization_codes::mark_used(&db, &self.code, id, self.now).await? {
            return Err(NOT_ACCEPTED);
        }
        store::consents::mark_used(&db, about, self.now).await?;
        store::clients::mark_agreed(&db, about.client_id, self.now).await?;
        let opening = issue::Opening {
            id,
            user_id: worth.user_id,
            client_id: &self.client.id,
            scopes: worth.scopes,
            workspace_id: worth.workspace_id,
            audience: &worth.audience,
            ends_at,
            event: EventName::SessionOpened,
            method: "code",
            auth_time: browser.sign_in.auth_time,
            made_by: Some(worth.browser_id.to_string()),
            sso: self.sso_session(&browser),
        };
        let tokens = self.open(&db, &opening, &host).await?;
        db.commit().await?;
        self.app.mail_waiting.notify_one();
        Ok(tokens)
    }

    /// Opens the session. If the client has no other, the user gets a mail.
    async fn open(&self, db: &Connection, opening: &issue::Opening<'_>, host: &str) -> anyhow::Result<TokenResponse> {
        let is_new = !store::client_grants::exists(db, opening.user_id, self.client).await?;
        let tokens = issue::open(self.app, db, self.meta, opening, self.now).await?;
        if is_new {
            let (user_id, session_id) = (opening.user_id, opening.id.to_string());
            let new = NewSignIn { user_id, session_id, device: None, with: SignedInWith::app(&self.client.id, host) };
            new.enqueue_mail(self.app, self.meta, db, self.now).await?;
        }
        Ok(tokens)
    }

    /// The single sign-on of the browser. A session with a first-party client is interactive, and lasts as long as the sign-in
    /// in the browser; other clients keep their access for longer.
    fn sso_session(&self, browser: &LockedSignIn) -> Option<SsoSession> {
        let connection_id = browser.sign_in.connection_id?;
        let is_interactive = self.client.kind == ClientKind::FirstParty;
        Some(SsoSession { connection_id, until: is_interactive.then_some(browser.expires_at) })
    }

    /// When the session expires: not after the end date that the user saw when the code was made, nor after the one that
    /// the consent has now.
    fn session_end(&self, worth: &CodeAccess, consent: &Consent) -> Timestamp {
        let longest = issue::session_expiry(self.app, &self.client.id, &worth.audience, self.now);
        [worth.ends_at, consent.expires_at].into_iter().flatten().fold(longest, Timestamp::min)
    }

    /// Revokes the grant of a replayed code with everything that it created, and notifies the user. Commits.
    async fn revoke_replayed(&self, grant_id: Option<GrantId>, stored: &StoredAuthorizationCode) -> anyhow::Result<()> {
        let Some(id) = grant_id else { return Ok(()) };
        let user_id = stored.worth.user_id;
        let mut transaction = RevocationTransaction::begin(self.app, self.now).await?;
        let ended = transaction.revoke_grant(id, Reason::Replayed).await?;
        let lineage = LineageRevocation { cause: Cause::Request(self.meta), user_id, event: Event::Replayed };
        let made = lineage.revoke_once(&mut transaction, id).await?.unwrap_or_default();
        // A session that was revoked before may have created something all the same.
        if ended || !made.is_empty() {
            let mut event = self.meta.event(EventName::CodeReplayed, self.now, json!({}))?;
            event.user_id = Some(user_id);
            event.client_id = Some(&self.client.id);
            event.workspace_id = stored.worth.workspace_id;
            event.subject = Some(id.to_string());
            store::audit_events::insert(transaction.db(), &event).await?;
            self.tell(&transaction, user_id, &made).await?;
        }
        transaction.commit().await?;
        self.app.mail_waiting.notify_one();
        Ok(())
    }

    async fn tell(
        &self,
        transaction: &RevocationTransaction<'_>,
        user_id: UserId,
        made: &RevokedLineage,
    ) -> anyhow::Result<()> {
        let user = store::users::find(transaction.db(), user_id).await?;
        let Some(user) = user.filter(|user| !user.disabled) else { return Ok(()) };
        let mail = Email::SessionReplayed {
            to: user.email,
            client_id: self.client.id.clone(),
            ended_at: self.now,
            presented_from: self.meta.address.to_string(),
            made: made.listed(&self.app.locales),
        };
        mail.enqueue(&self.app.root_keys, transaction.db(), self.now, later(self.now, lifetimes::WARNING)).await
    }
}
