//! Names as Kubernetes accepts them: of objects, of containers and what is in them, keys and values of
//! labels. What breaks the rules is refused by the API server whenever it is tried, so it is never tried.

/// The longest name or label's value, and the longest part of a DNS name.
const LONGEST: usize = 63;
/// The longest DNS name.
const LONGEST_DOMAIN: usize = 253;
/// The longest name of a port.
const LONGEST_PORT: usize = 15;

/// Returns whether a text is a DNS label: the name of a container, a volume or a namespace, safe as a file
/// name.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LONGEST && is_dns_part(text)
}

/// Returns whether a text is a DNS name: what pods and most other objects have. Only the whole has a bound.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_DOMAIN && text.split('.').all(is_dns_part)
}

/// Returns whether a text is the key of a label or a type of a condition: a name, with a DNS name and "/"
/// before it or without.
pub fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

/// Returns whether a text may be the value of a label.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

/// Returns whether a text may be the name of a container's port: a service as IANA has them (RFC 6335).
pub fn is_port_name(text: &str) -> bool {
    text.len() <= LONGEST_PORT
        && is_dns_part(text)
        && !text.contains("--")
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Returns whether a text may be the name of a variable: since Kubernetes 1.32 all printable ASCII but "=".
pub fn is_variable_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

fn is_name(text: &str) -> bool {
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    text.len() <= LONGEST && has_ends(text, u8::is_ascii_alphanumeric) && text.as_bytes().iter().all(inner)
}

/// Returns whether a text may stand between two dots, but for its length.
fn is_dns_part(text: &str) -> bool {
    let end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    has_ends(text, end) && text.bytes().all(|byte| end(&byte) || byte == b'-')
}

/// Tells whether it is not empty, and such at both ends.
fn has_ends(text: &str, is: impl Fn(&u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(&is) && bytes.last().is_some_and(&is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let (prefix, name) = ("a".repeat(253), "n".repeat(63));
        for good in ["a", "A.b_c-9", "game.kruise.io/idle", "a-b.c/D", &name, &format!("{prefix}/{name}")] {
            assert!(is_qualified(good), "{good}");
        }
        for bad in [
            "",
            "a/",
            "/a",
            "a b",
            "-a",
            "a.",
            "a/b/c",
            "Game.io/idle",
            "a..b/c",
            "-a/b",
            "idl\u{e9}",
            &format!("{name}n"),
            &format!("{prefix}a/{name}"),
        ] {
            assert!(!is_qualified(bad), "{bad}");
        }
    }

    #[test]
    fn values_of_labels() {
        for good in ["", "v1.2_3-x", "0", &"n".repeat(63)] {
            assert!(is_label_value(good), "{good}");
        }
        for bad in ["a b", "-a", "a:1", "a/b", "\u{e9}", &"n".repeat(64)] {
            assert!(!is_label_value(bad), "{bad}");
        }
    }

    #[test]
    fn names_of_ports() {
        for good in ["http", "8080a", "a", "web-1", "a23456789012345"] {
            assert!(is_port_name(good), "{good}");
        }
        for bad in ["", "a234567890123456", "8080", "a--b", "-a", "a-", "a.b", "HTTP", "\u{e9}"] {
            assert!(!is_port_name(bad), "{bad}");
        }
    }

    #[test]
    fn names_of_variables() {
        for good in ["A", "a.b-c", "1 x", "~"] {
            assert!(is_variable_name(good), "{good}");
        }
        for bad in ["", "A=B", "=", "A\t", "\u{e9}", "\u{7f}"] {
            assert!(!is_variable_name(bad), "{bad}");
        }
    }

    #[test]
    fn names_of_objects() {
        for (text, label, subdomain) in [
            ("web-1", true, true),
            ("web.1", false, true),
            ("", false, false),
            ("Web", false, false),
            ("-web", false, false),
            ("web-", false, false),
            ("web..1", false, false),
            ("a/b", false, false),
            (&"a".repeat(63), true, true),
            (&"a".repeat(64), false, true),
            (&format!("{}{}", "a.".repeat(126), "a"), false, true),
            (&format!("{}{}", "a.".repeat(126), "aa"), false, false),
        ] {
            assert_eq!((is_dns_label(text), is_dns_subdomain(text)), (label, subdomain), "{text}");
        }
    }
}
