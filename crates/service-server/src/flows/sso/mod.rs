//! Single sign-on: users of a verified domain sign in at their company's identity provider.
//!
//! | file | what happens |
//! |---|---|
//! | `connections.rs` | owners create, change and delete the connections of a workspace |
//! | `domains.rs` | owners claim domains and prove them |
//! | `domain_checks.rs` | verified domains are checked again every week |
//! | `routes.rs` | what follows from both: where the users of a domain sign in |

mod connection_fields;
pub mod connections;
pub mod domain_checks;
pub mod domains;
pub mod routes;
