//! What a node and its operator do besides serving users: readiness, start-up checks, restore and retention.

pub mod check_root_keys;
pub mod compare_server;
pub mod finish_restore;
pub mod readiness;
pub mod retention;
