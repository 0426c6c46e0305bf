//! Outgoing connections, DNS, TLS in both directions, and the limit on open files.

pub mod dns;
pub mod document_fetcher;
pub mod file_descriptors;
pub mod outbound;
pub mod places;
pub mod server_tls;
pub mod tls;
