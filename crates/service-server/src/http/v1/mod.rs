//! The endpoints under `/v1`.

pub mod login_options;
pub mod otp_tokens;
pub mod projects;
pub mod sessions;
pub mod whoami;
