//! Input that an option names: a file, or standard input.

use std::{fs, io::Read as _};

use crate::failure::{Failure, FailureCode};

/// The name of standard input.
const STDIN: &str = "-";

/// Reads a file, or standard input if its name is `-`.
pub(crate) fn read_bytes(name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = match name {
        STDIN => std::io::stdin().read_to_end(&mut bytes).map(|_| bytes),
        path => fs::read(path),
    };
    read.map_err(|error| Failure::new(FailureCode::Usage, format!("Can't read the input: {error}.")))
}

/// Reads a text file, or standard input if its name is `-`.
pub(crate) fn read_text(name: &str) -> Result<String, Failure> {
    String::from_utf8(read_bytes(name)?).map_err(|_| Failure::new(FailureCode::Usage, "The input isn't UTF-8 text."))
}
