//! Memory of the nodes that have ended, which a job keeps in its own status: `endedNodes`.
//!
//! It must be exact (a node asked twice, or never, is a broken promise), stay small with 5,000 nodes, and be
//! readable by a person in need. Counts and a cursor are small and not exact: nodes end out of order, come
//! and go, and match again. A bitmap or a filter by hash is neither readable nor, the latter, exact. So it is
//! the names themselves, sorted, one a line, a `!` before one that gave up, compressed with gzip and put into
//! base64:
//!
//! ```text
//!   kubectl get imagepulljob NAME -o jsonpath='{.status.endedNodes}' | base64 -d | gunzip
//! ```
//!
//! Sorted names share their beginnings, so names with a pattern cost some 3 bytes each and those made of
//! addresses 4; six random letters are entropy that nothing compresses, and cost 7 (tests below). 5,000 nodes
//! are 15 to 36 KB in an object that may have 1.5 MB, written every other second while the job runs.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use super::rollout::End;

/// Far more than 100,000 names of 63 letters: what unfolds to more was not written by a manager.
const MOST_BYTES: u64 = 16 << 20;

/// Writes them as `endedNodes` has them; `None` where nothing has ended.
pub(super) fn write<'a>(ended: impl Iterator<Item = (&'a Arc<str>, End)>) -> Option<String> {
    let mut text = String::new();
    for (name, end) in ended {
        if end != End::Succeeded {
            text.push('!');
        }
        text.push_str(name);
        text.push('\n');
    }
    if text.is_empty() {
        return None;
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // Into memory: neither can fail, and without it the job would only be less well remembered.
    gzip.write_all(text.as_bytes()).ok()?;
    gzip.finish().ok().map(|bytes| STANDARD.encode(bytes))
}

/// Reads the ends that were written. Empty where they cannot be read: then NodeImages alone say who has
/// ended.
pub(super) fn read(text: &str) -> BTreeMap<String, End> {
    let mut names = String::new();
    let Ok(bytes) = STANDARD.decode(text) else { return BTreeMap::new() };
    if GzDecoder::new(&*bytes).take(MOST_BYTES).read_to_string(&mut names).is_err() {
        return BTreeMap::new();
    }
    let lines = names.lines().filter(|line| !line.is_empty());
    let name = |line: &str| match line.strip_prefix('!') {
        Some(name) => (name.to_owned(), End::Failed),
        None => (line.to_owned(), End::Succeeded),
    };
    lines.map(name).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn pattern(number: u64) -> String {
        format!("node-{number:05}.example.com")
    }

    fn address(number: u64) -> String {
        // Spread over a /16 as subnets fill up: not one after the other.
        let spread = number * 13 % 65_536;
        format!("ip-10-21-{}-{}.eu-central-1.compute.internal", spread >> 8, spread & 255)
    }

    fn random(number: u64) -> String {
        let mut state = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut letter = || {
            state ^= state >> 29;
            state = state.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            char::from(b"bcdfghjklmnpqrstvwxz2456789"[(state >> 40) as usize % 27])
        };
        let suffix: String = (0..6).map(|_| letter()).collect();
        format!("pool-1-7c9f8d5b6-{suffix}")
    }

    /// Bytes a node at the most.
    #[rstest]
    #[case::pattern(pattern, 4)]
    #[case::address(address, 6)]
    #[case::random(random, 8)]
    fn five_thousand_nodes_stay_small(#[case] name: fn(u64) -> String, #[case] each: usize) {
        let ended: BTreeMap<Arc<str>, End> = (0..5000)
            .map(|number| (name(number).into(), if number % 97 == 0 { End::Failed } else { End::Succeeded }))
            .collect();
        assert_eq!(ended.len(), 5000, "the names are different ones");
        let text = write(ended.iter().map(|(name, end)| (name, *end))).unwrap();
        println!("{} bytes, {:.2} a node", text.len(), text.len() as f64 / 5000.0);
        assert!(text.len() <= 5000 * each, "{} bytes", text.len());
        let read: BTreeMap<Arc<str>, End> =
            read(&text).into_iter().map(|(name, end)| (name.into(), end)).collect();
        assert_eq!(read, ended);
    }

    #[test]
    fn garbage_is_nothing() {
        for garbage in ["", "AAAA", "not base64!", "H4sIAAAA"] {
            assert!(read(garbage).is_empty(), "{garbage}");
        }
        assert_eq!(write(std::iter::empty()), None);
    }
}
