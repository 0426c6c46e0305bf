//! The client libraries and the examples, against a server. `cargo xtask examples` installs them and runs this test.

mod libraries;
mod program;
mod programs;
