//! Words of another process of `berth-shim`, in pieces; the first byte says how many of these come with a
//! descriptor. Never more is kept than a word may have, and what is read can be told again, as the same.

use std::{fs::File, os::fd::OwnedFd};

use super::pieces;
use crate::{
    HandOverWord,
    passing::{Heard, LONGEST, MOST_DESCRIPTORS, line_of},
};

pub fn handover(data: &[u8]) {
    let (number, rest) = data.split_first().unwrap_or((&0, &[]));
    let (pieces, _) = pieces(rest);
    let mut heard = Heard::default();
    for (at, piece) in pieces.into_iter().enumerate() {
        // A machine without a descriptor for one is no finding.
        let descriptor = File::open("/dev/null").ok().filter(|_| at < usize::from(*number));
        heard.push(piece, descriptor.map(OwnedFd::from).into_iter().collect());
        loop {
            match heard.next::<HandOverWord>() {
                Ok(Some((word, descriptors))) => check(word, descriptors),
                Ok(None) => break,
                // The line is given up.
                Err(_) => return,
            }
        }
        let (bytes, descriptors) = heard.kept();
        assert!(bytes < LONGEST && descriptors <= MOST_DESCRIPTORS, "{bytes} {descriptors}");
    }
}

fn check(word: HandOverWord, descriptors: Vec<OwnedFd>) {
    let number = descriptors.len();
    assert!(number <= MOST_DESCRIPTORS, "{number}");
    let mut again = Heard::default();
    again.push(&line_of(&word).unwrap_or_default(), Vec::new());
    assert!(matches!(again.next::<HandOverWord>(), Ok(Some((told, _))) if told == word), "{word:?}");
    let sockets = word.clone().sockets(descriptors);
    assert_eq!(sockets.is_ok(), word == HandOverWord::Taken && number == 2, "{word:?} {number}");
}
