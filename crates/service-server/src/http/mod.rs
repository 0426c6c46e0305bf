//! HTTP: requests into calls, results into responses. No decisions are made here.

pub mod body;
pub mod caller;
pub mod connection;
pub mod content_refusals;
pub mod cors;
pub mod edge;
pub mod error;
mod head;
pub mod idempotency;
pub mod oauth;
pub mod ops;
pub mod page_refusals;
pub mod pages;
pub mod paging;
pub mod path;
pub mod query;
pub mod refusals;
pub mod router;
pub mod space;
pub mod v1;
