//! The support listener: who can call it, what its calls return and record, and what bounds them.

mod access;
mod assertions;
mod calls;
mod connections;
mod limits;
mod settings;
