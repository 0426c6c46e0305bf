//! One file for each thing the service does, to be read from top to bottom.
//!
//! A flow reads the clock once, opens its own transaction, asks `store` for facts and `service-rules` for the verdict,
//! and carries the verdict out. It knows nothing of HTTP.

pub mod account;
pub mod agree;
pub mod audit_events;
pub mod audit_months;
pub mod authenticate;
pub mod authorize;
pub mod browser;
pub mod cli_tokens;
pub mod client_documents;
pub mod clients;
pub mod contents;
pub mod end_access;
pub mod enter_space;
pub mod exchange_code;
pub mod exchange_otp;
pub mod found_credential;
pub mod introspect;
pub mod invitations;
pub mod issue;
pub mod limit;
pub mod login_options;
pub mod maker;
pub mod mcp_tokens;
pub mod prove_client;
pub mod readiness;
mod redeem_otp;
pub mod refresh;
pub mod register_client;
pub mod replay;
pub mod request_otp;
pub mod revoke;
pub mod rotate_signing_keys;
pub mod seal_audit;
pub mod search_packs;
pub mod sessions;
pub mod sign_in;
pub mod token_leaks;
pub mod verify_audit;
pub mod whoami;
pub mod workspaces;

use std::{net::IpAddr, sync::Arc};

use serde_json::Value;
use service_api::audit_events::EventName;
use service_rules::Timestamp;

use crate::{mint, store::audit_events::Event};

/// Who asks, as far as it is known before anybody has proved anything.
#[derive(Clone, Debug)]
pub struct Asker {
    pub address: IpAddr,
    /// What logs, answers and audit events name the request.
    pub request_id: Arc<str>,
}

impl Asker {
    /// Something that this asker caused.
    fn event<'e>(&self, event: EventName, now: Timestamp, details: Value) -> anyhow::Result<Event<'e>> {
        Ok(Event {
            id: mint::id(now)?,
            at: now,
            event,
            user_id: None,
            client_id: None,
            workspace_id: None,
            subject: None,
            address: Some(self.address.to_string()),
            request_id: Some(self.request_id.to_string()),
            details,
        })
    }
}
