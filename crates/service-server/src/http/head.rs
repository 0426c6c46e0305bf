//! A filter for request heads, applied before the HTTP library parses them.
//!
//! The library accepts some heads that a proxy in front could interpret differently: lines that end in a bare LF, a
//! `Content-Length` beside a `Transfer-Encoding`, a request target with a fragment. That allows request smuggling (RFC
//! 9112 section 11.2). In an ambiguous head the end of the line is replaced by NUL. The library then responds with 400
//! and closes.

use crate::http::framing::Framing;

/// The parser state of one head.
#[derive(Default)]
pub(super) struct Head {
    /// The beginning of an incomplete line. The library rejects a head long before this grows large.
    line: Vec<u8>,
    place: Place,
    framing: Option<Framing>,
    addressed: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    RequestLine,
    Headers,
    Behind,
}

impl Head {
    /// Checks the bytes of a head; returns its length if its end was reached.
    pub(super) fn look(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let mut begin = 0;
        while self.place != Place::Behind {
            let Some(length) = memchr::memchr(b'\n', &bytes[begin..]) else {
                self.line.extend_from_slice(&bytes[begin..]);
                return None;
            };
            let end = begin + length;
            // Most lines arrive complete, so nothing has to be copied.
            let plain = if self.line.is_empty() {
                bytes[begin..end].strip_suffix(b"\r").is_some_and(|line| self.is_plain(line))
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[begin..end]);
                line.strip_suffix(b"\r").is_some_and(|line| self.is_plain(line))
            };
            if !plain {
                bytes[end] = 0;
            }
            begin = end + 1;
        }
        Some(begin)
    }

    /// Returns the framing of the body after this head.
    pub(super) fn framing(&mut self) -> Framing {
        self.framing.take().unwrap_or(Framing::Length(0))
    }

    fn is_plain(&mut self, line: &[u8]) -> bool {
        match self.place {
            // Empty lines before a request are allowed (RFC 9112 section 2.2).
            Place::RequestLine if line.is_empty() => true,
            Place::RequestLine => {
                self.place = Place::Headers;
                !(line.contains(&b'#') && line.windows(6).any(|part| part == b" HTTP/"))
            }
            Place::Headers if line.is_empty() => {
                self.place = Place::Behind;
                true
            }
            Place::Headers => self.is_plain_header(line),
            Place::Behind => true,
        }
    }

    /// Checks one header line. At most one header may set the framing, and at most one the host.
    fn is_plain_header(&mut self, line: &[u8]) -> bool {
        let end = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(end);
        if name.eq_ignore_ascii_case(b"host") {
            return !std::mem::replace(&mut self.addressed, true);
        }
        let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
        let framing = if name.eq_ignore_ascii_case(b"transfer-encoding") {
            value.eq_ignore_ascii_case(b"chunked").then(Framing::chunked)
        } else if name.eq_ignore_ascii_case(b"content-length") {
            Framing::length(value)
        } else {
            return true;
        };
        let known = framing.is_some();
        known && std::mem::replace(&mut self.framing, framing).is_none()
    }
}
