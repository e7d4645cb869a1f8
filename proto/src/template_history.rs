//! Parts of earlier templates of a CloneSet that its pods may go back to: hashes in an annotation of the set.
//!
//! Admission notes them within the author's own request. What an earlier template had stands in
//! ControllerRevisions beside, and berth-workloads writes those: on its word alone an agent runs no image.
//! The right to write the annotation is the right to write the template: nobody gains by a false one.

use serde_json::json;
use sha2::{Digest, Sha256};

/// Annotation of a CloneSet: hashes of images, labels and annotations that earlier templates of it had, in
/// lower-case hex, with commas, the latest first.
pub const TEMPLATE_HISTORY: &str = "berth.dev/template-history";

/// The most hashes that are noted, and that count.
pub const MOST_PARTS: usize = 64;

/// Part of a template that a running pod can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Image of a container.
    Image {
        /// Name of the container.
        container: &'a str,
        /// Its image.
        image: &'a str,
    },
    /// Label of its pods.
    Label {
        /// Key of the label.
        key: &'a str,
        /// Its value.
        value: &'a str,
    },
    /// Annotation of its pods.
    Annotation {
        /// Key of the annotation.
        key: &'a str,
        /// Its value.
        value: &'a str,
    },
}

impl Part<'_> {
    /// SHA-256 of the part, which tells it from all others.
    pub fn digest(self) -> String {
        let text = match self {
            Self::Image { container, image } => json!(["image", container, image]),
            Self::Label { key, value } => json!(["label", key, value]),
            Self::Annotation { key, value } => json!(["annotation", key, value]),
        };
        let bytes = Sha256::digest(text.to_string().as_bytes());
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Tells whether the annotation has the part.
    pub fn is_in(self, history: &str) -> bool {
        let digest = self.digest();
        history.split(',').take(MOST_PARTS).any(|noted| noted.trim() == digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs of two versions have to agree on it.
    #[test]
    fn a_part_is_known_by_its_hash() {
        let part = Part::Image { container: "a", image: "a:1" };
        let text = Sha256::digest(br#"["image","a","a:1"]"#);
        let known: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(part.digest(), known);
        let parts = [
            part,
            Part::Image { container: "a", image: "a:2" },
            Part::Image { container: "b", image: "a:1" },
            Part::Label { key: "a", value: "a:1" },
            Part::Annotation { key: "a", value: "a:1" },
            Part::Label { key: "a\",\"b", value: "c" },
            Part::Label { key: "a", value: "b\",\"c" },
        ];
        for (at, one) in parts.iter().enumerate() {
            let noted = format!("{}, {}", "0".repeat(64), one.digest());
            for (other, part) in parts.iter().enumerate() {
                assert_eq!(part.is_in(&noted), at == other, "{part:?} in that of {one:?}");
            }
            assert!(!one.is_in("") && !one.is_in(",,"));
        }
    }

    #[test]
    fn so_many_count() {
        let part = Part::Label { key: "a", value: "b" };
        let behind = |others: usize| part.is_in(&format!("{}{}", "x,".repeat(others), part.digest()));
        assert!(behind(MOST_PARTS - 1) && !behind(MOST_PARTS));
    }
}
