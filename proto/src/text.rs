//! Texts that have to fit, because the API server refuses an object as a whole when one of its texts is too
//! long; and texts for a terminal, which obeys what it is told.

/// Cuts a text between characters, to as much as fits into so many bytes.
pub fn cut(text: &str, longest: usize) -> &str {
    let end = (0..=text.len().min(longest)).rfind(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Puts a blank in the place of each control character. Whoever may write an object may write any text in it,
/// and a terminal obeys some: it is not to be told anything in the name of who looks.
pub fn one_line(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}

/// The same of a text of several lines: their ends and tabs stay.
pub fn lines(text: &str) -> String {
    let stays = |one: char| !one.is_control() || matches!(one, '\n' | '\t');
    text.chars().map(|one| if stays(one) { one } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_nothing() {
        for (text, of_one_line, of_lines) in [
            ("why", "why", "why"),
            ("a\tb\nc", "a b c", "a\tb\nc"),
            ("\u{1b}[2Jgone\rnew", " [2Jgone new", " [2Jgone new"),
            // The same by one character, and what takes back the one before.
            ("\u{9b}2J\u{8}\u{7f}\u{fc}", " 2J  \u{fc}", " 2J  \u{fc}"),
        ] {
            assert_eq!((one_line(text).as_str(), lines(text).as_str()), (of_one_line, of_lines), "{text:?}");
        }
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        for (text, longest, kept) in [
            ("", 3, ""),
            ("why", 3, "why"),
            ("whyever", 3, "why"),
            ("aüb", 2, "a"),
            ("aüb", 3, "aü"),
            ("ü", 0, ""),
        ] {
            assert_eq!(cut(text, longest), kept, "{text} {longest}");
        }
    }
}
