//! Texts that have to fit: the API server refuses an object as a whole when one of its texts is too long.

/// Cuts a text between characters, to as much as fits into so many bytes.
pub fn cut(text: &str, longest: usize) -> &str {
    let end = (0..=text.len().min(longest)).rfind(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

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
