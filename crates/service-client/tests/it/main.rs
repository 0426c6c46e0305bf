//! The client from outside: which calls it has, what it repeats, and what it makes of answers that go wrong.

mod addresses;
mod every_call;
mod mcp;
mod renewal;
mod repeats;
mod scripted;
