//! Ports that have to be known before anybody listens on them.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::{Result, bail};

/// Below those that the system gives out by itself, so that nobody is given one meanwhile.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// A port of this machine that nobody uses, and that nobody else of this process is told of.
pub fn free() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = u16::try_from(std::process::id() % u32::from(COUNT))?;
    for _ in 0..COUNT {
        let port = FIRST + (own + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free")
}
