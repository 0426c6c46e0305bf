//! Looks up TXT records, by which workspaces prove their domains.

use std::{net::SocketAddr, sync::OnceLock, time::Duration};

use hickory_resolver::{
    TokioResolver,
    config::{NameServerConfig, ResolveHosts, ResolverConfig},
    net::runtime::TokioRuntimeProvider,
    proto::rr::RData,
};
use tokio::net::lookup_host;

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
    /// Hosts and ports.
    servers: Vec<String>,
    /// Made at the first lookup, if no host is a name. The address of a name can change.
    resolver: OnceLock<TokioResolver>,
}

impl Dns {
    /// Empty: the servers of the system.
    #[must_use]
    pub fn new(servers: Vec<String>) -> Self {
        Self { servers, resolver: OnceLock::new() }
    }

    /// Returns the TXT records of a domain, each in one piece; none if the domain has none or does not exist. Aliases are
    /// followed. Nothing is cached.
    pub async fn txt_records(&self, domain: &str) -> Result<Vec<String>, Unanswered> {
        let late = || Unanswered("no answer in time".to_owned());
        tokio::time::timeout(LOOKUP_TIMEOUT, self.find_txt(domain)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn find_txt(&self, domain: &str) -> Result<Vec<String>, Unanswered> {
        // With the dot at the end, no search domain of the system is appended.
        let found = match self.resolver().await?.txt_lookup(format!("{domain}.")).await {
            Ok(found) => found,
            Err(error) if error.is_no_records_found() => return Ok(Vec::new()),
            Err(error) => return Err(Unanswered(error.to_string())),
        };
        let texts = found.answers().iter().filter_map(|record| match &record.data {
            RData::TXT(txt) => Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned()),
            _ => None,
        });
        Ok(texts.collect())
    }

    async fn resolver(&self) -> Result<TokioResolver, Unanswered> {
        if let Some(resolver) = self.resolver.get() {
            return Ok(resolver.clone());
        }
        let (mut addresses, mut named) = (Vec::<SocketAddr>::new(), false);
        for server in &self.servers {
            if let Ok(address) = server.parse() {
                addresses.push(address);
            } else {
                named = true;
                // A name without an address is left out, if there are other servers.
                addresses.extend(lookup_host(server).await.into_iter().flatten());
            }
        }
        if named && addresses.is_empty() {
            return Err(Unanswered("none of the names in dns.servers has an address".to_owned()));
        }
        let resolver = build(&addresses).map_err(|error| Unanswered(error.to_string()))?;
        Ok(if named { resolver } else { self.resolver.get_or_init(|| resolver).clone() })
    }
}

/// Makes a resolver that asks these servers. Empty: those of the system.
fn build(servers: &[SocketAddr]) -> Result<TokioResolver, hickory_resolver::net::NetError> {
    let mut builder = if servers.is_empty() {
        TokioResolver::builder_tokio()?
    } else {
        let config = ResolverConfig::from_name_servers(servers.iter().map(name_server).collect());
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    let options = builder.options_mut();
    options.timeout = QUERY_TIMEOUT;
    options.attempts = REPEATED_QUERIES;
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    builder.build()
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    for connection in &mut server.connections {
        connection.port = address.port();
    }
    server
}
