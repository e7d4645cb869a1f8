//! Changes between revisions that were looked at in a pass. Thousands of pods may have the same one before
//! them, and templates may be large: a pass is to end before others have waited for long.

use std::{cell::RefCell, collections::BTreeMap};

use super::{Change, change};
use crate::revision::Revision;

/// Changes by the names of both revisions.
#[derive(Debug, Default)]
pub(crate) struct Changes(RefCell<BTreeMap<(String, String), Option<Change>>>);

impl Changes {
    /// Finds the change from one revision to another; `None`: a running pod cannot follow it.
    pub(crate) fn of(&self, from: &Revision, to: &Revision) -> Option<Change> {
        let names = (from.name.clone(), to.name.clone());
        let mut known = self.0.borrow_mut();
        known.entry(names).or_insert_with(|| change(&from.template, &to.template)).clone()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    fn revision(name: &str, spec: Value) -> Revision {
        Revision {
            namespace: String::new(),
            name: name.to_owned(),
            uid: String::new(),
            version: String::new(),
            number: 1,
            created: Timestamp::UNIX_EPOCH,
            owner: String::new(),
            mark: None,
            template: json!({ "spec": spec }).as_object().cloned().unwrap(),
        }
    }

    /// Templates of as many small maps as an object may have: to compare them takes some milliseconds.
    #[test]
    fn two_revisions_are_compared_once_for_all_pods() {
        let spec = |image: &str, last: i32| {
            let mut containers = vec![json!({ "name": "main", "image": image })];
            containers.extend((0..5_000).map(|at| json!({ "name": at.to_string(), "image": "x" })));
            json!({ "containers": containers, "last": last })
        };
        let one = revision("one", spec("a:1", 1));
        let (two, other) = (revision("two", spec("a:2", 1)), revision("other", spec("a:2", 2)));
        let changes = Changes::default();
        let first = changes.of(&one, &two).unwrap();
        assert_eq!(first.images, BTreeMap::from([("main".to_owned(), "a:2".to_owned())]));
        assert_eq!(changes.of(&one, &other), None);
        assert_eq!(changes.of(&two, &one).unwrap().images["main"], "a:1");
        // The templates are not looked at again, whatever they say.
        let (one, two) = (revision("one", json!({})), revision("two", json!({ "x": 1 })));
        assert_eq!(changes.of(&one, &two), Some(first));
        assert_eq!(changes.0.borrow().len(), 3);
    }
}
