//! The name of a request that comes without one.

use std::io::{self, Read};

/// Letters and digits that make no words; those of the API server's generated names.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Longest stem of a file, so that with all that is appended the name is still a valid one.
const LONGEST_STEM: usize = 200;

/// The name that a request got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Submitted {
    /// Namespace of its pod.
    pub namespace: String,
    /// The pod's, and something random.
    pub name: String,
}

/// The name of a new request: its pod's, and something random.
pub(crate) fn new_name(pod: &str) -> io::Result<String> {
    let stem: String = pod.chars().take(LONGEST_STEM).collect();
    Ok(format!("{stem}-{}", random()?))
}

/// Five letters, as `generateName` has them.
fn random() -> io::Result<String> {
    let mut bytes = [0_u8; 5];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])).iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_names_are_names() {
        let [one, two] = [random().unwrap(), random().unwrap()];
        assert!(one.len() == 5 && one.bytes().all(|byte| LETTERS.contains(&byte)), "{one}");
        assert_ne!(one, two, "27^5 to 1");
    }
}
