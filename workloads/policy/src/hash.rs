//! Hash of a revision, in letters that may stand in names.

/// Letters of a hash: no vowels, so no words, and nothing that looks like another letter.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Offset and prime of FNV-1 with 32 bits.
const OFFSET: u32 = 2_166_136_261;
const PRIME: u32 = 16_777_619;

/// Hash of the bytes of a revision, and how often its name was taken.
pub(crate) fn revision(payload: &[u8], collisions: i32) -> String {
    let number = collisions.to_string();
    let mut hash = OFFSET;
    for byte in payload.iter().chain(number.as_bytes()) {
        hash = hash.wrapping_mul(PRIME) ^ u32::from(*byte);
    }
    safe(&hash.to_string())
}

/// Text of letters that may stand in names, as many as the given one has bytes.
fn safe(text: &str) -> String {
    text.bytes().map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])).collect()
}

/// Length of a suffix.
const SUFFIX: usize = 5;

/// Tells whether a text may be what names of pods have behind that of their set.
pub fn is_suffix(text: &str) -> bool {
    text.len() == SUFFIX && text.bytes().all(|letter| LETTERS.contains(&letter))
}

/// Name suffixes that a seed gives, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Suffixes(u64);

impl Suffixes {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one: five letters.
    pub(crate) fn next(&mut self) -> String {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let mut suffix = String::new();
        for _ in 0..SUFFIX {
            let at = usize::try_from(bits % 27).unwrap_or(0);
            suffix.push(char::from(LETTERS[at]));
            bits /= 27;
        }
        suffix
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Values of FNV-1 as its authors publish them.
    #[test]
    fn fnv_1() {
        let raw = |bytes: &[u8]| {
            bytes.iter().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u32::from(*byte))
        };
        assert_eq!(raw(b""), 0x811c_9dc5);
        assert_eq!(raw(b"a"), 0x050c_5d7e);
        assert_eq!(raw(b"foobar"), 0x31f0_b262);
        assert_ne!(revision(b"a", 0), revision(b"a", 1));
        assert_eq!(safe("0123456789"), "456789bcdf");
    }

    #[test]
    fn suffixes_differ() {
        let mut suffixes = Suffixes::new(7);
        let some: BTreeSet<String> = (0..1000).map(|_| suffixes.next()).collect();
        assert!(some.len() > 990 && some.iter().all(|suffix| is_suffix(suffix)));
        assert!(!is_suffix("bcdf") && !is_suffix("nginx"));
    }
}
