//! `serviced scan-secrets`: finds our tokens in files by prefix and checksum, offline.

use std::{io::Read as _, path::PathBuf};

use anyhow::Context as _;
use service_api::leaks::recognise;

use crate::cli::output::say;

/// Prints the tokens that were found; returns how many.
pub(crate) fn run(files: &[PathBuf]) -> anyhow::Result<usize> {
    let mut found = 0;
    for file in files {
        let bytes = if file.as_os_str() == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes)?;
            bytes
        } else {
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?
        };
        // Bytes around a token that are not UTF-8 do not hide it.
        let text = String::from_utf8_lossy(&bytes);
        for token in recognise(&text) {
            let line = text[..token.at].matches('\n').count() + 1;
            say(&format!("{}:{line}: {} {}", file.display(), token.kind, token.hint));
            found += 1;
        }
    }
    Ok(found)
}
