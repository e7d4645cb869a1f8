//! Message about a run, as it can stand in a condition of the pod: readable, short, and the same each time as
//! long as nothing changes, because every change is written.

/// In bytes.
const LIMIT: usize = 1 << 10;
/// The identifiers runtimes make up are at least so long.
const IDENTIFIER: usize = 32;

/// Makes the output of a container readable, printed or sent: trimmed, with a replacement for each byte that
/// is no text, cut at a character.
pub(super) fn readable(bytes: &[u8]) -> String {
    let bytes = bytes.trim_ascii_start();
    // Bytes become more when they are replaced, never fewer.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LIMIT)]);
    cut(text.trim())
}

/// Makes a message of ours or of the runtime steady: an identifier in it, such as the one of an exec, may be
/// new each time.
pub(super) fn steady(text: &str) -> String {
    let mut steady = String::with_capacity(text.len());
    // What stands behind an identifier does not decide whether it is one.
    for (position, part) in text.trim().split('"').enumerate() {
        if position > 0 {
            steady.push('"');
        }
        let is_made_up = part.len() >= IDENTIFIER && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        steady.push_str(if is_made_up { "..." } else { part });
    }
    cut(&steady)
}

fn cut(text: &str) -> String {
    let mut end = 0;
    let mut kept = String::new();
    for character in text.chars() {
        let shown = match character {
            '\n' | '\t' => character,
            // A terminal would obey them.
            _ if character.is_control() => char::REPLACEMENT_CHARACTER,
            _ => character,
        };
        if kept.len() + shown.len_utf8() > LIMIT {
            break;
        }
        kept.push(shown);
        if !shown.is_whitespace() {
            end = kept.len();
        }
    }
    kept.truncate(end);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_becomes_readable() {
        let long = "ü".repeat(600);
        let table: [(&[u8], &str); 9] = [
            (b"", ""),
            (b" \n ", ""),
            (b"idle\n", "idle"),
            (b"\n\n a\tb\nc \r\n", "a\tb\nc"),
            (b"caf\xe9!", "caf\u{fffd}!"),
            (b"\x1b[31mred\0", "\u{fffd}[31mred\u{fffd}"),
            (&[b' '; 5000], ""),
            (long.as_bytes(), &long[..1024]),
            (&[b"x".repeat(1023).as_slice(), "ü".as_bytes()].concat(), &"x".repeat(1023)),
        ];
        for (bytes, expect) in table {
            assert_eq!(readable(bytes), expect, "{:?}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(readable(&[0xff; 100_000]), "\u{fffd}".repeat(341));
    }

    #[test]
    fn identifiers_do_not_make_a_message_new() {
        let said = |id: &str| steady(&format!("failed to start exec \"{id}\": exec: \"nope\": not found"));
        assert_eq!(said(&"0a".repeat(32)), said(&"1b".repeat(32)));
        assert_eq!(said(&"0a".repeat(32)), "failed to start exec \"...\": exec: \"nope\": not found");
        assert_eq!(steady(&format!("no exec \"{}\n", "0a".repeat(32))), "no exec \"...");
        assert_eq!(steady("no \"such\" thing\n"), "no \"such\" thing");
        assert_eq!(steady(&"z".repeat(5000)).len(), 1024);
    }
}
