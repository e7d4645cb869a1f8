//! Finalizer of PodProbeMarkers, decided: a marker that is deleted stays until no node has its probes any
//! more, and no longer than half a minute.
//!
//! Berth itself ends the probes of a marker whose deletion has begun. The finalizer is for OpenKruise's
//! clients, which look for it, and take a marker that is gone for one whose probes are gone.

use std::time::Duration;

/// Finalizer of a PodProbeMarker: one that is deleted stays until no node has its probes.
pub const FINALIZER: &str = "kruise.io/node-pod-probe-cleanup";
/// Longest time that a marker waits: a node whose agent is away must not keep a namespace from going.
const LONGEST: Duration = Duration::from_secs(30);

/// Marker, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Its finalizers.
    pub finalizers: &'a [String],
    /// Time since its deletion was seen; `None`: it is not being deleted.
    pub deleted_for: Option<Duration>,
    /// A node has an entry of it.
    pub has_entries: bool,
    /// Markers are to have the finalizer. One that has it from before loses it with its deletion.
    pub on: bool,
}

/// Next step with a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is as it should be.
    Nothing,
    /// Its finalizers are to be these.
    Write(Vec<String>),
    /// It waits for nodes, so long at most.
    Wait(Duration),
}

/// Decides on the finalizers of a marker.
pub fn next(given: &Given<'_>) -> Next {
    let is_there = given.finalizers.iter().any(|one| one == FINALIZER);
    match (given.deleted_for, is_there) {
        (None, false) if given.on => {
            Next::Write(given.finalizers.iter().cloned().chain([FINALIZER.to_owned()]).collect())
        }
        (Some(since), true) => {
            let left = LONGEST.saturating_sub(since);
            if given.on && given.has_entries && !left.is_zero() {
                return Next::Wait(left);
            }
            Next::Write(given.finalizers.iter().filter(|one| *one != FINALIZER).cloned().collect())
        }
        // Who adds one to a marker that goes is refused.
        (None, _) | (Some(_), false) => Next::Nothing,
    }
}

/// Name of the marker that asks for a probe, by the name of its entry: `marker#probe`.
pub fn marker_of(entry: &str) -> Option<&str> {
    entry.split_once('#').map(|(marker, _)| marker)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const OTHER: &str = "example.com/keep";
    const ENTRIES: bool = true;

    /// Rows: finalizers, seconds since the deletion was seen, whether a node has entries, and the next step.
    #[rstest]
    #[case::new(&[], None, !ENTRIES, Next::Write(vec![FINALIZER.to_owned()]))]
    #[case::new_and_probed(&[], None, ENTRIES, Next::Write(vec![FINALIZER.to_owned()]))]
    #[case::has_it(&[FINALIZER], None, ENTRIES, Next::Nothing)]
    #[case::has_another(&[OTHER], None, !ENTRIES, Next::Write(vec![OTHER.to_owned(), FINALIZER.to_owned()]))]
    #[case::goes_and_is_probed(&[FINALIZER], Some(0), ENTRIES, Next::Wait(Duration::from_secs(30)))]
    #[case::still_is(&[FINALIZER], Some(29), ENTRIES, Next::Wait(Duration::from_secs(1)))]
    #[case::for_too_long(&[FINALIZER], Some(30), ENTRIES, Next::Write(vec![]))]
    #[case::for_days(&[OTHER, FINALIZER], Some(99_999), ENTRIES, Next::Write(vec![OTHER.to_owned()]))]
    #[case::goes(&[FINALIZER], Some(0), !ENTRIES, Next::Write(vec![]))]
    #[case::keeps_another(&[FINALIZER, OTHER], Some(1), !ENTRIES, Next::Write(vec![OTHER.to_owned()]))]
    #[case::had_none(&[], Some(0), !ENTRIES, Next::Nothing)]
    #[case::had_only_another(&[OTHER], Some(0), ENTRIES, Next::Nothing)]
    fn what_is_written(
        #[case] finalizers: &[&str],
        #[case] seconds: Option<u64>,
        #[case] has_entries: bool,
        #[case] expected: Next,
    ) {
        let finalizers: Vec<String> = finalizers.iter().map(|one| (*one).to_owned()).collect();
        let deleted_for = seconds.map(Duration::from_secs);
        let given = Given { finalizers: &finalizers, deleted_for, has_entries, on: true };
        assert_eq!(next(&given), expected);
        // Off: nothing is added, and nothing waits.
        let off = match expected {
            Next::Write(_) if deleted_for.is_none() => Next::Nothing,
            Next::Wait(_) => Next::Write(vec![]),
            other => other,
        };
        assert_eq!(next(&Given { on: false, ..given }), off);
    }

    #[test]
    fn an_entry_names_its_marker() {
        let of = ["games#idle", "games", "a#b#c", "#idle"].map(marker_of);
        assert_eq!(of, [Some("games"), None, Some("a"), Some("")]);
    }
}
