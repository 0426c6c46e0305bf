//! The command from outside: the real binary, against a real server, on a machine of its own.

mod api;
mod bus;
mod files;
mod leaks;
mod login;
mod login_browser;
mod logout;
mod machine;
mod output;
mod pty;
mod refresh;
mod spec;
mod startup;
mod tls;
mod token;
mod troubles;
mod whoami;
mod workspace;
