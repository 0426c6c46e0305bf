//! Which trace a request belongs to, and whether it is sampled. Pure functions of a header, an id and a ratio.

use std::fmt;

/// The id of a trace. It is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(pub [u8; 16]);

/// The id of a span. It is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(pub [u8; 8]);

/// The span that a request comes from, by its header `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub trace_id: TraceId,
    pub span_id: SpanId,
    pub sampled: bool,
}

/// The part of traces that is recorded, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleRatio(f64);

impl TraceParent {
    /// Parses the header (W3C Trace Context, level 1). A later version may have more fields, which are ignored.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let mut fields = header.split('-');
        let (version, trace_id) = (fields.next()?, hex(fields.next()?)?);
        let (span_id, [flags]) = (hex(fields.next()?)?, hex(fields.next()?)?);
        let [version] = hex(version)?;
        let is_known = version != 0xff && (version != 0 || fields.next().is_none());
        let is_set = trace_id != [0; 16] && span_id != [0; 8];
        (is_known && is_set).then_some(Self {
            trace_id: TraceId(trace_id),
            span_id: SpanId(span_id),
            sampled: flags & 1 == 1,
        })
    }
}

impl SampleRatio {
    pub const NONE: Self = Self(0.0);

    /// `None`: the ratio is not between 0 and 1.
    #[must_use]
    pub fn new(ratio: f64) -> Option<Self> {
        (0.0..=1.0).contains(&ratio).then_some(Self(ratio))
    }

    /// Whether a trace is recorded. A parent has decided already; otherwise the id decides, so that all nodes agree.
    #[must_use]
    pub fn samples(self, trace_id: TraceId, parent: Option<&TraceParent>) -> bool {
        if let Some(parent) = parent {
            return parent.sampled;
        }
        let TraceId([.., a, b, c, d]) = trace_id;
        f64::from(u32::from_be_bytes([a, b, c, d])) < self.0 * (f64::from(u32::MAX) + 1.0)
    }
}

/// Reads lower-case hexadecimal digits, exactly as many as the bytes need.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let digits = text.as_bytes();
    let mut bytes = [0; N];
    (digits.len() == 2 * N).then_some(())?;
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_has_a_trace_a_span_and_a_flag() {
        let parent = TraceParent::parse(PARENT).expect("a valid header");
        assert_eq!(parent.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parent.span_id.to_string(), "00f067aa0ba902b7");
        assert!(parent.sampled);
        // Other flags mean nothing here.
        for (flags, sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let header = format!("{}{flags}", &PARENT[..53]);
            assert_eq!(TraceParent::parse(&header).map(|parent| parent.sampled), Some(sampled), "{header}");
        }
        let later = format!("cc{}-what-the-future-has", &PARENT[2..]);
        assert_eq!(TraceParent::parse(&later), Some(parent));
    }

    #[test]
    fn an_invalid_traceparent_is_none() {
        for wrong in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47366-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
            "00-é4bf92f3577b34da6a3ce929d0e0e47-00f0000000000000-01",
        ] {
            assert_eq!(TraceParent::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_ratio_decides_where_no_parent_did() {
        let ratio = |ratio| SampleRatio::new(ratio).expect("a ratio");
        let id = |last: u32| {
            let mut id = [7; 16];
            id[12..].copy_from_slice(&last.to_be_bytes());
            TraceId(id)
        };
        for last in [0, 1, u32::MAX / 2, u32::MAX] {
            assert!(ratio(1.0).samples(id(last), None), "{last}");
            assert!(!ratio(0.0).samples(id(last), None), "{last}");
        }
        let sampled = (0..1_000).filter(|step| ratio(0.25).samples(id(step * 4_294_967), None)).count();
        assert_eq!(sampled, 251);
        let parent = |sampled| TraceParent { trace_id: id(1), span_id: SpanId([1; 8]), sampled };
        assert!(ratio(0.0).samples(id(1), Some(&parent(true))));
        assert!(!ratio(1.0).samples(id(1), Some(&parent(false))));
    }

    #[test]
    fn a_ratio_is_between_0_and_1() {
        for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(SampleRatio::new(wrong), None);
        }
    }
}
