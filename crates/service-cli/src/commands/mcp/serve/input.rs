//! Reads messages from standard input, one per line. A thread reads them, so that the command can end while it waits.

use std::{
    io::{self, BufRead, Read},
    thread,
};

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

/// The maximum size of a message.
pub(super) const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Message(Vec<u8>),
    /// A line that is too long. It was not kept, only searched for the ID of its request.
    TooLong {
        id: Value,
    },
}

/// Starts reading standard input. The receiver ends with the input.
pub(super) fn read_lines() -> mpsc::Receiver<Line> {
    let (sender, lines) = mpsc::channel(1);
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Ok(Some(line)) = read_line(&mut stdin) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Reads one line, without its end. `None` at the end of the input.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let limit = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
    let read = input.by_ref().take(limit).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if read < MAX_LINE_BYTES || line.ends_with(b"\n") {
        return Ok(Some(Line::Message(line.trim_ascii().to_vec())));
    }
    let mut rest = RestOfLine { input, ended: false };
    let parsed = serde_json::from_reader::<_, OnlyId>(io::BufReader::new(line.as_slice().chain(&mut rest)));
    io::copy(&mut rest, &mut io::sink())?;
    Ok(Some(Line::TooLong { id: parsed.map(|message| message.id).unwrap_or_default() }))
}

/// The ID of a message. The other members are skipped while they are read, so they take no memory.
#[derive(Deserialize)]
struct OnlyId {
    #[serde(default)]
    id: Value,
}

/// Reads to the end of a line, and not further.
struct RestOfLine<'a, R> {
    input: &'a mut R,
    ended: bool,
}

impl<R: BufRead> Read for RestOfLine<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        let available = self.input.fill_buf()?;
        let line = available.iter().position(|byte| *byte == b'\n');
        let length = line.unwrap_or(available.len()).min(buffer.len());
        buffer[..length].copy_from_slice(&available[..length]);
        self.ended = line == Some(length);
        self.input.consume(length + usize::from(self.ended));
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_its_id_is_found() {
        let long = format!("{{\"params\":\"{}\",\"id\":7}}\n", "x".repeat(MAX_LINE_BYTES));
        let text = format!("{{\"id\":1}}\r\n\n{long}{{\"id\":2}}");
        let mut input = io::BufReader::with_capacity(1000, text.as_bytes());
        let mut next = || read_line(&mut input).unwrap();
        assert_eq!(next(), Some(Line::Message(b"{\"id\":1}".to_vec())));
        assert_eq!(next(), Some(Line::Message(Vec::new())));
        assert_eq!(next(), Some(Line::TooLong { id: 7.into() }));
        assert_eq!(next(), Some(Line::Message(b"{\"id\":2}".to_vec())));
        assert_eq!(next(), None);
    }

    #[test]
    fn a_long_line_that_is_not_json_is_skipped() {
        let text = format!("{}\n{{\"id\":2}}\n", "x".repeat(2 * MAX_LINE_BYTES));
        let mut input = text.as_bytes();
        assert_eq!(read_line(&mut input).unwrap(), Some(Line::TooLong { id: Value::Null }));
        assert_eq!(read_line(&mut input).unwrap(), Some(Line::Message(b"{\"id\":2}".to_vec())));
    }
}
