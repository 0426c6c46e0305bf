//! Looks up TXT records, by which workspaces prove their domains.

use std::{net::SocketAddr, sync::OnceLock, time::Duration};

use hickory_resolver::{
    TokioResolver,
    config::{NameServerConfig, ResolveHosts, ResolverConfig},
    net::runtime::TokioRuntimeProvider,
    proto::rr::RData,
};

/// The timeout of one query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// The timeout of a lookup with all its queries. It is shorter than the deadline of a request.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(6);
/// How often a query is repeated.
const REPEATED_QUERIES: usize = 1;

/// DNS did not answer, so it is not known which records there are.
#[derive(Clone, Debug, thiserror::Error)]
#[error("DNS did not answer: {0}")]
pub struct Unanswered(String);

/// The DNS servers that this node asks.
pub struct Dns {
    servers: Vec<SocketAddr>,
    /// Made at the first lookup.
    resolver: OnceLock<TokioResolver>,
}

impl Dns {
    /// Empty: the servers of the system.
    #[must_use]
    pub fn new(servers: Vec<SocketAddr>) -> Self {
        Self { servers, resolver: OnceLock::new() }
    }

    /// Returns the TXT records of a domain, each in one piece; none if the domain has none or does not exist. Aliases are
    /// followed. Nothing is cached.
    pub async fn txt_records(&self, domain: &str) -> Result<Vec<String>, Unanswered> {
        let resolver = self.resolver()?;
        // With the dot at the end, no search domain of the system is appended.
        let lookup = tokio::time::timeout(LOOKUP_TIMEOUT, resolver.txt_lookup(format!("{domain}.")));
        let found = match lookup.await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) if error.is_no_records_found() => return Ok(Vec::new()),
            Ok(Err(error)) => return Err(Unanswered(error.to_string())),
            Err(_) => return Err(Unanswered("no answer in time".to_owned())),
        };
        let texts = found.answers().iter().filter_map(|record| match &record.data {
            RData::TXT(txt) => Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned()),
            _ => None,
        });
        Ok(texts.collect())
    }

    fn resolver(&self) -> Result<&TokioResolver, Unanswered> {
        if let Some(resolver) = self.resolver.get() {
            return Ok(resolver);
        }
        let resolver = self.build().map_err(|error| Unanswered(error.to_string()))?;
        Ok(self.resolver.get_or_init(|| resolver))
    }

    fn build(&self) -> Result<TokioResolver, hickory_resolver::net::NetError> {
        let mut builder = if self.servers.is_empty() {
            TokioResolver::builder_tokio()?
        } else {
            let config = ResolverConfig::from_name_servers(self.servers.iter().map(name_server).collect());
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        let options = builder.options_mut();
        options.timeout = QUERY_TIMEOUT;
        options.attempts = REPEATED_QUERIES;
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        builder.build()
    }
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    for connection in &mut server.connections {
        connection.port = address.port();
    }
    server
}
