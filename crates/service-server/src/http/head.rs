//! The heads of requests, looked at before the HTTP library reads them.
//!
//! The library reads some heads that a proxy in front could read differently: lines that end in a bare LF, a length
//! beside an encoding, an address with a fragment. That is how one request is made two, or a rule for one path is passed
//! by another (RFC 9112 section 11.2). Where a head is in doubt, the line's end becomes a NUL, to which the library
//! answers 400 and closes.

/// One head as it arrives. Whoever is read next gets a new one.
#[derive(Default)]
pub(super) struct Head {
    /// The beginning of a line whose end has not come yet; the library gives up on a head long before this grows large.
    line: Vec<u8>,
    place: Place,
    framed: bool,
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
    /// Looks at what was read; what comes behind the head in the same piece is left alone.
    pub(super) fn look(&mut self, bytes: &mut [u8]) {
        // A head that has ended is worked on before anything more is read: this is no part of it.
        if self.place == Place::Behind {
            bytes.first_mut().into_iter().for_each(|first| *first = 0);
        }
        let mut begin = 0;
        while self.place != Place::Behind {
            let Some(length) = memchr::memchr(b'\n', &bytes[begin..]) else {
                return self.line.extend_from_slice(&bytes[begin..]);
            };
            let end = begin + length;
            // Nearly always a line arrives whole, and nothing has to be put together.
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
    }

    /// Whether it has begun and has not ended.
    pub(super) fn is_under_way(&self) -> bool {
        self.place != Place::Behind
    }

    fn is_plain(&mut self, line: &[u8]) -> bool {
        match self.place {
            // Empty lines in front of a request are allowed (RFC 9112 section 2.2).
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

    /// At most one header says where the body ends, and at most one whom the request is for.
    fn is_plain_header(&mut self, line: &[u8]) -> bool {
        let end = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(end);
        if name.eq_ignore_ascii_case(b"host") {
            return !std::mem::replace(&mut self.addressed, true);
        }
        let encoding = name.eq_ignore_ascii_case(b"transfer-encoding");
        if !encoding && !name.eq_ignore_ascii_case(b"content-length") {
            return true;
        }
        let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
        let known = !encoding || value.eq_ignore_ascii_case(b"chunked");
        !std::mem::replace(&mut self.framed, true) && known
    }
}
