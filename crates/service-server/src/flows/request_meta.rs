//! What is known of a request before its caller has proved anything.

use std::{net::IpAddr, sync::Arc};

use serde_json::Value;
use service_api::{audit_events::EventName, token::PresentedToken};
use service_rules::{Timestamp, network, user_agent::UserAgent};

use crate::{
    audit::keys::AuditKeys,
    crypto::random,
    locales::Language,
    store::{audit_events::NewAuditEvent, browser_sessions::SignInOrigin},
};

/// Where a request comes from, and how logs and audit events refer to it.
#[derive(Clone, Debug)]
pub struct RequestMeta {
    /// The network address of the caller, behind trusted proxies.
    pub address: IpAddr,
    /// The network that limits count by: an IPv4 address, or the /64 of an IPv6 address.
    pub network: IpAddr,
    /// The id that logs, responses and audit events give the request.
    pub request_id: Arc<str>,
    /// The keys that seal the personal fields of audit events.
    pub audit_keys: Arc<AuditKeys>,
    /// The device secret that the browser presented. It may belong to no device.
    pub device: Option<PresentedToken>,
    /// The language that the request prefers, for pages and for mails that it causes.
    pub language: Language,
    /// The browser and the system that the request names.
    pub agent: UserAgent,
}

impl RequestMeta {
    #[must_use]
    pub fn new(
        address: IpAddr,
        request_id: Arc<str>,
        audit_keys: Arc<AuditKeys>,
        device: Option<PresentedToken>,
    ) -> Self {
        Self {
            address,
            network: network::counted(address),
            request_id,
            audit_keys,
            device,
            language: Language::English,
            agent: UserAgent::default(),
        }
    }

    #[must_use]
    pub fn with_language(mut self, language: Language) -> Self {
        self.language = language;
        self
    }

    #[must_use]
    pub const fn with_agent(mut self, agent: UserAgent) -> Self {
        self.agent = agent;
        self
    }

    /// What is stored of a browser in which a user signs in.
    #[must_use]
    pub fn sign_in_origin(&self) -> SignInOrigin {
        SignInOrigin { agent: self.agent, address: Some(self.address) }
    }

    /// An event that this request caused. It names no user and no client;
    /// [`Actor::event`](crate::flows::actor::Actor::event) names both.
    pub(crate) fn event<'e>(
        &self,
        name: EventName,
        now: Timestamp,
        details: Value,
    ) -> anyhow::Result<NewAuditEvent<'e>> {
        let mut event = node_event(name, now, details)?;
        event.address = Some(self.address);
        event.request_id = Some(self.request_id.to_string());
        event.keys = Some(self.audit_keys.clone());
        Ok(event)
    }
}

/// An event that no request caused: a node's own work, or an operator's command.
pub(crate) fn node_event<'e>(name: EventName, now: Timestamp, details: Value) -> anyhow::Result<NewAuditEvent<'e>> {
    Ok(NewAuditEvent::new(random::id(now)?, name, now, details))
}
