//! Image references, as containerd and the kubelet read them.
//!
//! A runtime is always asked for the reference as it was given. Its parts are for limits, credentials and
//! reports only, so that no mistake here can make another image of it.

mod parts;

use std::{fmt, str::FromStr};

use self::parts::Parts;

/// A valid reference: `[registry[:port]/]repository[:tag][@digest]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    given: String,
    parts: Parts,
}

/// Not an image reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not an image reference: {why}")]
pub struct InvalidReference {
    given: String,
    why: String,
}

impl Reference {
    /// The reference as it was given.
    pub fn as_str(&self) -> &str {
        &self.given
    }

    /// Host and port of the registry; `docker.io` where none is given.
    pub fn registry(&self) -> &str {
        &self.parts.registry
    }

    /// The repository in the registry, with the `library/` that Docker Hub implies.
    pub fn repository(&self) -> &str {
        &self.parts.repository
    }

    /// The tag; `latest` where neither tag nor digest is given.
    pub fn tag(&self) -> Option<&str> {
        self.parts.tag.as_deref()
    }

    /// The digest, which decides where both are given.
    pub fn digest(&self) -> Option<&str> {
        self.parts.digest.as_deref()
    }

    /// The name without tag and digest, as it was given: the key of `NodeImage.spec.images`.
    pub fn name(&self) -> &str {
        let name = self.given.split_once('@').map_or(self.given.as_str(), |(name, _)| name);
        match name.rsplit_once(':') {
            // A colon before the last slash is a port.
            Some((name, tag)) if !tag.contains('/') => name,
            _ => name,
        }
    }

    /// The name as people write it, without what Docker Hub implies: what OpenKruise calls the image of a job
    /// in a `NodeImage`.
    pub fn familiar_name(&self) -> String {
        let Parts { registry, repository, .. } = &self.parts;
        if registry != parts::DOCKER_HUB {
            return format!("{registry}/{repository}");
        }
        let short = repository.strip_prefix("library/").filter(|rest| !rest.contains('/'));
        short.unwrap_or(repository).to_owned()
    }

    /// The entry of this name in `NodeImage`: its digest where it has one, else its tag.
    pub fn entry(&self) -> &str {
        self.digest().or_else(|| self.tag()).unwrap_or_default()
    }

    /// The whole name, nothing left to defaults: what containerd calls the image.
    pub fn normalized(&self) -> String {
        self.parts.whole()
    }

    /// Gives the name that a runtime has for the image: everything that the reference leaves to defaults is
    /// in it, and no tag beside a digest.
    pub fn record(&self) -> String {
        match self.digest() {
            Some(digest) => format!("{}/{}@{digest}", self.registry(), self.repository()),
            None => self.normalized(),
        }
    }

    /// The image that an entry of `NodeImage.spec.images` stands for: a name, and a tag or a digest of it.
    pub fn of_entry(name: &str, entry: &str) -> Result<Self, InvalidReference> {
        let separator = if entry.contains(':') { '@' } else { ':' };
        let reference: Self = format!("{name}{separator}{entry}").parse()?;
        // A name with a tag of its own would swallow the entry, or be swallowed by it.
        if reference.name() != name || reference.entry() != entry {
            let why = "the name has a tag or a digest of its own".to_owned();
            return Err(InvalidReference { given: format!("{name} with {entry}"), why });
        }
        Ok(reference)
    }
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(given: &str) -> Result<Self, InvalidReference> {
        let invalid = |why: &str| InvalidReference { given: given.to_owned(), why: why.to_owned() };
        if !given.is_ascii() {
            return Err(invalid("letters other than ASCII"));
        }
        let parts = Parts::read(given).map_err(invalid)?;
        // An upper case first part is a path of Docker Hub here, and a host for runtimes: it must get
        // nobody's credentials.
        if parts.repository.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(invalid("upper case letters in the repository"));
        }
        // No runtime takes digits of both cases.
        if parts.digest.as_ref().is_some_and(|digest| digest.bytes().any(|byte| byte.is_ascii_uppercase())) {
            return Err(invalid("upper case letters in the digest"));
        }
        Ok(Self { given: given.to_owned(), parts })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

#[cfg(test)]
mod tests;
