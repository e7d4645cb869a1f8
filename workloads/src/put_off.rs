//! Things that could not be written, and may keep others from it: they come last in the plans that follow.

use std::collections::BTreeSet;

/// Names that are remembered; past them all are forgotten.
const MOST: usize = 1024;

/// Names or UIDs of what is put off.
#[derive(Clone, Debug, Default)]
pub(crate) struct PutOff(BTreeSet<String>);

/// Names or UIDs of what could not be written of one part of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) names: Vec<String>,
    /// All of the part that were off before.
    pub(crate) known: Vec<String>,
}

impl PutOff {
    /// Takes in what a plan has put off.
    pub(crate) fn add(&mut self, names: Vec<String>) {
        if self.has_all(&names) {
            self.0.clear();
        }
        self.extend(names);
    }

    /// The same of a plan with parts. What another part has learned stays.
    pub(crate) fn add_late(&mut self, Late { names, known }: Late) {
        if self.has_all(&names) {
            known.iter().for_each(|name| drop(self.0.take(name)));
        }
        self.extend(names);
    }

    /// Tells whether they were off already. They have kept others from their turn once more, so most are off,
    /// as after an hour in which nothing could be written: from now on these alone are last.
    fn has_all(&self, names: &[String]) -> bool {
        !names.is_empty() && names.iter().all(|name| self.0.contains(name))
    }

    fn extend(&mut self, names: Vec<String>) {
        if self.0.len().saturating_add(names.len()) > MOST {
            self.0.clear();
        }
        self.0.extend(names.into_iter().take(MOST));
    }

    /// Forgets all of it.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// All of it.
    pub(crate) const fn names(&self) -> &BTreeSet<String> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
        numbers.into_iter().map(|number| number.to_string()).collect()
    }

    #[test]
    fn few_are_remembered() {
        let mut put_off = PutOff::default();
        for number in 0..10_000 {
            put_off.add(vec![number.to_string(), "a".to_owned()]);
            assert!(put_off.names().contains("a") && put_off.names().len() <= MOST);
        }
        put_off.add(names(0..10_000));
        assert_eq!(put_off.names().len(), MOST);
    }

    /// After an outage all of a set is off, and then three of it fail for good.
    #[test]
    fn what_fails_for_good_is_last_again_when_all_was_off() {
        let mut put_off = PutOff::default();
        for outage in [0..3, 3..6, 6..10] {
            put_off.add(names(outage));
        }
        assert_eq!(put_off.names().len(), 10);
        put_off.add(Vec::new());
        assert_eq!(put_off.names().len(), 10);
        put_off.add(names(0..3));
        assert_eq!(put_off.names().iter().cloned().collect::<Vec<_>>(), names(0..3));
    }

    /// Pods of one part fail for good, and in another part it is not known yet which ones do.
    #[test]
    fn what_another_part_has_learned_stays() {
        let mut put_off = PutOff::default();
        let late = |names, known| Late { names, known };
        put_off.add_late(late(names(0..3), Vec::new()));
        put_off.add_late(late(names(10..14), Vec::new()));
        put_off.add_late(late(names(0..3), names(0..3)));
        assert_eq!(put_off.names().len(), 7);
        put_off.add_late(late(names(10..12), names(10..14)));
        let left = names((0..3).chain(10..12)).into_iter().collect();
        assert_eq!(*put_off.names(), left, "these alone of their part");
    }
}
