//! Redaction: what looks like a secret is left out of a text, line by line.
//!
//! It errs on the side of leaving out. A value goes by the name before it, and by its own looks: tokens, keys
//! and passwords in addresses have some.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Text in the place of a secret.
const LEFT_OUT: &str = "<left out>";

/// A value after a name that promises a secret, in YAML, JSON, env, and the fields of a log.
static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)((?:[\w.-]*(?:passw|secret|token|credential|api[_-]?key|private[_-]?key|key-data|certificate-data|auth)[\w.-]*)["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}\]]+)"#,
    )
    .ok()
});

/// Texts that are secrets by their looks, and what stands in their place: JSON web tokens, values of an
/// Authorization header, and passwords of addresses.
static LOOKS: LazyLock<Option<Vec<(Regex, String)>>> = LazyLock::new(|| {
    let table = [
        (r"eyJ[\w-]{8,}\.[\w-]*(?:\.[\w-]*)?", LEFT_OUT.to_owned()),
        (r#"(?i)\b(bearer|basic)\s+[^\s"',;]{6,}"#, format!("$1 {LEFT_OUT}")),
        (r"://[^\s/@:]+:[^\s/@]+@", format!("://{LEFT_OUT}@")),
    ];
    table.into_iter().map(|(pattern, instead)| Some((Regex::new(pattern).ok()?, instead))).collect()
});

/// Directories of a node in which files are named.
const ROOTS: [&str; 12] =
    ["/etc", "/home", "/lib", "/mnt", "/opt", "/proc", "/root", "/run", "/srv", "/tmp", "/usr", "/var"];

/// The text without what looks like a secret.
pub(super) fn redact(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut inside_key = false;
    for line in text.split_inclusive('\n') {
        if line.contains("-----BEGIN") && line.contains("PRIVATE KEY") {
            inside_key = true;
            clean.push_str(LEFT_OUT);
            clean.push('\n');
        }
        let ends = line.contains("-----END");
        if !inside_key {
            clean.push_str(&of_line(line));
        }
        inside_key &= !ends;
    }
    clean
}

fn of_line(line: &str) -> String {
    // Patterns are constant, and a test compiles them; a line that cannot be judged does not go out.
    let (Some(named), Some(looks)) = (NAMED.as_ref(), LOOKS.as_ref()) else {
        return format!("{LEFT_OUT}\n");
    };
    let line = named.replace_all(line, |found: &Captures<'_>| {
        if is_harmless(&found[2]) { found[0].to_owned() } else { format!("{}{LEFT_OUT}", &found[1]) }
    });
    looks.iter().fold(line.into_owned(), |line, (pattern, instead)| {
        pattern.replace_all(&line, instead.as_str()).into_owned()
    })
}

/// A value that says nothing: paths, switches, numbers and names of files are what a report is read for.
fn is_harmless(value: &str) -> bool {
    let bare = value.trim_matches(['"', '\'']);
    bare.is_empty()
        // In base64, too, a text may begin with "/".
        || ROOTS.iter().any(|root| bare.strip_prefix(root).is_some_and(|rest| rest.starts_with('/')))
        || ["true", "false", "null", "none", "bearer", "basic"].contains(&bare.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out_and_nothing_else() {
        let table = [
            ("token: abc123\n", "token: <left out>\n"),
            ("  \"bootstrapToken\": \"a.b\",\n", "  \"bootstrapToken\": <left out>,\n"),
            (
                "  \"dockerPassword\": \"a \\\" b\", \"x\": 1\n",
                "  \"dockerPassword\": <left out>, \"x\": 1\n",
            ),
            ("REGISTRY_SECRET=hunter2 OTHER=1\n", "REGISTRY_SECRET=<left out> OTHER=1\n"),
            ("client-key-data: LS0tLS1CRUdJTg==\n", "client-key-data: <left out>\n"),
            ("\"auth\": \"dXNlcjpwYXNz\"\n", "\"auth\": <left out>\n"),
            ("auth: /9j4AAQSkZJRgABAQ==\n", "auth: <left out>\n"),
            ("Authorization: Bearer abc.def-ghi_0123456789\n", "Authorization: Bearer <left out>\n"),
            ("sent eyJhbGciOiJSUzI1.eyJpc3MiOiJrdWJl.c2ln to it\n", "sent <left out> to it\n"),
            ("proxy https://user:hunter2@proxy:3128 used\n", "proxy https://<left out>@proxy:3128 used\n"),
            ("jwt=eyJhbGciOiJSUzI1.eyJpc3MiOiJrdWJl.c2ln\n", "jwt=<left out>\n"),
            ("header Basic dXNlcjpwdw== sent\n", "header Basic <left out> sent\n"),
            ("a password is 'x y', said b\n", "a password is 'x y', said b\n"),
            ("password='x y', b\n", "password=<left out>, b\n"),
            // What a report is read for.
            ("kubeconfig: /etc/berth/kubeconfig\n", "kubeconfig: /etc/berth/kubeconfig\n"),
            ("tokenFile: /var/run/token\n", "tokenFile: /var/run/token\n"),
            (
                "image r.example/app@sha256:0123456789abcdef0123\n",
                "image r.example/app@sha256:0123456789abcdef0123\n",
            ),
            ("container 0123456789abcdef0123456789abcdef\n", "container 0123456789abcdef0123456789abcdef\n"),
            ("address: https://10.0.0.1:6443\n", "address: https://10.0.0.1:6443\n"),
            ("authentication: true\n", "authentication: true\n"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(redact(text), expected);
        }
    }

    #[test]
    fn a_private_key_is_left_out_whole() {
        let text = "a\n-----BEGIN EC PRIVATE KEY-----\nMHc\nCAQ\n-----END EC PRIVATE KEY-----\nb\n";
        assert_eq!(redact(text), "a\n<left out>\nb\n");
        assert_eq!(redact("a\n-----BEGIN PRIVATE KEY-----\nMHc\n"), "a\n<left out>\n", "cut off");
    }
}
