//! Durations of the command line, for the fuzz targets of `fuzz/`.

use super::duration;

/// A target.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: [(&str, Target); 1] = [("durations", durations)];

/// A duration that is read can be written for people, in both ways.
pub fn durations(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(read) = duration::parse(text) {
        assert!(!duration::short(read).is_empty() && !duration::ago(read).is_empty());
    }
}

#[cfg(test)]
#[path = "../../../fuzz/src/near.rs"]
mod near;

#[cfg(test)]
mod tests {
    use super::{TARGETS, near::try_seeds};

    #[test]
    fn seeds_and_what_is_near_them() {
        for (name, target) in TARGETS {
            try_seeds(name, target, 60);
        }
    }
}
