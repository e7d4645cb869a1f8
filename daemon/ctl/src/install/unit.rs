//! Reads systemd units as systemd does, as far as the kubelet's command line depends on it: drop-ins, resets
//! by an empty assignment, continued lines, quotes, variables (systemd.unit(5), systemd.service(5),
//! systemd.exec(5)).

use std::collections::HashMap;

use anyhow::Result;

use super::host::Host;

/// Where units are, the first wins (systemd.unit(5), "Unit File Load Path").
const LOAD_PATH: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// A unit with its drop-ins, in the order in which they count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unit {
    files: Vec<String>,
}

impl Unit {
    /// Reads a unit as if the drop-in `left_out` were not there; `None` when there is no such unit.
    pub(crate) fn read(host: &Host, name: &str, left_out: &str) -> Result<Option<Self>> {
        let mut files = Vec::new();
        for dir in LOAD_PATH {
            if let Some(text) = host.read(&format!("{dir}/{name}"))? {
                files.push(text);
                break;
            }
        }
        if files.is_empty() {
            return Ok(None);
        }
        let mut drop_ins: Vec<(String, String)> = Vec::new();
        for dir in LOAD_PATH {
            let dir = format!("{dir}/{name}.d");
            for file in host.list(&dir)?.into_iter().filter(|file| file.ends_with(".conf")) {
                let path = format!("{dir}/{file}");
                // One of the same name in a folder before this one takes its place.
                if path != left_out && !drop_ins.iter().any(|(known, _)| *known == file) {
                    drop_ins.push((file, path));
                }
            }
        }
        drop_ins.sort();
        for (_, path) in drop_ins {
            files.extend(host.read(&path)?);
        }
        Ok(Some(Self { files }))
    }

    /// A unit of these texts.
    #[cfg(test)]
    pub(crate) fn of(files: &[&str]) -> Self {
        Self { files: files.iter().map(|text| (*text).to_owned()).collect() }
    }

    /// The values of a list in `[Service]`; an empty assignment forgets those before it.
    pub(crate) fn values(&self, key: &str) -> Vec<String> {
        let mut values = Vec::new();
        for file in &self.files {
            let mut in_section = false;
            for line in lines(file) {
                if line.starts_with('[') {
                    in_section = line == "[Service]";
                } else if let Some((name, value)) = line.split_once('=')
                    && in_section
                    && name.trim() == key
                {
                    match value.trim() {
                        "" => values.clear(),
                        value => values.push(value.to_owned()),
                    }
                }
            }
        }
        values
    }

    /// The variables it gives to its process. Those of `EnvironmentFile=` count more than those of
    /// `Environment=`.
    pub(crate) fn environment(&self, host: &Host) -> Result<HashMap<String, String>> {
        let mut variables = HashMap::new();
        for word in self.values("Environment").iter().flat_map(|value| words(value)) {
            variables.extend(word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        for file in self.values("EnvironmentFile") {
            let text = host.read(file.trim_start_matches('-'))?.unwrap_or_default();
            variables.extend(self::variables(&text));
        }
        Ok(variables)
    }
}

/// The variables of an `EnvironmentFile=`.
pub(crate) fn variables(text: &str) -> HashMap<String, String> {
    let lines = lines(text);
    let pairs = lines.iter().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), unquote(value.trim()))).collect()
}

/// The lines that say something, continued ones joined.
fn lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    for line in text.lines() {
        let line = line.trim();
        // Comments may stand between the parts of a continued line.
        if line.starts_with(['#', ';']) || (line.is_empty() && current.is_empty()) {
            continue;
        }
        match line.strip_suffix('\\') {
            Some(part) => current = current + part + " ",
            None => lines.push(std::mem::take(&mut current) + line),
        }
    }
    if !current.trim().is_empty() {
        lines.push(current);
    }
    lines.into_iter().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Splits at blanks that are not in quotes.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', _) => word.get_or_insert_default().extend(characters.next()),
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// A command line with its variables in place: `$A` as a word of its own is as many words as its value has,
/// `${A}` is what it is wherever it stands, and what is not set is nothing.
pub(crate) fn expand(command: &str, variables: &HashMap<String, String>) -> Vec<String> {
    let mut expanded = Vec::new();
    for word in words(command) {
        let alone = word.strip_prefix('$').filter(|name| is_name(name));
        match alone {
            Some(name) => expanded.extend(variables.get(name).iter().flat_map(|value| words(value))),
            None => expanded.push(substitute(&word, variables)),
        }
    }
    expanded
}

fn substitute(word: &str, variables: &HashMap<String, String>) -> String {
    let mut result = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('$') {
        result += before;
        rest = after;
        if let Some(more) = after.strip_prefix('$') {
            result.push('$');
            rest = more;
        } else if let Some((name, more)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            result += variables.get(name).map_or("", String::as_str);
            rest = more;
        } else {
            result.push('$');
        }
    }
    result + rest
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn unquote(value: &str) -> String {
    let quoted = |mark| value.strip_prefix(mark).and_then(|value| value.strip_suffix(mark));
    quoted('"').or_else(|| quoted('\'')).unwrap_or(value).to_owned()
}

/// The last value of a flag of Go's pflag: `--name=value`, or `--name value`.
pub(crate) fn flag<'a>(args: &'a [String], name: &str) -> Option<&'a str> {
    let mut found = None;
    for (index, arg) in args.iter().enumerate() {
        let Some(rest) = arg.strip_prefix("--").and_then(|arg| arg.strip_prefix(name)) else { continue };
        if let Some(value) = rest.strip_prefix('=') {
            found = Some(value);
        } else if rest.is_empty() {
            found = args.get(index + 1).map(String::as_str);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_continued_and_reset() {
        let unit = Unit::of(&[
            "# comment\n[Unit]\nExecStart=/no\n[Service]\nExecStart=/bin/a \\\n  # between\n  --b \\\n  --c\nRestart=always\n",
            "[Service]\nExecStart=\nExecStart = /bin/d --e\n",
        ]);
        assert_eq!(unit.values("ExecStart"), ["/bin/d --e"]);
        assert_eq!(Unit { files: unit.files[..1].to_vec() }.values("ExecStart"), ["/bin/a  --b  --c"]);
        assert!(unit.values("ExecStartPre").is_empty());
    }

    #[test]
    fn words_and_variables() {
        assert_eq!(words(r#"a "b c"  'd "e' f\ g """#), ["a", "b c", "d \"e", "f g", ""]);
        let variables: HashMap<String, String> =
            [("A", "--x=1 --y='2 3'"), ("B", "b")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        assert_eq!(
            expand("/k $A $NONE --b=${B}-${NONE} $$B x$B", &variables),
            ["/k", "--x=1", "--y=2 3", "--b=b-", "$B", "x$B"]
        );
    }

    #[test]
    fn the_last_flag_counts() {
        let args = words("kubelet --config=/a --configs=/x --config /b --v=2 -config=/c");
        assert_eq!(flag(&args, "config"), Some("/b"));
        assert_eq!(flag(&args, "v"), Some("2"));
        assert_eq!(flag(&args, "kubeconfig"), None);
    }

    #[test]
    fn a_unit_is_read_with_its_drop_ins() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(dir.path());
        let write = |path: &str, text: &str| {
            let path = host.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(Unit::read(&host, "k.service", "").unwrap(), None);
        write(
            "/lib/systemd/system/k.service",
            "[Service]\nExecStart=/k $A $F\nEnvironment=A=1 \"F=no way\"\n",
        );
        write("/usr/lib/systemd/system/k.service.d/10-a.conf", "[Service]\nEnvironment=A=hidden\n");
        write("/etc/systemd/system/k.service.d/10-a.conf", "[Service]\nEnvironmentFile=-/etc/env\n");
        write("/etc/systemd/system/k.service.d/90-ours.conf", "[Service]\nExecStart=\nExecStart=/ours\n");
        write("/etc/systemd/system/k.service.d/readme.txt", "[Service]\nExecStart=/not\n");
        write("/etc/env", "# file\nF=\"--f g\"\n");
        let unit =
            Unit::read(&host, "k.service", "/etc/systemd/system/k.service.d/90-ours.conf").unwrap().unwrap();
        assert_eq!(unit.values("ExecStart"), ["/k $A $F"]);
        let variables = unit.environment(&host).unwrap();
        assert_eq!(expand("/k $A $F", &variables), ["/k", "1", "--f", "g"]);
        let all = Unit::read(&host, "k.service", "").unwrap().unwrap();
        assert_eq!(all.values("ExecStart"), ["/ours"]);
    }
}
