//! How a user signs in: login options, one-time codes, passkeys, accounts, browser sessions, known devices and step-up.

pub(crate) mod accounts;
pub(crate) mod address_limits;
pub mod browser;
pub mod browser_session;
pub(crate) mod devices;
pub mod email_key;
pub mod login_options;
pub(crate) mod new_sign_in;
pub mod passkey;
pub mod passkey_recovery;
pub mod recovery_code;
pub(crate) mod relying_party;
pub mod request_otp;
pub mod step_up;
pub(crate) mod verify_otp;
