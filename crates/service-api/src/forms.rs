//! Regular expressions of texts, for the schemas. The server enforces them by its rules.

/// A text of one line that is not blank.
pub(crate) const ONE_LINE: &str =
    r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f\u0085][^\u0000-\u001f\u007f-\u009f]*$";

/// A text that is not blank.
pub(crate) const NOT_BLANK: &str = r"[^\s\u0000\u0085]";

/// ASCII characters that are not control characters, without spaces at the ends.
pub(crate) const TRIMMED_ASCII: &str = "^[!-~]([ -~]*[!-~])?$";
