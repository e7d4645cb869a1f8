//! Words of a hand-over, as they go between the two processes.

use serde::{Deserialize, Serialize};

use super::sockets::Name;

/// Messages between the two processes. Both may be of different versions: a word is only ever added, and a
/// field has a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Word {
    /// The new one is there and wants everything.
    #[serde(rename_all = "camelCase")]
    Take {
        /// Its version.
        #[serde(default)]
        version: String,
    },
    /// The old one has given it: these sockets come with the word, in this order. The store is closed.
    #[serde(rename_all = "camelCase")]
    Taken {
        /// Names of the descriptors.
        sockets: Vec<Name>,
    },
    /// The old one gives nothing.
    #[serde(rename_all = "camelCase")]
    Refused {
        /// In words.
        why: String,
    },
    /// The new one accepts.
    Ready,
}
