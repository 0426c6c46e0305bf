//! What a user decided on the consent page, and what it changes: the stored consent, and the sessions that it covered.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    errors::Reason,
    ids::{Id as _, WorkspaceId},
    instant,
    scope::{Action, Scopes},
    workspaces::PERSONAL,
};
use service_rules::{
    Timestamp,
    clients::{Client, ClientKind},
    consent::{self, PriorConsent},
    consent_expiry::{self, ExpiryChoice},
};

use crate::{
    app::App,
    crypto::random,
    flows::{
        RequestMeta,
        oauth::{
            consent_prompt::{ConsentError, PendingConsent},
            consents, issue,
        },
        revocation::RevocationTransaction,
    },
    store::{self, consents::Consent},
};

/// What the user decided, as the form says it.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    pub space: &'a str,
    /// The scopes that the user left selected.
    pub ticked: Scopes,
    /// The user wants to grant only those of them that allow reading.
    pub read_only: bool,
    /// The chosen end date. Empty: the form has none, and the preselected one counts.
    pub expires: &'a str,
}

/// The access that a code stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrantedAccess {
    pub scopes: Scopes,
    pub workspace_id: Option<WorkspaceId>,
    /// The end date. First-party clients have none.
    pub ends_at: Option<Timestamp>,
}

/// What a decision comes to.
pub(super) enum Decided {
    Access(GrantedAccess),
    /// The user selected nothing.
    Nothing,
}

/// The end dates that are offered to a user.
pub(super) struct EndDates {
    /// The longest lifetime of a session of the client, in seconds.
    longest: i64,
    /// The earlier end that the user chose before.
    kept: Option<Timestamp>,
}

impl EndDates {
    pub(super) fn of(app: &App, pending: &PendingConsent<'_>, prior: Option<&Consent>) -> Self {
        let longest = issue::session_life(app, &pending.request.client_id, &pending.request.audience);
        let kept = prior.and_then(|prior| consent_expiry::kept(prior.agreed_at, prior.expires_at, longest));
        Self { longest, kept }
    }

    pub(super) fn offered(&self) -> Vec<ExpiryChoice> {
        consent_expiry::offered(self.longest, self.kept)
    }

    pub(super) fn preselected(&self) -> ExpiryChoice {
        consent_expiry::preselected(self.longest, self.kept)
    }

    fn chosen(&self, text: &str, now: Timestamp) -> Result<Timestamp, ConsentError> {
        let choice = if text.is_empty() { Some(self.preselected()) } else { ExpiryChoice::parse(text) };
        let end = choice.and_then(|choice| consent_expiry::end(choice, self.longest, now));
        end.ok_or(ConsentError::UnavailableEndDate)
    }
}

impl Decision<'_> {
    /// Reads the decision, by what the client requests now and what it has.
    pub(super) fn read(
        &self,
        app: &App,
        pending: &PendingConsent<'_>,
        prior: &PriorAccess,
        now: Timestamp,
    ) -> Result<Decided, ConsentError> {
        let ticked = if self.read_only { self.ticked.with_action(Action::Read) } else { self.ticked };
        let scopes = consent::granted_scopes(&prior.client, pending.request.scopes, prior.scopes(), ticked);
        if scopes.is_empty() {
            return Ok(Decided::Nothing);
        }
        let workspace_id = match self.space {
            PERSONAL => None,
            id => Some(id.parse().map_err(|_| ConsentError::NoAccessToSpace)?),
        };
        let ends_at = match prior.client.kind {
            ClientKind::FirstParty => None,
            ClientKind::Registered | ClientKind::Dynamic | ClientKind::Document => {
                Some(EndDates::of(app, pending, prior.consent.as_ref()).chosen(self.expires, now)?)
            }
        };
        Ok(Decided::Access(GrantedAccess { scopes, workspace_id, ends_at }))
    }
}

/// A client, and the consent that the user gave to it before.
pub(super) struct PriorAccess {
    client: Client,
    consent: Option<Consent>,
}

impl PriorAccess {
    /// Reads it while the user is locked.
    pub(super) async fn find(
        transaction: &RevocationTransaction<'_>,
        pending: &PendingConsent<'_>,
    ) -> Result<Self, ConsentError> {
        let client = pending.client(transaction.db()).await?;
        Ok(Self { client, consent: pending.prior(transaction.db(), transaction.now()).await? })
    }

    fn scopes(&self) -> Option<PriorConsent> {
        self.consent.as_ref().map(Consent::prior)
    }

    /// Withdraws the consent to a third-party client: the user left nothing of it selected. A sign-in to a first-party client
    /// that the user denies changes nothing about other sessions.
    pub(super) async fn take_back(
        &self,
        transaction: &mut RevocationTransaction<'_>,
        meta: &RequestMeta,
        pending: &PendingConsent<'_>,
    ) -> anyhow::Result<()> {
        if let Some(consent) = self.consent.as_ref().filter(|_| self.client.kind != ClientKind::FirstParty) {
            let by = pending.browser.id.to_string();
            consents::withdraw_locked(transaction, meta, pending.person.user_id, &by, consent.id).await?;
        }
        Ok(())
    }

    /// Replaces the consent by what the user decided, records it, and limits the client's sessions to it.
    pub(super) async fn replace(
        &self,
        transaction: &mut RevocationTransaction<'_>,
        meta: &RequestMeta,
        pending: &PendingConsent<'_>,
        access: GrantedAccess,
    ) -> Result<(), ConsentError> {
        let (now, about) = (transaction.now(), pending.about());
        if let Some(id) = access.workspace_id
            && store::memberships::find_role(transaction.db(), about.user_id, id).await?.is_none()
        {
            return Err(ConsentError::NoAccessToSpace);
        }
        self.limit_sessions(transaction, pending, access).await?;
        let scopes = consent::stored_scopes(&self.client, self.scopes(), pending.request.scopes, access.scopes);
        let consent = Consent {
            id: random::id_in(about.user_id.shard(), now)?,
            scopes,
            workspace_id: access.workspace_id,
            agreed_at: now,
            expires_at: access.ends_at,
        };
        store::consents::replace(transaction.db(), about, &consent).await?;
        store::clients::mark_agreed(transaction.db(), about.client_id, now).await?;
        let mut details = json!({ "scopes": scopes, "granted": access.scopes, "host": pending.host });
        if let Some(at) = access.ends_at {
            details["expiresAt"] = instant::to_text(at).into();
        }
        let mut event = meta.event(EventName::ConsentGranted, now, details)?;
        event.user_id = Some(about.user_id);
        event.client_id = Some(about.client_id);
        event.workspace_id = access.workspace_id;
        store::audit_events::insert(transaction.db(), &event).await?;
        Ok(())
    }

    /// Revokes sessions of the client that have scopes which the user removed, and lets no session outlive an end that the
    /// user moved forward.
    async fn limit_sessions(
        &self,
        transaction: &mut RevocationTransaction<'_>,
        pending: &PendingConsent<'_>,
        access: GrantedAccess,
    ) -> anyhow::Result<()> {
        let (about, now) = (pending.about(), transaction.now());
        let granted = PriorConsent { scopes: access.scopes };
        let narrowed = consent::is_narrowed(&self.client, self.scopes(), pending.request.scopes, access.scopes);
        let sooner = access.ends_at.filter(|end| self.consent.as_ref().is_some_and(|prior| prior.is_beyond(*end)));
        if !narrowed && sooner.is_none() {
            return Ok(());
        }
        let (user_id, client_id, audience) = (about.user_id, about.client_id, about.audience);
        for session in store::client_grants::list(transaction.db(), user_id, client_id, audience).await? {
            let too_much = narrowed && !consent::covers(&self.client, granted, session.scopes);
            let too_long =
                sooner.is_some_and(|end| session.expires_at > end && consent_expiry::is_too_soon_for_tokens(end, now));
            if too_much || too_long {
                transaction.revoke_grant(session.id, Reason::RevokedByUser).await?;
            }
        }
        if let Some(end) = sooner {
            store::client_grants::shorten(transaction.db(), user_id, client_id, audience, end).await?;
        }
        Ok(())
    }
}
