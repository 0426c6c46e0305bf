//! A browser comes back from a company's identity provider (`/sso/callback/{connectionId}`).
//!
//! 1. The response must belong to a flow of this browser, for the connection in the path, and carry the secret that the
//!    flow waits for. One guarded update takes the secret away, so that a second response is refused.
//! 2. The connection must still be enabled, and the response must be from its issuer.
//! 3. The code is exchanged, and the ID token is judged (`provider.rs`).
//! 4. The identity is signed in, gets an account, or has to be linked with one (`identity.rs`). If an owner tries the
//!    connection, no user is signed in.

use service_api::ids::{ConnectionId, FlowId};
use service_rules::{
    Timestamp,
    sso::{self as rules, Identity},
};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::deletion::ClosedAccount,
        oauth::authorize::{self, SignInFlow},
        sign_in::browser_session::Browser,
        sso::{
            SsoError, find_usable,
            identity::{IdentityOutcome, ProvenIdentity},
            is_try,
            provider::{self, ProviderResponse},
            record_refused, refused, start,
            try_connection::{self, TriedConnection},
        },
    },
    store::{
        self,
        connections::StoredConnection,
        sign_in_flows::{StateKey, UnlinkedIdentity},
    },
    tokens::sso_state::StateSecret,
};

/// What a provider's response comes to.
pub enum Finished {
    /// The user is signed in, and the flow continues.
    SignedIn(FlowId),
    /// The account of the user exists. Its owner has to enter a code once.
    Link(FlowId),
    /// An owner tried the connection.
    Tried(TriedConnection),
    /// The user closed the account.
    Closed(ClosedAccount),
}

/// Completes a sign-in at a provider.
pub async fn finish(
    app: &App,
    meta: &RequestMeta,
    browser: &mut Browser,
    connection_id: &str,
    response: &ProviderResponse<'_>,
) -> Result<Finished, SsoError> {
    app.revocations.check()?;
    let now = app.clock.now();
    let (flow_id, secret) = response.state.and_then(StateSecret::read).ok_or(SsoError::ForeignResponse)?;
    let connection_id: ConnectionId = connection_id.parse().map_err(|_| SsoError::ForeignResponse)?;
    let found = authorize::find_flow(app, browser, &flow_id.to_string()).await?;
    let flow = found.ok_or(SsoError::ForeignResponse)?;
    let db = app.database.connect().await?;
    let digest = secret.digest();
    let key = StateKey { flow_id, browser_id: browser.id, connection_id, digest: &digest };
    let forced = store::sign_in_flows::take_state(&db, &key, now).await?.ok_or(SsoError::ForeignResponse)?;
    let connection = find_usable(&db, connection_id, is_try(&flow)).await?;
    drop(db);
    let finishing = Finishing { app, meta, flow: &flow, connection: &connection, forced, now };
    let finished = finishing.run(browser, response, &secret).await;
    match &finished {
        Ok(Finished::SignedIn(_)) => app.metrics.sso_signed_in("signed_in"),
        Ok(Finished::Link(_)) => app.metrics.sso_signed_in("link"),
        Ok(Finished::Tried(_)) => app.metrics.sso_signed_in("tried"),
        Ok(Finished::Closed(_)) => app.metrics.sso_signed_in("closed"),
        Err(SsoError::Refused(refused)) => record_refused(app, meta, &connection, &refused.error, now).await?,
        Err(_) => {}
    }
    finished
}

/// A response that belongs to a flow.
struct Finishing<'a> {
    app: &'a App,
    meta: &'a RequestMeta,
    flow: &'a SignInFlow,
    connection: &'a StoredConnection,
    /// The provider was told to ask the user to sign in again.
    forced: bool,
    now: Timestamp,
}

impl Finishing<'_> {
    async fn run(
        &self,
        browser: &mut Browser,
        response: &ProviderResponse<'_>,
        secret: &StateSecret,
    ) -> Result<Finished, SsoError> {
        let Self { app, meta, flow, connection, now, .. } = *self;
        let token = provider::redeem(app, connection, response, secret, now).await;
        let token = token.map_err(|error| error.into_sso_error(connection, flow))?;
        let identity = Identity::of(&connection.issuer.issuer, &token);
        if is_try(flow) {
            return Ok(Finished::Tried(try_connection::finish(app, meta, browser, connection, &token).await?));
        }
        let identity = identity.map_err(|error| refused(connection, flow, error))?;
        let fresh_since = self.forced.then(|| start::fresh_since(flow));
        let auth_time = rules::auth_time(token.auth_time, fresh_since, now);
        let auth_time = auth_time.map_err(|error| refused(connection, flow, error))?;
        let proven = ProvenIdentity { app, meta, connection, identity: &identity, auth_time, now };
        match proven.sign_in(browser).await? {
            IdentityOutcome::SignedIn => Ok(Finished::SignedIn(flow.id)),
            IdentityOutcome::Link(address) => {
                let email = address.as_str().to_owned();
                let unlinked = UnlinkedIdentity { subject: identity.subject.clone(), email, auth_time };
                let db = app.database.connect().await?;
                if store::sign_in_flows::set_unlinked(&db, flow.id, connection.id, &unlinked).await? {
                    Ok(Finished::Link(flow.id))
                } else {
                    Err(SsoError::ForeignResponse)
                }
            }
            IdentityOutcome::Closed(account) => Ok(Finished::Closed(account)),
            IdentityOutcome::Refused(error) => Err(refused(connection, flow, error)),
        }
    }
}
