//! Single sign-on.

mod connections;
mod domains;
mod weekly_checks;
