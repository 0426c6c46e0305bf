//! The service from outside: one file for each flow, real PostgreSQL, real mail, real sockets.
//!
//! Names are sentences; one that ends in a row's id of the list of negative tests is that row's test.

mod access;
mod sign_in;
mod tidy;
