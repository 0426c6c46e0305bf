//! The end of a request body, and with it the beginning of the next head.

/// What is left of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// This number of bytes.
    Length(u64),
    Chunks(Chunks),
    /// Malformed chunks. The HTTP library has seen the malformed part, and gets nothing more to read.
    Broken,
}

/// The state of the parser in a chunked body (RFC 9112 section 7.1).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Chunks {
    /// In the line with the size of a chunk.
    #[default]
    Begin,
    Size {
        size: u64,
    },
    Extension {
        size: u64,
    },
    /// In the data of a chunk and the line end after it.
    Data {
        left: u64,
    },
    /// In the lines after the last chunk. An empty line ends the body.
    Trailer {
        is_empty: bool,
    },
    End,
}

impl Framing {
    pub(super) fn chunked() -> Self {
        Self::Chunks(Chunks::default())
    }

    /// Parses `Content-Length`, if it consists of digits.
    pub(super) fn length(value: &[u8]) -> Option<Self> {
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()?;
        Some(Self::Length(length))
    }

    /// Whether the body is complete.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunks(Chunks::End))
    }

    /// Returns how many of the next bytes belong to the body.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        match self {
            Self::Length(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= taken as u64;
                taken
            }
            Self::Chunks(chunks) => {
                let mut at = 0;
                while at < bytes.len() && *chunks != Chunks::End {
                    let Some(taken) = chunks.step(&bytes[at..]) else {
                        *self = Self::Broken;
                        return bytes.len();
                    };
                    at += taken;
                }
                at
            }
            Self::Broken => 0,
        }
    }
}

impl Chunks {
    /// Consumes at least one byte; `None`: the chunk is malformed.
    fn step(&mut self, bytes: &[u8]) -> Option<usize> {
        let byte = *bytes.first()?;
        *self = match *self {
            Self::Begin => Self::Size { size: digit(byte)? },
            Self::Size { size } => match digit(byte) {
                // As in the HTTP library, zeros in front do not count.
                Some(digit) => Self::Size { size: size.checked_mul(16)?.checked_add(digit)? },
                None if byte == b'\n' => Self::behind_size(size)?,
                None => Self::Extension { size },
            },
            Self::Extension { size } if byte == b'\n' => Self::behind_size(size)?,
            Self::Extension { size } => Self::Extension { size },
            Self::Data { left } => {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let left = left - taken as u64;
                *self = if left == 0 { Self::Begin } else { Self::Data { left } };
                return Some(taken);
            }
            Self::Trailer { is_empty: true } if byte == b'\n' => Self::End,
            Self::Trailer { .. } if byte == b'\n' => Self::Trailer { is_empty: true },
            Self::Trailer { is_empty } => Self::Trailer { is_empty: is_empty && byte == b'\r' },
            Self::End => Self::End,
        };
        Some(1)
    }

    fn behind_size(size: u64) -> Option<Self> {
        Some(if size == 0 { Self::Trailer { is_empty: true } } else { Self::Data { left: size.checked_add(2)? } })
    }
}

fn digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns where the body ends when it arrives in pieces of this size.
    fn end(mut framing: Framing, bytes: &[u8], size: usize) -> (usize, bool) {
        let mut at = 0;
        for piece in bytes.chunks(size) {
            let taken = framing.take(piece);
            at += taken;
            if taken < piece.len() {
                break;
            }
        }
        (at, framing.has_ended())
    }

    #[test]
    fn a_body_ends_where_it_ends_however_it_is_cut_rv_34() {
        for body in [
            "00000000000000000003\r\nabc\r\n00000000000000000\r\n\r\n",
            "3\r\nabc\r\n0\r\n\r\n",
            "3;x=\"1\"\r\nabc\r\n0A\r\n0123456789\r\n0\r\nA: b\r\n\r\n",
            "0\r\n\r\n",
        ] {
            for size in 1..40 {
                let bytes = format!("{body}GET / HTTP/1.1\r\n\r\n");
                assert_eq!(end(Framing::chunked(), bytes.as_bytes(), size), (body.len(), true), "{body:?} by {size}");
            }
        }
        assert_eq!(end(Framing::Length(5), b"12345GET /", 3), (5, true));
        assert_eq!(end(Framing::Length(50), b"12345GET /", 3), (10, false));
    }

    #[test]
    fn behind_broken_chunks_nothing_is_read_rv_34() {
        for body in ["zz\r\n", "\r\nabc", "10000000000000000\r\na", "ffffffffffffffff\r\n"] {
            let mut framing = Framing::chunked();
            assert_eq!(framing.take(body.as_bytes()), body.len(), "{body:?}");
            assert_eq!((framing.take(b"GET / HTTP/1.1\r\n\r\n"), framing.has_ended()), (0, false), "{body:?}");
        }
        for length in ["", "+5", "5, 5", "0x5", "18446744073709551616"] {
            assert_eq!(Framing::length(length.as_bytes()), None);
        }
    }
}
