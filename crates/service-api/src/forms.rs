//! What texts look like, as regular expressions: said by the description of the API, held by the rules.

/// A text of one line that is not blank.
pub(crate) const ONE_LINE: &str =
    r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f\u0085][^\u0000-\u001f\u007f-\u009f]*$";

/// A text that is not blank.
pub(crate) const NOT_BLANK: &str = r"[^\s\u0000\u0085]";
