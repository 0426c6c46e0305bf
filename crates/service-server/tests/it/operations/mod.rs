//! Running the service: configuration, start and stop, failures, restore, the operator's commands.

pub(crate) mod admin;
pub(crate) mod clocks;
pub(crate) mod commands;
pub(crate) mod config;
pub(crate) mod database_tls;
pub(crate) mod durability;
pub(crate) mod expiry;
pub(crate) mod failover;
pub(crate) mod freshness;
pub(crate) mod many_sign_ins;
pub(crate) mod metrics;
pub(crate) mod migrations;
pub(crate) mod moving_a_shard;
pub(crate) mod outages;
pub(crate) mod processes;
pub(crate) mod reloading;
mod restored_addresses;
pub(crate) mod restores;
pub(crate) mod retention;
pub(crate) mod shards;
pub(crate) mod startup;
pub(crate) mod stopping;
pub(crate) mod supervisor;
pub(crate) mod support;
pub(crate) mod traces;
pub(crate) mod unknown_outcomes;
pub(crate) mod waiting;
