//! The grammar of references, read without a pattern: compiled, the pattern of that grammar takes more memory
//! than everything else that a node's agent keeps.
//!
//! ```text
//!   reference = name [":" tag] ["@" digest]
//!   name      = [host [":" port] "/"] component *("/" component)
//! ```

/// Registry where none is given, and another name that it has.
pub(super) const DOCKER_HUB: &str = "docker.io";
const DOCKER_HUB_INDEX: &str = "index.docker.io";
/// Tag where neither tag nor digest is given.
const LATEST: &str = "latest";
const LONGEST_REPOSITORY: usize = 255;
const LONGEST_TAG: usize = 128;
/// Digests that there are, with the number of their digits.
const DIGESTS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// A reference in its parts, with nothing left to defaults.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Parts {
    pub(super) registry: String,
    pub(super) repository: String,
    pub(super) tag: Option<String>,
    pub(super) digest: Option<String>,
}

impl Parts {
    /// Reads a reference of ASCII letters.
    ///
    /// # Errors
    /// The part that it lacks.
    pub(super) fn read(given: &str) -> Result<Self, &'static str> {
        const MALFORMED: &str = "invalid reference format";
        if given.is_empty() {
            return Err("repository name must have at least one component");
        }
        let (rest, digest) = match given.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (given, None),
        };
        let (name, tag) = match rest.rsplit_once(':') {
            // A colon before a slash is that of a port.
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        if !is_name(name) || tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(MALFORMED);
        }
        digest.map(check_digest).transpose()?;
        let (registry, repository) = split(name);
        if repository.len() > LONGEST_REPOSITORY {
            return Err("repository name must not be more than 255 characters");
        }
        let latest = digest.is_none().then_some(LATEST);
        let tag = tag.or(latest).map(str::to_owned);
        Ok(Self { registry, repository, tag, digest: digest.map(str::to_owned) })
    }

    /// The whole of it.
    pub(super) fn whole(&self) -> String {
        let mut whole = format!("{}/{}", self.registry, self.repository);
        whole.extend(self.tag.iter().flat_map(|tag| [":", tag]));
        whole.extend(self.digest.iter().flat_map(|digest| ["@", digest]));
        whole
    }
}

fn is_name(name: &str) -> bool {
    match name.split_once('/') {
        None => is_component(name),
        Some((first, path)) => (is_host(first) || is_component(first)) && path.split('/').all(is_component),
    }
}

fn is_host(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "0"));
    let is_label = |label: &str| {
        let alphanumeric = |letter: Option<u8>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
        alphanumeric(label.bytes().next())
            && alphanumeric(label.bytes().last())
            && label.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'-')
    };
    host.split('.').all(is_label) && is_digits(port)
}

/// Runs of lower case letters and digits, between two of them a dot, one or two underlines, or hyphens.
fn is_component(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let between = text.split(is_plain).filter(|between| !between.is_empty());
    let is_separator =
        |between: &str| matches!(between, "." | "_" | "__") || between.bytes().all(|letter| letter == b'-');
    text.starts_with(is_plain) && text.ends_with(is_plain) && between.into_iter().all(is_separator)
}

fn is_tag(text: &str) -> bool {
    let is_word = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_';
    text.len() <= LONGEST_TAG
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|letter| is_word(letter) || letter == b'.' || letter == b'-')
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit())
}

fn check_digest(digest: &str) -> Result<(), &'static str> {
    let (algorithm, digits) = digest.split_once(':').ok_or("invalid checksum digest format")?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err("invalid checksum digest format");
    }
    let known = DIGESTS.iter().find(|(name, _)| *name == algorithm);
    let (_, length) = known.ok_or("unsupported digest algorithm")?;
    if digits.len() == *length { Ok(()) } else { Err("invalid checksum digest length") }
}

/// Registry and repository of a name: its first part is a registry if it looks like one.
fn split(name: &str) -> (String, String) {
    let is_registry = |first: &str| first.contains(['.', ':']) || first == "localhost";
    let (registry, path) = match name.split_once('/') {
        Some((DOCKER_HUB_INDEX, path)) => (DOCKER_HUB, path),
        Some((first, path)) if is_registry(first) => (first, path),
        _ => (DOCKER_HUB, name),
    };
    let is_official = registry == DOCKER_HUB && !path.contains('/');
    let repository = if is_official { format!("library/{path}") } else { path.to_owned() };
    (registry.to_owned(), repository)
}
