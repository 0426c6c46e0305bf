//! Ports that have to be known before a server listens on them.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::{Result, bail};

/// The first of these ports. They are below the ephemeral range, so that the system does not assign one meanwhile.
const FIRST_PORT: u16 = 20_000;
const PORT_COUNT: u16 = 10_000;

/// Returns a free port of this machine. A process gets each port once.
pub fn free() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = u16::try_from(std::process::id() % u32::from(PORT_COUNT))?;
    for _ in 0..PORT_COUNT {
        let port = FIRST_PORT + (own + NEXT.fetch_add(1, Ordering::Relaxed)) % PORT_COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free")
}
