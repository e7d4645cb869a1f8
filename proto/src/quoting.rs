//! Messages of parsers without the values they quote: those may be a Secret's, or a container's env, and the
//! text goes to logs and into objects that everybody reads.

use std::error::Error;

/// How the texts of a parser begin that quote what was there instead of what was expected.
const QUOTING: [&str; 3] = ["invalid type: ", "invalid value: ", "unknown variant "];

/// The text of a parser built on serde, without the value in it. Fields, types, lines and columns stay.
pub fn unquoted(text: &str) -> String {
    let Some(at) = QUOTING.iter().filter_map(|quoting| text.find(quoting)).min() else {
        return text.to_owned();
    };
    // `invalid type: string "value", expected a map at line 1 column 2`: the last of all that look like the
    // end is the end, as the value may look like anything.
    let Some(from) = text[at..].find(['"', '`']).map(|from| at + from) else { return text.to_owned() };
    let to = text.rfind(", expected ").filter(|to| *to > from).unwrap_or(text.len());
    format!("{}{}", text[..from].trim_end(), &text[to..])
}

/// Texts of an error and its causes; where JSON is the cause of all, its value is in none of them.
pub(crate) fn texts(error: &(dyn Error + 'static)) -> Vec<String> {
    let causes = || std::iter::successors(Some(error), |&error| error.source());
    let json = causes().find_map(|cause| cause.downcast_ref::<serde_json::Error>()).map(ToString::to_string);
    let text = |cause: &(dyn Error + 'static)| {
        let text = cause.to_string();
        // Others repeat it in their own words.
        json.as_ref().map_or_else(|| text.clone(), |json| text.replace(json.as_str(), &unquoted(json)))
    };
    causes().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("Error deserializing response: {0}")]
    struct Repeats(#[source] serde_json::Error);

    #[test]
    fn values_are_left_out_and_places_stay() {
        let error = |text: &str| serde_json::from_str::<Vec<u8>>(text).unwrap_err();
        let table = [
            (r#""hunter2""#, "invalid type: string, expected a sequence at line 1 column 9"),
            (r#"[1, "hunter2\", expected u8 `"]"#, "invalid type: string, expected u8 at line 1 column 30"),
            ("[4711]", "invalid value: integer, expected u8 at line 1 column 5"),
            ("[1", "EOF while parsing a list at line 1 column 2"),
        ];
        for (text, expect) in table {
            assert_eq!(unquoted(&error(text).to_string()), expect, "{text}");
            let texts = texts(&Repeats(error(text)));
            assert_eq!(texts, [format!("Error deserializing response: {expect}"), expect.to_owned()]);
        }
        assert_eq!(
            unquoted("unknown variant `hun`ter2`, expected `A` or `B`"),
            "unknown variant, expected `A` or `B`"
        );
    }
}
