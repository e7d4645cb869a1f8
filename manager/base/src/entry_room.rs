//! Room that the entries of one writer have in the object of a node. Pure.
//!
//! The API server takes an object of so many bytes and no more, an agent reads one that takes so much memory
//! and no more, and it repeats in it what each pod had before. A write that is too large changes nothing,
//! ever: so what does not fit waits until others are done. The manager's SidecarSets have this room, and the
//! workloads have as much.

use std::{borrow::Borrow, collections::BTreeMap};

use berth_proto::{
    crd::{DesiredPod, UpdatePhase},
    size,
};
use serde_json::Value;

/// Weight of the entries of one writer: bytes as JSON, or more (`size::weight`). The two of them have as much
/// each, the agent's report as much as one, and all of it is below what etcd takes and what an agent reads.
pub const MOST_BYTES: usize = 256 << 10;

/// Entries by pod and owner.
type Entries<K, E> = BTreeMap<K, E>;

/// Tells whether an agent that says so of an entry is at the work of it.
pub fn is_at_work(phase: UpdatePhase) -> bool {
    !matches!(phase, UpdatePhase::Pending | UpdatePhase::Succeeded | UpdatePhase::Failed)
}

/// Entries out of those that are wanted that have room. Those that are shown keep theirs, and one that an
/// agent is at the work of stays as it is until the next one fits; a single one has room, however large.
/// `stands` gives an entry as it is written where that is more than what is known of it: a newer program has
/// written it, and here is its identity alone.
pub fn fitting<'v, K: Ord + Clone, E: Borrow<DesiredPod> + Clone>(
    wanted: Entries<K, E>,
    shown: &Entries<K, E>,
    stands: impl Fn(&K, &DesiredPod) -> Option<&'v Value>,
    is_at_work: impl Fn(&K) -> bool,
) -> Entries<K, E> {
    let bytes = |id: &K, pod: &E| bytes(pod.borrow(), stands(id, pod.borrow()));
    let sizes: Vec<usize> = wanted.iter().map(|(id, pod)| bytes(id, pod)).collect();
    if sizes.iter().copied().fold(0, usize::saturating_add) <= MOST_BYTES {
        return wanted;
    }
    let stays = |id: &K| shown.get(id).filter(|_| is_at_work(id));
    let mut used = 0_usize;
    for ((id, pod), size) in wanted.iter().zip(&sizes) {
        let taken = match shown.get(id) {
            Some(before) if before.borrow() == pod.borrow() => *size,
            _ => stays(id).map_or(0, |before| bytes(id, before)),
        };
        used = used.saturating_add(taken);
    }
    let first = wanted.first_key_value().map(|(id, pod)| (id.clone(), pod.clone()));
    let mut kept = Entries::new();
    for ((id, pod), size) in wanted.into_iter().zip(sizes) {
        if shown.get(&id).is_some_and(|before| before.borrow() == pod.borrow()) {
            kept.insert(id, pod);
            continue;
        }
        let before = stays(&id);
        let taken = before.map_or(0, |before| bytes(&id, before));
        let with_it = used.saturating_sub(taken).saturating_add(size);
        if with_it <= MOST_BYTES {
            used = with_it;
            kept.insert(id, pod);
        } else if let Some(before) = before {
            kept.insert(id, before.clone());
        }
    }
    if kept.is_empty() {
        kept.extend(first);
    }
    kept
}

/// Weight of an entry as it is written, and of the comma after it.
fn bytes(pod: &DesiredPod, stands: Option<&Value>) -> usize {
    stands.map_or_else(|| size::weight(pod), size::weight).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;

    use super::*;

    const KIB: usize = 1 << 10;

    /// Entries by UID, revision and KiB.
    fn entries(of: &[(&str, &str, usize)]) -> Entries<String, Arc<DesiredPod>> {
        let entry = |(uid, revision, kib): &(&str, &str, usize)| {
            let note = ("note".to_owned(), "x".repeat(kib * KIB));
            let pod = DesiredPod {
                uid: (*uid).to_owned(),
                revision: (*revision).to_owned(),
                annotations: BTreeMap::from([note]),
                ..DesiredPod::default()
            };
            (pod.uid.clone(), Arc::new(pod))
        };
        of.iter().map(entry).collect()
    }

    #[rstest]
    #[case::all_fit(&[("a", "2", 100), ("b", "2", 100)], &[], &[], &["a2", "b2"])]
    #[case::the_rest_waits(&[("a", "2", 100), ("b", "2", 100), ("c", "2", 100)], &[], &[], &["a2", "b2"])]
    #[case::a_small_one_passes(&[("a", "2", 200), ("b", "2", 100), ("c", "2", 50)], &[], &[], &["a2", "c2"])]
    #[case::one_alone(&[("a", "2", 900), ("b", "2", 900)], &[], &[], &["a2"])]
    #[case::what_is_shown_stays(&[("a", "2", 100), ("b", "2", 100), ("c", "2", 100)],
        &[("b", "2", 100), ("c", "2", 100)], &[], &["b2", "c2"])]
    #[case::begun_ones_end_first(&[("a", "2", 200), ("b", "2", 200)],
        &[("a", "1", 100), ("b", "1", 100)], &["a", "b"], &["a1", "b1"])]
    #[case::others_are_taken_back(&[("a", "2", 200), ("b", "2", 200)],
        &[("a", "1", 100), ("b", "1", 100)], &[], &["a2"])]
    #[case::in_the_place_of_its_own(&[("a", "2", 130), ("b", "2", 110), ("c", "2", 100)],
        &[("a", "1", 120), ("b", "1", 120)], &["a", "b"], &["a2", "b2"])]
    fn room(
        #[case] wanted: &[(&str, &str, usize)],
        #[case] shown: &[(&str, &str, usize)],
        #[case] at_work: &[&str],
        #[case] expect: &[&str],
    ) {
        let kept = fitting(entries(wanted), &entries(shown), |_, _| None, |uid| at_work.contains(&&**uid));
        let kept: Vec<_> = kept.values().map(|pod| format!("{}{}", pod.uid, pod.revision)).collect();
        assert_eq!(kept, expect);
    }

    /// Entry of which little is known, and much is written.
    #[test]
    fn one_of_a_newer_program_takes_what_it_takes_as_it_stands() {
        let (wanted, shown) = (entries(&[("a", "2", 0), ("b", "2", 100)]), entries(&[("a", "2", 0)]));
        for (kib, expect) in [(100, &["a", "b"][..]), (200, &["a"][..])] {
            let newer = Value::from("x".repeat(kib * KIB));
            let stands = |uid: &String, _: &DesiredPod| (uid == "a").then_some(&newer);
            let kept: Vec<_> = fitting(wanted.clone(), &shown, stands, |_| false).into_keys().collect();
            assert_eq!(kept, expect, "{kib} KiB");
        }
    }
}
