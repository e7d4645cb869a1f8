//! Contents that the author of a set has approved, beside the spec as it is: earlier revisions, by their
//! hashes in an annotation of the set.
//!
//! The contents of revisions stand in the status, which the manager writes, and an agent runs no image on
//! the manager's word. So admission notes the hash of each spec in the object itself, within its author's
//! request; what is in the status counts only as far as it has such a hash.

use sha2::{Digest, Sha256};

use crate::{golang::merged_text, json::Object};

/// Annotation of a set: hashes of the contents of its revisions, in lower-case hex, with commas.
pub const REVISIONS: &str = "berth.dev/revisions";

/// The most hashes that count.
const MOST: usize = 512;

/// SHA-256 of the contents of a revision (those of [`crate::fields_of`]), as JSON with sorted keys.
pub fn digest(fields: &Object) -> String {
    let text = merged_text(&fields.clone().into());
    let bytes = Sha256::digest(text.as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the annotation has the hash of these contents.
pub fn approves(annotation: &str, fields: &Object) -> bool {
    let digest = digest(fields);
    annotation.split(',').take(MOST).any(|hash| hash.trim() == digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Object {
        serde_json::from_str(json).unwrap_or_default()
    }

    #[test]
    fn contents_are_known_by_their_hash() {
        let one = fields(r#"{"containers":[{"name":"a","image":"a:1"}]}"#);
        let same = fields(r#"{"containers":[{"image":"a:1","name":"a"}]}"#);
        let other = fields(r#"{"containers":[{"name":"a","image":"a:2"}]}"#);
        assert_eq!((digest(&one).len(), digest(&one)), (64, digest(&same)));
        let annotation = format!("{}, {}", "0".repeat(64), digest(&one));
        assert!(approves(&annotation, &same));
        assert!(!approves(&annotation, &other) && !approves("", &one) && !approves(",,", &one));
    }
}
