//! Tests of the binary `service` against a real server, each with a home directory of its own.

mod api;
mod credentials_file;
mod doctor_mcp;
mod errors;
mod invitation;
mod keyring_timeout;
mod leaks;
mod login;
mod login_browser;
mod logout;
mod machine;
mod mcp;
mod mcp_config;
mod mcp_serve;
mod mcp_shared;
mod output;
mod pty;
mod refresh;
mod refresh_token_file;
mod specification;
mod startup;
mod step_up;
mod tls;
mod token;
mod whoami;
mod workspace;
