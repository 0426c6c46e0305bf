//! The operator's logo: a file that is read once, at the start.

use std::{fs::File, io::Read as _, path::Path};

use axum::body::Bytes;

const MAX_LOGO_BYTES: usize = 64 * 1024;
const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// What an SVG of a logo has no use for. The response forbids it to run anything in any case.
const FORBIDDEN_IN_SVG: [&str; 4] = ["<script", "<foreignobject", "<!doctype", "<!entity"];

/// A logo, and what it is served as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logo {
    pub bytes: Bytes,
    pub media_type: &'static str,
}

impl Logo {
    /// Reads a logo. `None`: the file cannot be read, is too large, or is neither an SVG nor a PNG.
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        let mut bytes = Vec::new();
        let limit = u64::try_from(MAX_LOGO_BYTES).ok()? + 1;
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)).ok()?;
        Self::of(bytes)
    }

    fn of(bytes: Vec<u8>) -> Option<Self> {
        if bytes.len() > MAX_LOGO_BYTES {
            return None;
        }
        let media_type = if bytes.starts_with(PNG_SIGNATURE) {
            "image/png"
        } else if is_svg(&bytes) {
            "image/svg+xml"
        } else {
            return None;
        };
        Some(Self { bytes: bytes.into(), media_type })
    }
}

fn is_svg(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let text = text.trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    let begins = text.starts_with("<svg") || text.starts_with("<?xml") || text.starts_with("<!--");
    begins && text.contains("<svg") && !FORBIDDEN_IN_SVG.iter().any(|forbidden| text.contains(forbidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media_type(bytes: &[u8]) -> Option<&'static str> {
        Logo::of(bytes.to_vec()).map(|logo| logo.media_type)
    }

    #[test]
    fn a_logo_is_a_small_svg_or_png_fh_13() {
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"/>";
        assert_eq!(media_type(svg.as_bytes()), Some("image/svg+xml"));
        assert_eq!(media_type(format!("<?xml version=\"1.0\"?>\n{svg}").as_bytes()), Some("image/svg+xml"));
        assert_eq!(media_type(b"\x89PNG\r\n\x1a\n rest"), Some("image/png"));
        let large = format!("{svg}{}", " ".repeat(MAX_LOGO_BYTES));
        for wrong in [
            "",
            "<html><svg></svg></html>",
            "GIF89a",
            "<?xml version=\"1.0\"?><html/>",
            "<svg><script>alert(1)</script></svg>",
            "<svg><SCRIPT href=\"x\"/></svg>",
            "<svg><foreignObject/></svg>",
            "<!DOCTYPE svg [<!ENTITY x \"y\">]><svg/>",
            &large,
        ] {
            assert_eq!(media_type(wrong.as_bytes()), None, "{}", &wrong[..wrong.len().min(80)]);
        }
        assert_eq!(media_type(b"\xff\xfe<svg"), None);
    }
}
