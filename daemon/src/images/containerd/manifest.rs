//! Manifests, as far as the size of a pull needs them.

use serde::Deserialize;

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
    #[serde(default)]
    layers: Vec<Blob>,
    #[serde(default)]
    manifests: Vec<Child>,
}

impl Document {
    /// `None` for what is neither.
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
