//! Seals: credentials that somebody meant for this node, for one wish and one image (`berth_proto::sealing`).
//!
//! The policy carries them as texts that mean nothing to it. Each is `<uid> <seal>`: the UID of the wish is
//! part of what the seal is authenticated with, and has no blank.

use std::sync::Arc;

use berth_proto::sealing::{Context, NodeKey, RegistryCredential, SealError};
use tracing::warn;

/// One entry of [`berth_policy::Credentials::Sealed`]: `NodeImage.status.desiredImages[].uid`, and one seal
/// of it.
pub(crate) fn sealed_entry(uid: &str, seal: &str) -> Arc<str> {
    format!("{uid} {seal}").into()
}

/// Result of opening the seals of a pull.
pub(super) struct Opened {
    pub(super) credentials: Vec<RegistryCredential>,
    /// About those that could not be opened.
    pub(super) note: Option<String>,
}

/// Opens what can be opened.
pub(super) fn open(entries: &[Arc<str>], key: Option<&NodeKey>, node: &str, image: &str) -> Opened {
    let mut opened = Opened { credentials: Vec::new(), note: None };
    let mut failed: Vec<String> = Vec::new();
    for entry in entries {
        match open_one(entry, key, node, image) {
            Ok(credential) => opened.credentials.push(credential),
            Err(why) => failed.push(why),
        }
    }
    if let Some(why) = failed.first() {
        let (failed, all) = (failed.len(), entries.len());
        warn!(image, failed, all, why, "Sealed credentials not opened");
        opened.note = Some(format!("{failed} of {all} sealed credentials could not be opened: {why}"));
    }
    opened
}

fn open_one(
    entry: &str,
    key: Option<&NodeKey>,
    node: &str,
    image: &str,
) -> Result<RegistryCredential, String> {
    let key = key.ok_or("this node has no key, see the log of its agent")?;
    let (wish, seal) = entry.split_once(' ').ok_or_else(|| SealError::Form.to_string())?;
    key.open(seal, Context { node, wish, image }).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &str = "example.com/app:1";

    fn seal(key: &NodeKey, wish: &str, image: &str) -> Arc<str> {
        let credential = RegistryCredential { username: wish.to_owned(), ..RegistryCredential::default() };
        let context = Context { node: "node-a", wish, image };
        sealed_entry(wish, &key.sealing_key().seal(&credential, context).unwrap())
    }

    #[test]
    fn what_is_ours_is_opened_and_the_rest_is_told() {
        let (key, other) = (NodeKey::generate(), NodeKey::generate());
        let moved = seal(&key, "u-3", IMAGE).replace("u-3", "u-4");
        let entries = [
            seal(&key, "u-1", IMAGE),
            seal(&other, "u-1", IMAGE),
            seal(&key, "u-1", "example.com/other:1"),
            moved.into(),
            "nonsense".into(),
            seal(&key, "u-2", IMAGE),
        ];
        let opened = open(&entries, Some(&key), "node-a", IMAGE);
        let names: Vec<&str> =
            opened.credentials.iter().map(|credential| credential.username.as_str()).collect();
        assert_eq!(names, ["u-1", "u-2"]);
        assert_eq!(
            opened.note.as_deref(),
            Some(
                "4 of 6 sealed credentials could not be opened: sealed to another key, or for another node, wish or image"
            )
        );
        assert_eq!(open(&entries, Some(&key), "node-b", IMAGE).credentials.len(), 0);
    }

    #[test]
    fn without_a_key() {
        let opened = open(&[seal(&NodeKey::generate(), "u-1", IMAGE)], None, "node-a", IMAGE);
        assert_eq!(
            opened.note.as_deref(),
            Some(
                "1 of 1 sealed credentials could not be opened: this node has no key, see the log of its agent"
            )
        );
        assert!(open(&[], None, "node-a", IMAGE).note.is_none());
    }
}
