//! Outside issuers, as this node knows them: discovery documents, keys, and the verification of what they sign.
//!
//! 1. Documents are fetched through [`Outbound`], at public addresses or where the operator allows this exact issuer.
//! 2. Of several requests that need a document, one fetches it. A token with an unknown key costs one fetch a minute.
//! 3. While an issuer is down, its last documents are used for a day.
//! 4. A request waits four seconds at most, and few requests wait, so that an issuer that is down delays no one else.

pub mod client_key;
pub mod discovery;
pub mod error;
mod health;
pub mod keys;
mod slot;
pub mod token_endpoint;
pub mod trusted_issuer;

use std::{fmt, sync::Arc, time::Duration};

use quick_cache::sync::Cache;
use serde_json::{Map, Value};
use service_api::connections::AuthMethod;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};
use url::Url;

use self::{
    discovery::ProviderMetadata,
    error::{IssuerError, ProviderRequest},
    health::HealthRecords,
    keys::{KeySet, ProviderJwt, SignatureVerdict},
    slot::{Fetched, Slot},
    token_endpoint::{CodeExchange, ProviderClient, ProviderSecret, ProviderTokens, TokenRequest},
    trusted_issuer::TrustedIssuer,
};
use crate::{
    clock::Clock,
    config::{AllowedIssuer, Config},
    database::Database,
    net::{
        outbound::{
            AcceptedResponse, AllowedNetworks, FetchError, Outbound, OutboundBody, OutboundRequest, OutboundResponse,
            PlainHttp, is_loopback,
        },
        places::{OutboundPlaces, PlaceLimits},
    },
    telemetry::{Metrics, traces},
};

/// Issuers whose documents this node keeps. A set of the largest keys has 50 KiB.
const MAX_CACHED_ISSUERS: usize = 1_024;
/// The timeouts of a request for a document, of a request for a user, and of everything that a caller of [`Issuers`] waits
/// for. So a page can say within five seconds that the provider does not answer.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(3);
const USER_TIMEOUT: Duration = Duration::from_millis(3_500);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a request waits for a place among those that run at once. After that it would not be answered in time.
const PLACE_TIMEOUT: Duration = Duration::from_secs(1);
/// Callers that wait for the documents of one issuer at most, and for its token and userinfo endpoint.
const MAX_WAITING_FOR_DOCUMENTS: usize = 128;
const MAX_WAITING_FOR_USERS: usize = 32;

const JSON: &[&str] = &["application/json"];
const DISCOVERY: AcceptedResponse =
    AcceptedResponse { statuses: &[200], media_types: JSON, max_bytes: 64 * 1_024, timeout: DOCUMENT_TIMEOUT };
const KEYS: AcceptedResponse = AcceptedResponse {
    statuses: &[200],
    media_types: &["application/json", "application/jwk-set+json"],
    max_bytes: 256 * 1_024,
    timeout: DOCUMENT_TIMEOUT,
};
const TOKENS: AcceptedResponse = AcceptedResponse { statuses: &[200, 400, 401, 403], ..USER_INFO };
const USER_INFO: AcceptedResponse = AcceptedResponse { timeout: USER_TIMEOUT, ..DISCOVERY };
/// Documents and requests of users have places of their own, so that neither uses up those of the other.
const DOCUMENT_PLACES: PlaceLimits = PlaceLimits { in_total: 32, per_host: 4, per_party: 2 };
const USER_PLACES: PlaceLimits = PlaceLimits { in_total: 64, per_host: 32, per_party: 16 };

/// The claims of a token, signed with a key of its issuer. They have not been judged.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifiedClaims {
    /// The type in the token's header, without `application/`.
    pub typ: Option<String>,
    pub claims: Map<String, Value>,
}

impl fmt::Debug for VerifiedClaims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VerifiedClaims(…)")
    }
}

/// This node's view of outside issuers.
pub struct Issuers {
    outbound: Arc<Outbound>,
    clock: Clock,
    /// Where the health of issuers is recorded.
    database: Database,
    metrics: Arc<Metrics>,
    /// Issuers at addresses that are not public.
    allowed: Vec<AllowedIssuer>,
    entries: Cache<String, Arc<IssuerEntry>>,
    document_places: OutboundPlaces<String>,
    user_places: OutboundPlaces<String>,
    /// Permits for callers that wait for documents of any issuer, and for any token or userinfo endpoint.
    waiting_for_documents: Semaphore,
    waiting_for_users: Semaphore,
    health: HealthRecords,
}

/// What this node knows of an issuer.
struct IssuerEntry {
    metadata: Slot<ProviderMetadata>,
    keys: Slot<KeySet>,
    /// Permits for callers that wait for its documents.
    waiting_for_documents: Semaphore,
    /// Permits for callers that wait for its token and userinfo endpoint.
    waiting_for_users: Semaphore,
}

impl IssuerEntry {
    fn new() -> Self {
        Self {
            metadata: Slot::new(ProviderRequest::Discovery),
            keys: Slot::new(ProviderRequest::Keys),
            waiting_for_documents: Semaphore::new(MAX_WAITING_FOR_DOCUMENTS),
            waiting_for_users: Semaphore::new(MAX_WAITING_FOR_USERS),
        }
    }
}

/// The permits of a caller that waits for an issuer.
struct WaitPermits<'a> {
    _of_issuer: SemaphorePermit<'a>,
    _of_all: SemaphorePermit<'a>,
}

impl Issuers {
    #[must_use]
    pub fn new(
        outbound: Arc<Outbound>,
        config: &Config,
        clock: Clock,
        database: Database,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            outbound,
            clock,
            database,
            metrics,
            allowed: config.sso.allowed_issuers.clone(),
            entries: Cache::new(MAX_CACHED_ISSUERS),
            document_places: OutboundPlaces::new(DOCUMENT_PLACES),
            user_places: OutboundPlaces::new(USER_PLACES),
            waiting_for_documents: Semaphore::new((config.http.in_flight / 2).max(1)),
            waiting_for_users: Semaphore::new((config.http.in_flight / 4).max(1)),
            health: HealthRecords::default(),
        }
    }

    /// Checks that a text can be the issuer of a connection. Connects to nothing.
    pub fn check_issuer(&self, issuer: &str) -> Result<(), IssuerError> {
        discovery::document_url(issuer, &self.networks(issuer)).map(drop)
    }

    /// Returns what an issuer says about itself in its discovery document.
    pub async fn metadata(&self, issuer: &TrustedIssuer) -> Result<Arc<ProviderMetadata>, IssuerError> {
        self.checked_metadata(issuer, |_| Ok(())).await
    }

    /// Returns what an issuer says about itself, if clients can authenticate there by this method.
    pub async fn metadata_for_client(
        &self,
        issuer: &TrustedIssuer,
        method: AuthMethod,
    ) -> Result<Arc<ProviderMetadata>, IssuerError> {
        let check = |metadata: &ProviderMetadata| match method {
            AuthMethod::PrivateKeyJwt if !metadata.accepts_client_keys() => Err(IssuerError::NoClientKeys),
            _ => Ok(()),
        };
        self.checked_metadata(issuer, check).await
    }

    async fn checked_metadata(
        &self,
        issuer: &TrustedIssuer,
        check: impl FnOnce(&ProviderMetadata) -> Result<(), IssuerError>,
    ) -> Result<Arc<ProviderMetadata>, IssuerError> {
        let entry = self.entry(&issuer.issuer);
        let result = match entry.metadata.known(self.clock.now()) {
            Some(known) => known,
            None => self.within_limits(&entry, ProviderRequest::Discovery, self.find_metadata(issuer, &entry)).await,
        };
        let result = result.and_then(|metadata| check(&metadata).map(|()| metadata));
        self.record(issuer, result.as_ref().err().copied().or(entry.metadata.failure())).await;
        result
    }

    /// Verifies that a key of this issuer has signed a token, and that its tokens are accepted for this purpose. What the
    /// token says of its own issuer selects nothing.
    pub async fn verify(
        &self,
        issuer: &TrustedIssuer,
        purpose: &str,
        token: &ProviderSecret,
    ) -> Result<VerifiedClaims, IssuerError> {
        if !issuer.purposes.iter().any(|known| known == purpose) {
            return Err(IssuerError::Purpose);
        }
        let jwt = ProviderJwt::read(token.expose(), &issuer.algorithms)?;
        if let Some(pasted) = &issuer.jwks {
            return settle(KeySet::from_value(pasted)?.verify(&jwt), jwt);
        }
        let entry = self.entry(&issuer.issuer);
        let known = entry.keys.known(self.clock.now()).transpose()?.map(|keys| keys.verify(&jwt));
        if let Some(verdict @ (SignatureVerdict::Genuine | SignatureVerdict::Forged)) = known {
            return settle(verdict, jwt);
        }
        let verdict = self.within_limits(&entry, ProviderRequest::Keys, self.verify_with_fetch(issuer, &jwt)).await;
        self.record(issuer, verdict.as_ref().err().copied().or(entry.keys.failure())).await;
        settle(verdict?, jwt)
    }

    /// Exchanges an authorization code for tokens. The ID token has to be verified next.
    pub async fn exchange_code(
        &self,
        issuer: &TrustedIssuer,
        client: &ProviderClient<'_>,
        exchange: &CodeExchange<'_>,
    ) -> Result<ProviderTokens, IssuerError> {
        let entry = self.entry(&issuer.issuer);
        let operation = async {
            let metadata = self.find_metadata(issuer, &entry).await?;
            let endpoint = &metadata.token_endpoint;
            let request = TokenRequest::compose(client, exchange, endpoint, self.clock.now())?;
            let request = OutboundRequest {
                url: endpoint,
                body: Some(OutboundBody::Form(&request.form)),
                authorization: request.authorization,
                allowed: self.networks(&issuer.issuer),
                accepted: TOKENS,
            };
            let response = self.send(issuer, ProviderRequest::Token, &request).await?;
            token_endpoint::read_tokens(response.status, &response.body)
        };
        let result = self.within_limits(&entry, ProviderRequest::Token, operation).await;
        self.record(issuer, result.as_ref().err().copied()).await;
        result
    }

    /// Asks the provider for claims about the user of an access token. They must be about `subject`, the user of the
    /// verified ID token.
    pub async fn user_info(
        &self,
        issuer: &TrustedIssuer,
        access_token: &ProviderSecret,
        subject: &str,
    ) -> Result<VerifiedClaims, IssuerError> {
        let entry = self.entry(&issuer.issuer);
        let operation = async {
            let metadata = self.find_metadata(issuer, &entry).await?;
            let url = metadata.userinfo_endpoint.as_ref();
            let request = OutboundRequest {
                url: url.ok_or(IssuerError::InvalidEndpoint("userinfo_endpoint"))?,
                body: None,
                authorization: Some(token_endpoint::bearer(access_token)?),
                allowed: self.networks(&issuer.issuer),
                accepted: USER_INFO,
            };
            let response = self.send(issuer, ProviderRequest::UserInfo, &request).await?;
            token_endpoint::read_user_info(&response.body, subject)
        };
        let result = self.within_limits(&entry, ProviderRequest::UserInfo, operation).await;
        self.record(issuer, result.as_ref().err().copied()).await;
        result.map(|claims| VerifiedClaims { typ: None, claims })
    }

    async fn find_metadata(
        &self,
        issuer: &TrustedIssuer,
        entry: &IssuerEntry,
    ) -> Result<Arc<ProviderMetadata>, IssuerError> {
        let fetch = async || {
            let allowed = self.networks(&issuer.issuer);
            let url = discovery::document_url(&issuer.issuer, &allowed)?;
            let response = self.fetch(issuer, ProviderRequest::Discovery, &url).await?;
            let value = ProviderMetadata::read(&response.body, &issuer.issuer, &allowed)?;
            Ok(Fetched { value, fresh_for: response.fresh_for })
        };
        entry.metadata.current(self.clock.now(), fetch).await.map(|current| current.value)
    }

    /// Verifies a token with keys that may have to be fetched, at most twice: a second time if its key is not among them.
    async fn verify_with_fetch(
        &self,
        issuer: &TrustedIssuer,
        jwt: &ProviderJwt<'_>,
    ) -> Result<SignatureVerdict, IssuerError> {
        let entry = self.entry(&issuer.issuer);
        let fetch = async || {
            let metadata = self.find_metadata(issuer, &entry).await?;
            let url = metadata.jwks_uri.as_ref().ok_or(IssuerError::InvalidEndpoint("jwks_uri"))?;
            let response = self.fetch(issuer, ProviderRequest::Keys, url).await?;
            Ok(Fetched { value: KeySet::read(&response.body)?, fresh_for: response.fresh_for })
        };
        let now = self.clock.now();
        let current = entry.keys.current(now, fetch).await?;
        let verdict = current.value.verify(jwt);
        if verdict != SignatureVerdict::UnknownKey || current.just_fetched {
            return Ok(verdict);
        }
        let newer = entry.keys.newer(&current.value, now, fetch).await?;
        Ok(newer.map_or(SignatureVerdict::UnknownKey, |keys| keys.verify(jwt)))
    }

    /// Fetches a document of an issuer.
    async fn fetch(
        &self,
        issuer: &TrustedIssuer,
        request: ProviderRequest,
        url: &Url,
    ) -> Result<OutboundResponse, IssuerError> {
        let accepted = if request == ProviderRequest::Keys { KEYS } else { DISCOVERY };
        let allowed = self.networks(&issuer.issuer);
        let outbound = OutboundRequest { url, body: None, authorization: None, allowed, accepted };
        self.send(issuer, request, &outbound).await
    }

    /// Sends a request when there is a place for it, and counts its outcome.
    async fn send(
        &self,
        issuer: &TrustedIssuer,
        request: ProviderRequest,
        outbound: &OutboundRequest<'_>,
    ) -> Result<OutboundResponse, IssuerError> {
        let places = match request {
            ProviderRequest::Discovery | ProviderRequest::Keys => &self.document_places,
            ProviderRequest::Token | ProviderRequest::UserInfo => &self.user_places,
        };
        let host = outbound.url.host_str().unwrap_or_default();
        let place = timeout(PLACE_TIMEOUT, places.take(&issuer.issuer, host)).await;
        let Ok(Ok(_place)) = place else { return Err(IssuerError::Busy) };
        let span = traces::part(["identity provider", request.as_str()]);
        let sent = self.outbound.send(outbound).await.map_err(|why| IssuerError::Request { request, why });
        let outcome = match &sent {
            Ok(response) if response.status == 200 => "ok",
            Ok(_) => "refused",
            Err(error) => error.outcome(),
        };
        traces::end(span, (outcome != "ok").then_some(outcome));
        self.metrics.provider_requested(request.as_str(), outcome);
        if let Err(error) = &sent {
            let why = error.to_string();
            tracing::info!(issuer = %issuer.id, request = request.as_str(), why, "A request to an identity provider failed");
        }
        sent
    }

    /// Waits for an operation, if not too many requests wait already.
    async fn within_limits<T>(
        &self,
        entry: &IssuerEntry,
        request: ProviderRequest,
        operation: impl Future<Output = Result<T, IssuerError>>,
    ) -> Result<T, IssuerError> {
        let (of_issuer, of_all) = match request {
            ProviderRequest::Discovery | ProviderRequest::Keys => {
                (&entry.waiting_for_documents, &self.waiting_for_documents)
            }
            ProviderRequest::Token | ProviderRequest::UserInfo => (&entry.waiting_for_users, &self.waiting_for_users),
        };
        let _permits = WaitPermits {
            _of_issuer: of_issuer.try_acquire().map_err(|_| IssuerError::Busy)?,
            _of_all: of_all.try_acquire().map_err(|_| IssuerError::Busy)?,
        };
        let why = FetchError::TooSlow;
        timeout(OPERATION_TIMEOUT, operation).await.unwrap_or(Err(IssuerError::Request { request, why }))
    }

    async fn record(&self, issuer: &TrustedIssuer, failure: Option<IssuerError>) {
        self.health.record(&self.database, issuer, failure, self.clock.now()).await;
    }

    fn entry(&self, issuer: &str) -> Arc<IssuerEntry> {
        let made: Result<_, std::convert::Infallible> =
            self.entries.get_or_insert_with(issuer, || Ok(Arc::new(IssuerEntry::new())));
        let Ok(entry) = made;
        entry
    }

    /// Returns the networks that are allowed for this issuer besides public ones.
    fn networks(&self, issuer: &str) -> AllowedNetworks<'_> {
        let Some(allowed) = self.allowed.iter().find(|allowed| allowed.issuer == issuer) else {
            return AllowedNetworks::default();
        };
        let is_local = Url::parse(issuer).is_ok_and(|url| is_loopback(&url));
        let plain_http = if is_local { PlainHttp::Loopback } else { PlainHttp::Nowhere };
        AllowedNetworks { networks: &allowed.networks, plain_http }
    }
}

fn settle(verdict: SignatureVerdict, jwt: ProviderJwt<'_>) -> Result<VerifiedClaims, IssuerError> {
    match verdict {
        SignatureVerdict::Genuine => jwt.into_claims(),
        SignatureVerdict::Forged => Err(IssuerError::Signature),
        SignatureVerdict::UnknownKey => Err(IssuerError::UnknownKey),
    }
}
