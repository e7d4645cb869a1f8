//! Labels, kept once for each distinct set: the pods of one workload share theirs.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use super::Texts;

/// A set of labels, sorted by key.
pub(crate) type Labels = Arc<[(Arc<str>, Arc<str>)]>;

/// Below it a sweep frees nothing worth its time.
const SWEEP_FROM: usize = 1024;

/// All sets that are in use.
#[derive(Debug, Default)]
pub(crate) struct LabelSets {
    known: HashSet<Labels>,
    /// Looked through for sets nobody has any more when there are so many.
    sweep_at: usize,
}

impl LabelSets {
    pub(crate) fn one(&mut self, labels: &BTreeMap<String, String>, texts: &mut Texts) -> Labels {
        let labels: Vec<_> = labels.iter().map(|(key, value)| (texts.one(key), texts.one(value))).collect();
        if let Some(known) = self.known.get(labels.as_slice()) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at.max(SWEEP_FROM) {
            self.known.retain(|labels| Arc::strong_count(labels) > 1);
            self.sweep_at = self.known.len() * 2;
        }
        let labels: Labels = labels.into();
        self.known.insert(labels.clone());
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 30,000 pods of 300 workloads, 8 labels each: 300 sets, and the texts of them once.
    #[test]
    fn pods_of_one_workload_share_one_set() {
        let (mut sets, mut texts) = (LabelSets::default(), Texts::default());
        let labels = |workload: usize| -> BTreeMap<String, String> {
            (0..8).map(|label| (format!("label-{label}"), format!("{workload}"))).collect()
        };
        let kept: Vec<_> = (0..30_000).map(|pod| sets.one(&labels(pod % 300), &mut texts)).collect();
        assert_eq!(sets.known.len(), 300);
        assert!(Arc::ptr_eq(&kept[0], &kept[300]));
        drop(kept);
        for workload in 0..SWEEP_FROM * 3 {
            sets.one(&labels(workload), &mut texts);
        }
        assert!(sets.known.len() <= SWEEP_FROM, "what nobody has is forgotten");
    }
}
