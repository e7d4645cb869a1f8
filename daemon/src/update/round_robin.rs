//! Round robin of the owners of entries: so many are read in one go, and those that could not be read wait
//! for those that were not tried yet.

use std::collections::BTreeMap;

/// The owner that was tried last.
#[derive(Debug, Default)]
pub(super) struct RoundRobin(Option<String>);

impl RoundRobin {
    /// The owners whose turn it is, each once, by their names; of many the next ones after the last.
    pub(super) fn next<T>(&self, owners: impl Iterator<Item = (String, T)>, most: usize) -> Vec<(String, T)> {
        let mut owners: BTreeMap<String, T> = owners.collect();
        let later = match &self.0 {
            Some(last) => owners.split_off(last.as_str()),
            None => BTreeMap::new(),
        };
        // The last one itself comes last.
        let is_last = |name: &String| self.0.as_ref() == Some(name);
        let (last, later): (Vec<_>, Vec<_>) = later.into_iter().partition(|(name, _)| is_last(name));
        later.into_iter().chain(owners).chain(last).take(most).collect()
    }

    /// Notes that this one is tried now, whatever comes of it.
    pub(super) fn tried(&mut self, name: &str) {
        self.0 = Some(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_has_a_turn_however_many_entries_it_has() {
        // The one tried last, the owners of the entries, how many at a time, and whose turn it is.
        let table = [
            ("", "a a a b c", 2, "ab"),
            ("b", "a a a b c", 2, "ca"),
            ("b", "a b c", 9, "cab"),
            ("x", "a b c", 2, "ab"),
            ("b", "b b b", 2, "b"),
            ("b", "", 2, ""),
        ];
        for (last, owners, most, expected) in table {
            let mut turns = RoundRobin::default();
            if !last.is_empty() {
                turns.tried(last);
            }
            let owners = owners.split_whitespace().map(|name| (name.to_owned(), ()));
            let names: String = turns.next(owners, most).into_iter().map(|(name, ())| name).collect();
            assert_eq!(names, expected, "after {last:?}");
        }
        // Those at the head cannot be read for ever, and the others are read all the same.
        let (mut turns, mut tried) = (RoundRobin::default(), Vec::new());
        for _ in 0..3 {
            for (name, ()) in
                turns.next(["a", "b", "c", "d"].map(|name| (name.to_owned(), ())).into_iter(), 2)
            {
                turns.tried(&name);
                tried.push(name);
            }
        }
        assert_eq!(tried.concat(), "abcdab");
    }
}
