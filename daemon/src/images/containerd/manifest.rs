//! Manifests, as far as the size of a pull needs them.
//!
//! One of hundreds of thousands of layers can be written by everybody who may push an image. Each layer is
//! asked for again and again while a pull goes on, so such an image is pulled without telling how far it is.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

/// More layers, or platforms, than any image has: a filesystem of layers takes some hundred.
const MOST: usize = 1000;

/// Blobs of an image, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Config and layers.
    pub(super) blobs: Vec<Blob>,
}

/// A blob.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Blob {
    pub(super) digest: String,
    #[serde(default)]
    pub(super) size: u64,
}

/// One manifest of an index.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Child {
    pub(super) digest: String,
    #[serde(default)]
    platform: Option<Platform>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Platform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
}

/// Kinds of documents that a blob may turn out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Document {
    /// The manifest of an image.
    Image(Manifest),
    /// Manifests for several platforms.
    Index(Vec<Child>),
}

/// Only what is read; OCI and Docker spell it alike.
#[derive(Deserialize)]
struct Fields {
    config: Option<Blob>,
    #[serde(default, deserialize_with = "few")]
    layers: Vec<Blob>,
    #[serde(default, deserialize_with = "few")]
    manifests: Vec<Child>,
}

/// Reads a list of at most [`MOST`] entries, and no further.
fn few<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Few(PhantomData))
}

struct Few<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Few<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST} entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            if entries.len() >= MOST {
                return Err(A::Error::custom(format_args!("more than {MOST} entries")));
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

impl Document {
    /// `None` for what is neither, or has too many parts.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let parts: Fields = serde_json::from_slice(bytes).ok()?;
        let Some(config) = parts.config else {
            return (!parts.manifests.is_empty()).then_some(Self::Index(parts.manifests));
        };
        let mut blobs = vec![config];
        for layer in parts.layers {
            // The same layer may be there twice; it is fetched once.
            if blobs.iter().all(|blob| blob.digest != layer.digest) {
                blobs.push(layer);
            }
        }
        Some(Self::Image(Manifest { blobs }))
    }
}

impl Manifest {
    /// All of it.
    pub(super) fn total(&self) -> u64 {
        self.blobs.iter().fold(0, |total, blob| total.saturating_add(blob.size))
    }
}

impl Child {
    /// Returns whether it is for machines like this one. A guess where an index has variants of one
    /// architecture: the manifest that is present decides before it.
    pub(super) fn fits(&self) -> bool {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            other => other,
        };
        self.platform
            .as_ref()
            .is_some_and(|platform| platform.os == "linux" && platform.architecture == architecture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_count_once() {
        let text = br#"{"schemaVersion": 2, "config": {"digest": "sha256:c", "size": 7},
            "layers": [{"digest": "sha256:a", "size": 10}, {"digest": "sha256:b", "size": 20},
                       {"digest": "sha256:a", "size": 10}]}"#;
        let Some(Document::Image(manifest)) = Document::parse(text) else { panic!("not an image") };
        assert_eq!(manifest.total(), 37);
        assert_eq!(manifest.blobs.len(), 3);
    }

    #[test]
    fn an_index_has_children() {
        let text = br#"{"manifests": [
            {"digest": "sha256:x", "platform": {"os": "linux", "architecture": "s390x"}},
            {"digest": "sha256:y", "platform": {"os": "linux", "architecture": "amd64"}}, {"digest": "sha256:z"}]}"#;
        let Some(Document::Index(children)) = Document::parse(text) else { panic!("not an index") };
        let fitting: Vec<bool> = children.iter().map(Child::fits).collect();
        assert_eq!(fitting, [cfg!(target_arch = "s390x"), cfg!(target_arch = "x86_64"), false]);
    }

    /// Rows: layers, or platforms, and whether that is read.
    #[test]
    fn an_image_of_very_many_parts_is_not_read() {
        for (count, is_read) in [(MOST, true), (MOST + 1, false), (100_000, false)] {
            let parts: Vec<String> = (0..count).map(|part| format!(r#"{{"digest": "{part}"}}"#)).collect();
            let parts = parts.join(",");
            let image = format!(r#"{{"config": {{"digest": "c"}}, "layers": [{parts}]}}"#);
            assert_eq!(Document::parse(image.as_bytes()).is_some(), is_read, "{count} layers");
            let index = format!(r#"{{"manifests": [{parts}]}}"#);
            assert_eq!(Document::parse(index.as_bytes()).is_some(), is_read, "{count} platforms");
        }
    }

    #[test]
    fn what_is_neither() {
        for text in ["", "{}", "[]", "\"x\"", r#"{"layers": []}"#, r#"{"config": {"size": 1}}"#] {
            assert_eq!(Document::parse(text.as_bytes()), None, "{text}");
        }
        // Sizes that no disk has do not wrap around.
        let text = format!(
            r#"{{"config": {{"digest": "c", "size": {0}}}, "layers": [{{"digest": "l", "size": {0}}}]}}"#,
            u64::MAX
        );
        let Some(Document::Image(manifest)) = Document::parse(text.as_bytes()) else {
            panic!("not an image")
        };
        assert_eq!(manifest.total(), u64::MAX);
    }
}
