//! One-time codes and known devices.

pub(crate) mod addresses;
pub(crate) mod all_failures;
pub(crate) mod devices;
pub(crate) mod grant;
pub(crate) mod indistinguishable;
pub(crate) mod limits;
pub(crate) mod login_options;
pub(crate) mod networks;
pub(crate) mod offices;
pub(crate) mod races;
pub(crate) mod sign_in;
pub(crate) mod verify;
