//! Words of the hand-over between two processes of `berth-shim`, which may be of different versions.

use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixListener},
};

use serde::{Deserialize, Serialize};

/// A word. One is only ever added, and a field has a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HandOverWord {
    /// The new one is there and wants the sockets.
    Take {
        /// Its version.
        #[serde(default)]
        version: String,
    },
    /// They come with the word: the kubelet's, and berthd's.
    Taken,
    /// The new one has all that it takes to serve.
    Ready,
}

impl HandOverWord {
    /// The sockets that came with this word.
    ///
    /// # Errors
    /// It is another word, or came with others.
    pub fn sockets(self, descriptors: Vec<OwnedFd>) -> io::Result<[UnixListener; 2]> {
        let other = |words: String| io::Error::new(io::ErrorKind::InvalidData, words);
        if self != Self::Taken {
            return Err(other(format!("the old berth-shim answered with another word: {self:?}")));
        }
        let number = descriptors.len();
        let sockets: Result<[OwnedFd; 2], _> = descriptors.try_into();
        let sockets =
            sockets.map_err(|_| other(format!("the old berth-shim gave {number} sockets, not two")))?;
        Ok(sockets.map(UnixListener::from))
    }
}
