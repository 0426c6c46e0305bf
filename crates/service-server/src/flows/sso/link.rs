//! Links an existing account with an identity of a company's provider, by one code.
//!
//! The identity has signed in at the provider, and its address is in the connection's verified domains. Its account may have
//! been created by someone else before: only a code that is sent to the address shows that it belongs to the same user. The
//! code is for this and for nothing else, also where codes sign no user in. An account is linked with one identity. Linking it
//! with another one revokes everything that was created before.

use serde_json::json;
use service_api::{audit_events::EventName, errors::Reason, ids::UserId};
use service_rules::{
    email::Address,
    id_token::EmailVerified,
    lifetimes,
    otp::{OtpError, Typed},
    rotation,
    signing::later,
    sso::{self as rules, Identity, LINK_CLIENT},
};

use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        RequestMeta,
        oauth::authorize::SignInFlow,
        revocation::RevocationTransaction,
        sign_in::{
            browser_session::Browser,
            request_otp::{self, RequestOtpError, Sender},
            step_up,
            verify_otp::{Attempt, SignIn, VerifyOtpError},
        },
        sso::{SsoError, find_usable, identity::ProvenIdentity},
    },
    mail::{Email, SignedInWith},
    store::{self, connections::StoredConnection, grants::GrantSelection, sign_in_flows::UnlinkedIdentity},
};

/// Why an identity is not linked.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There is nothing to link, or not any longer.
    #[error(transparent)]
    Sso(#[from] SsoError),
    #[error(transparent)]
    Code(#[from] VerifyOtpError),
}

/// The address whose owner has to enter a code. `None`: the flow has nothing to link.
#[must_use]
pub fn address(flow: &SignInFlow) -> Option<Address> {
    Address::parse(&flow.unlinked.as_ref()?.email).ok()
}

/// Sends the code by which the account is linked.
pub async fn send_code(app: &App, meta: &RequestMeta, flow: &SignInFlow) -> Result<(), RequestOtpError> {
    let address = address(flow).ok_or_else(|| anyhow::anyhow!("a flow has nothing to link"))?;
    let sender = Sender { device: meta.device.as_ref(), flow: Some(flow.id) };
    let sent = request_otp::send_otp(app, meta, &address, LINK_CLIENT, sender).await?;
    let db = app.database.connect().await?;
    let resend_at = later(app.clock.now(), sent.resend_after);
    Ok(store::sign_in_flows::mark_sent(&db, flow.id, &address, sent.otp_id, resend_at).await?)
}

/// Links the account and signs this browser in, if the code is right.
pub async fn enter_code(
    app: &App,
    meta: &RequestMeta,
    browser: &mut Browser,
    flow: &SignInFlow,
    code: &str,
) -> Result<(), LinkError> {
    app.revocations.check().map_err(SsoError::from)?;
    let now = app.clock.now();
    let (unlinked, connection) = find_unlinked(app, flow).await?;
    let not_accepted = || LinkError::Code(OtpError::NotAccepted.into());
    let otp_id = flow.otp_id.ok_or_else(not_accepted)?;
    let code = Typed::fold(code).ok_or_else(not_accepted)?;
    let identity =
        Identity { subject: unlinked.subject.clone(), address: address(flow), verified: EmailVerified::Absent };
    let proven =
        ProvenIdentity { app, meta, connection: &connection, identity: &identity, auth_time: unlinked.auth_time, now };
    let device = meta.device.as_ref();
    let attempt = Attempt { app, meta, device, client_id: LINK_CLIENT, otp_id, code, now };
    let redeemed = attempt.redeem(&mut AddressOwner { address: identity.address.as_ref() }).await?;
    link(&proven, browser, redeemed.output).await?;
    browser.remember_device(redeemed.new_device, device);
    app.metrics.sso_signed_in("linked");
    app.mail_waiting.notify_one();
    Ok(())
}

/// Returns what a flow has to link, if its connection still decides about the address.
async fn find_unlinked<'a>(
    app: &App,
    flow: &'a SignInFlow,
) -> Result<(&'a UnlinkedIdentity, StoredConnection), SsoError> {
    let unlinked = flow.unlinked.as_ref().ok_or(SsoError::ForeignResponse)?;
    let connection_id = flow.connection_id.ok_or(SsoError::ForeignResponse)?;
    let db = app.database.connect().await?;
    let connection = find_usable(&db, connection_id, false).await?;
    let domains = store::workspace_domains::verified_domains_of(&db, connection.id, connection.workspace_id).await?;
    let is_covered = address(flow).is_some_and(|address| rules::covers(&domains, &address));
    if is_covered { Ok((unlinked, connection)) } else { Err(SsoError::NotAvailable) }
}

/// The owner of the address that a code was sent to. The code alone signs no user in.
struct AddressOwner<'a> {
    address: Option<&'a Address>,
}

impl SignIn for AddressOwner<'_> {
    type Output = UserId;

    async fn admits(&self, _: &Connection, _: Option<UserId>) -> Result<bool, database::Error> {
        Ok(true)
    }

    async fn open(&mut self, db: &Connection, user_id: UserId) -> anyhow::Result<UserId> {
        let address = store::users::find_address(db, user_id).await?;
        anyhow::ensure!(
            address.is_some() && address.as_ref() == self.address,
            "a code of another address links nothing"
        );
        Ok(user_id)
    }

    fn signed_in(&self) -> Option<(String, SignedInWith)> {
        None
    }
}

/// Links the identity with the account of the user who entered the code, and signs the browser in.
async fn link(proven: &ProvenIdentity<'_>, browser: &mut Browser, user_id: UserId) -> Result<(), SsoError> {
    let ProvenIdentity { app, meta, connection, identity, now, .. } = *proven;
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    let is_enabled = store::users::lock(transaction.db(), user_id).await?;
    if !is_enabled || !proven.is_routed(transaction.db(), identity.address.as_ref()).await? {
        return Err(SsoError::NotAvailable);
    }
    if store::users::find_address(transaction.db(), user_id).await? != identity.address {
        // The address was changed after the code was entered.
        return Err(SsoError::NotAvailable);
    }
    if step_up::requires_passkey(app, transaction.db(), user_id).await? {
        // It became required after the code was entered.
        return Err(SsoError::NotAvailable);
    }
    let was_linked = remove_others(proven, &mut transaction, browser, user_id).await?;
    let db = transaction.db();
    if !proven.link(db, user_id).await? {
        return Err(database::Error::Unavailable("the identity was linked meanwhile".into()).into());
    }
    let details = json!({ "connectionId": connection.id, "replaced": was_linked });
    let event = meta.event(EventName::SsoLinked, now, details)?.user(user_id);
    event.in_workspace(connection.workspace_id).subject(connection.id).insert(db).await?;
    proven.open(db, browser, user_id).await?;
    let mail = Email::SsoLinked {
        to: identity.address.as_ref().map(|address| address.as_str().to_owned()).unwrap_or_default(),
        company: connection.name.clone(),
        at: now,
        from: meta.address.to_string(),
        was_linked,
        language: meta.language,
    };
    mail.enqueue(&app.root_keys, db, now, later(now, lifetimes::WARNING)).await?;
    Ok(transaction.commit().await?)
}

/// Removes the identities that the account was linked with before, and revokes what they may have left: all sessions, tokens
/// and devices of the user. Such an identity is of someone else, who had the address before or claimed to have it, or of a
/// company that had the domain before. Returns whether there was one.
async fn remove_others(
    proven: &ProvenIdentity<'_>,
    transaction: &mut RevocationTransaction<'_>,
    browser: &Browser,
    user_id: UserId,
) -> Result<bool, SsoError> {
    let (now, reason) = (proven.now, Reason::SsoSignedOut);
    let removed = store::identities::delete_others(transaction.db(), &proven.stored(), user_id).await?;
    if removed == 0 {
        return Ok(false);
    }
    transaction.revoke_grants_of_user(user_id, GrantSelection::All, reason).await?;
    let cli_tokens = store::cli_tokens::list_ids(transaction.db(), user_id).await?;
    transaction.revoke_cli_tokens(user_id, &cli_tokens, reason).await?;
    store::browser_sessions::delete_by_user(transaction.db(), user_id, Some(browser.id)).await?;
    store::devices::delete_by_user(transaction.db(), user_id, None).await?;
    store::invitations::delete_by_inviter(transaction.db(), user_id).await?;
    store::address_changes::delete(transaction.db(), user_id).await?;
    store::consents::delete_without_sessions(transaction.db(), user_id, now, rotation::idle_since(now)).await?;
    Ok(true)
}
