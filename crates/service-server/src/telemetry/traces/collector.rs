//! The collector that spans are sent to. It is the operator's own, so it may be at any address.

use std::{
    sync::{PoisonError, RwLock},
    time::Duration,
};

use axum::http::HeaderValue;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rustls::ClientConfig;
use url::Url;
use uuid::Uuid;

use super::otlp::{self, Span};
use crate::{
    config::TracesConfig,
    net::{
        outbound::{AcceptedResponse, AllowedNetworks, FetchError, Outbound, OutboundBody, OutboundRequest, PlainHttp},
        tls,
    },
};

const RESPONSE: AcceptedResponse = AcceptedResponse {
    statuses: &[200],
    media_types: &["application/json"],
    max_bytes: 64 * 1_024,
    timeout: Duration::from_secs(3),
};

pub(super) struct Collector {
    endpoint: Url,
    outbound: Outbound,
    authorization: RwLock<Option<HeaderValue>>,
    /// Every address.
    networks: [IpNet; 2],
    node_id: Uuid,
}

impl Collector {
    pub(super) fn new(endpoint: Url, config: &TracesConfig, node_id: Uuid) -> anyhow::Result<Self> {
        Ok(Self {
            endpoint,
            outbound: Outbound::new(tls::client(config.ca_file.as_deref(), None)?),
            authorization: RwLock::new(authorization(config)?),
            networks: [Ipv4Net::default().into(), Ipv6Net::default().into()],
            node_id,
        })
    }

    /// Sends spans, and returns how many the collector rejected.
    pub(super) async fn send(&self, spans: &[Span]) -> Result<u64, FetchError> {
        let body = otlp::export_request(spans, self.node_id);
        let authorization = self.authorization.read().unwrap_or_else(PoisonError::into_inner).clone();
        // A token does not leave this machine in clear, wherever a name like `localhost` leads.
        let plain_http = if authorization.is_some() { PlainHttp::Loopback } else { PlainHttp::Anywhere };
        let request = OutboundRequest {
            url: &self.endpoint,
            body: Some(OutboundBody::Json(&body)),
            authorization,
            allowed: AllowedNetworks { networks: &self.networks, plain_http },
            accepted: RESPONSE,
        };
        Ok(otlp::rejected_spans(&self.outbound.send(&request).await?.body))
    }

    /// Reads the file of certificates again, and the token of another configuration. The token is for the endpoint that it was
    /// checked with: another endpoint needs a restart.
    pub(super) fn prepare_reload(&self, own: &TracesConfig, new: &TracesConfig) -> anyhow::Result<CollectorSecrets> {
        let of_token = if new.endpoint.as_ref() == Some(&self.endpoint) { new } else { own };
        Ok(CollectorSecrets {
            tls: tls::client(own.ca_file.as_deref(), None)?,
            authorization: authorization(of_token)?,
        })
    }

    pub(super) fn take_over(&self, secrets: CollectorSecrets) {
        self.outbound.replace_tls(secrets.tls);
        *self.authorization.write().unwrap_or_else(PoisonError::into_inner) = secrets.authorization;
    }
}

/// What a collector is connected with, and can be replaced.
pub struct CollectorSecrets {
    tls: ClientConfig,
    authorization: Option<HeaderValue>,
}

fn authorization(config: &TracesConfig) -> anyhow::Result<Option<HeaderValue>> {
    let Some(token) = &config.token else { return Ok(None) };
    let mut value = HeaderValue::from_str(&format!("Bearer {}", **token))?;
    value.set_sensitive(true);
    Ok(Some(value))
}
