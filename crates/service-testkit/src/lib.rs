//! What tests and the development command need around the service: real PostgreSQL clusters, servers in this process
//! and as processes, a mailbox, a DNS server, and a scanner for leaked secrets. Nothing here is part of the service.

pub mod authenticator;
pub mod browser;
pub mod company;
pub mod dns_server;
pub mod document_host;
pub mod documents;
pub mod fault_proxy;
pub mod faults;
pub mod identity_provider;
pub mod leaks;
pub mod load;
pub mod log;
pub mod mailbox;
pub mod oidc_provider;
pub mod partitions;
pub mod pooler;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod response;
pub mod rounds;
pub mod server;
pub mod settings;
pub mod tab;
pub mod tour;
pub mod virtual_authenticator;
