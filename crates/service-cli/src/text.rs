//! Text that other users wrote, on a terminal: what it must not contain, how wide it is, and how it is shortened.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Joins the characters of one emoji.
const ZERO_WIDTH_JOINER: char = '\u{200d}';

/// Whether a character could control the terminal, or change what the text around it looks like: control characters, those
/// that set the direction of text, line separators and invisible ones.
pub(crate) fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Replaces unsafe characters with spaces, so that a name chosen by another user is one line and cannot control the terminal.
pub(crate) fn strip_control(text: &str) -> String {
    text.chars().map(|character| if is_unsafe(character) { ' ' } else { character }).collect()
}

/// Replaces unsafe characters except line breaks and tabs, so that text written by others cannot control the terminal.
pub(crate) fn replace_control(text: &str) -> Cow<'_, str> {
    let is_replaced = |c: char| is_unsafe(c) && c != '\n' && c != '\t';
    if text.contains(is_replaced) { Cow::Owned(text.replace(is_replaced, "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// The number of columns that a text takes on a terminal.
pub(crate) fn display_width(text: &str) -> usize {
    text.width()
}

/// Shortens a text to a number of columns, with `ellipsis` at its end. It ends between words if that keeps a third of the columns,
/// and never between a character and its accents.
pub(crate) fn shorten<'a>(text: &'a str, columns: usize, ellipsis: &str) -> Cow<'a, str> {
    if display_width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let room = columns.saturating_sub(display_width(ellipsis));
    let ends = text.char_indices().map(|(at, _)| at).filter(|at| is_boundary(text, *at));
    let end = ends.take_while(|at| display_width(&text[..*at]) <= room).last().unwrap_or_default();
    let mut kept = &text[..end];
    if !text[end..].starts_with(' ')
        && let Some(space) = kept.rfind(' ')
        && display_width(&kept[..space]) * 3 >= columns
    {
        kept = &kept[..space];
    }
    Cow::Owned(format!("{}{ellipsis}", kept.trim_end()))
}

/// Whether a text can be cut at this byte: not before an accent, and not inside an emoji or a flag.
fn is_boundary(text: &str, at: usize) -> bool {
    let is_flag_half = |c: char| matches!(c, '\u{1f1e6}'..='\u{1f1ff}');
    let (before, after) = text.split_at(at);
    let Some(next) = after.chars().next() else { return true };
    let extends = next.width() == Some(0) || matches!(next, '\u{1f3fb}'..='\u{1f3ff}');
    let splits_flag =
        is_flag_half(next) && before.chars().rev().take_while(|before| is_flag_half(*before)).count() % 2 == 1;
    !extends && !splits_flag && !before.ends_with(ZERO_WIDTH_JOINER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_control_the_terminal_fh_14() {
        assert_eq!(strip_control("a\x1b[31mb\u{9b}c\n"), "a [31mb c ");
        assert_eq!(strip_control("safe\u{202e}exe.txt\u{2066}\u{200f}\u{61c}\u{feff}"), "safe exe.txt    ");
        assert_eq!(strip_control("a\u{2028}b"), "a b");
        assert_eq!(replace_control("a\u{202e}b\n\t\x07"), "a\u{fffd}b\n\t\u{fffd}");
        // Emoji and Persian words need joiners.
        for kept in ["👩\u{200d}💻", "می\u{200c}خواهم", "e\u{301}", "❤\u{fe0f}"] {
            assert_eq!(strip_control(kept), kept);
        }
    }

    #[test]
    fn the_width_of_wide_and_combining_characters_is_counted_fh_14() {
        for (text, width) in [
            ("plain", 5),
            ("日本語", 6),
            ("e\u{301}te\u{301}", 3),
            ("🚀", 2),
            ("👩\u{200d}💻", 2),
            ("🇩🇪", 2),
            ("ﾊﾛｰ", 3),
        ] {
            assert_eq!(display_width(text), width, "{text}");
        }
    }

    #[test]
    fn a_text_is_shortened_between_words_and_never_inside_a_character_fh_14() {
        for (text, columns, short) in [
            ("Build server", 12, "Build server"),
            ("Build server", 11, "Build…"),
            ("Build server of the week", 15, "Build server…"),
            ("Continuous-integration", 10, "Continuou…"),
            ("A 0123456789-0123456789", 10, "A 0123456…"),
            ("日本語の名前", 8, "日本語…"),
            ("日本語の名前", 7, "日本語…"),
            ("e\u{301}e\u{301}e\u{301}e\u{301}", 3, "e\u{301}e\u{301}…"),
            ("👩\u{200d}💻👩\u{200d}💻👩\u{200d}💻", 4, "👩\u{200d}💻…"),
            ("🇩🇪🇫🇷🇮🇹", 4, "🇩🇪…"),
            ("abc", 1, "…"),
        ] {
            let shortened = shorten(text, columns, "…");
            assert_eq!(shortened, short, "{text} in {columns}");
            assert!(display_width(&shortened) <= columns, "{text} in {columns}");
        }
        assert_eq!(shorten("Build server of the week", 15, "..."), "Build server...");
    }
}
