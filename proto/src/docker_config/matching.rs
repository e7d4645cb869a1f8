//! For which images an entry of a docker configuration or of a plugin is: the kubelet's rules.
//!
//! An entry is `[scheme://]host[:port][/path]`. Each part of the host between dots may have `*`, which stands
//! for any characters of that part; the port is equal or absent in both; the path is a prefix, as a text and
//! not by its parts. Entries are tried in reverse order of their texts, which puts a longer path before a
//! shorter one.

/// The longest host: DNS has no longer names. Both an entry and an image are words of authors, and to compare
/// long ones takes the square of their length.
const LONGEST_HOST: usize = 253;

/// An entry without what does not matter: the scheme, and the `/v1/` or `/v2/` of old registries.
pub fn entry(server: &str) -> String {
    let bare = server.strip_prefix("https://").or_else(|| server.strip_prefix("http://")).unwrap_or(server);
    let (host, path) = split_path(bare);
    let path = path
        .strip_prefix("/v1/")
        .or_else(|| path.strip_prefix("/v2/"))
        .map_or(path.to_owned(), |rest| format!("/{rest}"));
    if path == "/" { host.to_owned() } else { format!("{host}{path}") }
}

/// Tells whether an entry is for an image `registry/repository`.
pub fn matches(entry: &str, image: &str) -> bool {
    let ((pattern, prefix), (host, path)) = (split_path(entry), split_path(image));
    let ((pattern, pattern_port), (host, port)) = (split_port(pattern), split_port(host));
    let (patterns, parts) = (pattern.split('.'), host.split('.'));
    pattern_port == port
        && pattern.len().max(host.len()) <= LONGEST_HOST
        && patterns.clone().count() == parts.clone().count()
        && patterns.zip(parts).all(|(pattern, part)| glob(pattern.as_bytes(), part.as_bytes()))
        && path.starts_with(prefix)
}

/// The indices of the entries that are for an image, in the order to try them in. Docker Hub's own name
/// counts only when no other entry is for it.
pub fn order(entries: &[String], image: &str) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..entries.len()).filter(|at| matches(&entries[*at], image)).collect();
    if indices.is_empty() && image.starts_with("docker.io/") {
        indices = (0..entries.len()).filter(|at| entries[*at] == "index.docker.io").collect();
    }
    // Stable: of equal ones the first stays first.
    indices.sort_by(|one, other| entries[*other].cmp(&entries[*one]));
    indices
}

fn split_path(text: &str) -> (&str, &str) {
    text.find('/').map_or((text, ""), |at| text.split_at(at))
}

fn split_port(host: &str) -> (&str, &str) {
    host.rsplit_once(':').unwrap_or((host, ""))
}

/// `*` and `?`. Linear but for the last star seen, so that no entry can make it slow.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen, mut star) = (0, 0, None);
    while seen < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[seen] => (at, seen) = (at + 1, seen + 1),
            _ => match star {
                Some((after, from)) => {
                    (at, seen) = (after + 1, from + 1);
                    star = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        let table = [
            ("https://index.docker.io/v1/", "index.docker.io"),
            ("http://example.com/v2/team", "example.com/team"),
            ("example.com", "example.com"),
            ("example.com/", "example.com"),
            ("example.com:5000/team/app", "example.com:5000/team/app"),
            ("*.example.com", "*.example.com"),
            ("", ""),
        ];
        for (server, expect) in table {
            assert_eq!(entry(server), expect, "{server}");
        }
    }

    #[test]
    fn a_host_that_can_be_none_matches_nothing() {
        for (letters, expect) in [(LONGEST_HOST, true), (LONGEST_HOST + 1, false)] {
            let host = "a".repeat(letters);
            assert_eq!(matches(&host, &format!("{host}/app")), expect, "{letters}");
        }
    }

    #[test]
    fn matching() {
        let table = [
            ("example.com", "example.com/app", true),
            ("example.com", "example.com:5000/app", false),
            ("example.com:5000", "example.com:5000/app", true),
            ("example.com:5000", "example.com/app", false),
            ("*.example.com", "a.example.com/app", true),
            ("*.example.com", "example.com/app", false),
            ("*.example.com", "a.b.example.com/app", false),
            ("*.*.example.com", "a.b.example.com/app", true),
            ("prefix*.example.com", "prefix-1.example.com/app", true),
            ("prefix*.example.com", "other.example.com/app", false),
            ("*.dkr.*.example.com", "1.dkr.eu.example.com/app", true),
            ("a?.example.com", "ab.example.com/app", true),
            ("example.com/team", "example.com/team/app", true),
            ("example.com/team", "example.com/team-two/app", true),
            ("example.com/team/", "example.com/team-two/app", false),
            ("example.com/other", "example.com/team/app", false),
            ("example.com/*", "example.com/team/app", false),
            ("com", "example.com/app", false),
            ("*", "localhost/app", true),
            ("*", "example.com/app", false),
            ("", "example.com/app", false),
            ("EXAMPLE.com", "example.com/app", false),
        ];
        for (entry, image, expect) in table {
            assert_eq!(matches(entry, image), expect, "{entry} for {image}");
        }
        assert!(!glob("*a".repeat(2000).as_bytes(), "a".repeat(1999).as_bytes()));
    }

    #[test]
    fn most_specific_first() {
        let entries = [
            "example.com",
            "example.com/team",
            "*.com",
            "example.com/team/app",
            "other.com",
            "index.docker.io",
        ];
        let entries = entries.map(str::to_owned);
        let ordered =
            |image| order(&entries, image).into_iter().map(|at| entries[at].as_str()).collect::<Vec<_>>();
        assert_eq!(
            ordered("example.com/team/app"),
            ["example.com/team/app", "example.com/team", "example.com", "*.com"]
        );
        assert_eq!(ordered("docker.io/library/busybox"), ["index.docker.io"]);
        assert!(ordered("localhost/app").is_empty());
        let entries = ["docker.io/team", "index.docker.io"].map(str::to_owned);
        assert_eq!(order(&entries, "docker.io/team/app"), [0]);
        assert_eq!(order(&entries, "docker.io/library/app"), [1]);
    }
}
