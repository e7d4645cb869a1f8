//! Events on a pod about its hot upgrades, by OpenKruise's reasons: that the twin which served before was
//! made empty, or that it was not.
//!
//! Each is told once: when the patch is written, or when its refusal is meant. What became of a write without
//! an answer is seen in the pod and not told.

use crate::{
    in_place_update::{PodPatch, Reset},
    model::PodRef,
    step::{About, Notice},
};

const SUCCEEDED: &str = "ResetContainerSucceed";
const FAILED: &str = "ResetContainerFailed";

/// A patch under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patched {
    /// Its revision.
    pub(crate) revision: String,
    pod: PodRef,
    resets: Vec<Reset>,
}

impl Patched {
    pub(super) fn of(pod: &PodRef, patch: &PodPatch) -> Self {
        let (revision, resets) = (patch.record.revision.clone(), patch.resets.clone());
        Self { revision, pod: pod.clone(), resets }
    }

    /// Notices of a patch that was written.
    pub(super) fn written(&self) -> Vec<(PodRef, Notice)> {
        self.notices(|Reset { twin, serving, gave_up }| match gave_up {
            false => (SUCCEEDED, format!("container {twin} gets the empty image: {serving} has taken over")),
            true => {
                (FAILED, format!("container {twin} is emptied: it has not taken over, {serving} serves on"))
            }
        })
    }

    /// Notices of a patch that the API server does not take.
    pub(super) fn refused(&self, why: &str) -> Vec<(PodRef, Notice)> {
        self.notices(|reset| {
            (FAILED, format!("container {} does not get the empty image: {why}", reset.twin))
        })
    }

    fn notices(&self, say: impl Fn(&Reset) -> (&'static str, String)) -> Vec<(PodRef, Notice)> {
        let notice = |reset: &Reset| {
            let (reason, note) = say(reset);
            (self.pod.clone(), Notice { about: About::Pod, reason, warning: reason == FAILED, note })
        };
        self.resets.iter().map(notice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_reset() {
        let pod = PodRef { uid: "u".into(), namespace: "shop".to_owned(), name: "web".to_owned() };
        let reset = |twin: &str, serving: &str, gave_up| Reset {
            twin: twin.into(),
            serving: serving.into(),
            gave_up,
        };
        let of = |resets| Patched { revision: "r".to_owned(), pod: pod.clone(), resets };
        let said = |notices: Vec<(PodRef, Notice)>| -> Vec<(&'static str, bool, String)> {
            assert!(notices.iter().all(|(of, notice)| *of == pod && notice.about == About::Pod));
            notices.into_iter().map(|(_, notice)| (notice.reason, notice.warning, notice.note)).collect()
        };
        let both = of(vec![reset("mesh-1", "mesh-2", false), reset("log-2", "log-1", true)]);
        let empty = "container mesh-1 gets the empty image: mesh-2 has taken over".to_owned();
        let kept = "container log-2 is emptied: it has not taken over, log-1 serves on".to_owned();
        assert_eq!(said(both.written()), [(SUCCEEDED, false, empty), (FAILED, true, kept)]);
        let not = |twin: &str| (FAILED, true, format!("container {twin} does not get the empty image: no"));
        assert_eq!(said(both.refused("no")), [not("mesh-1"), not("log-2")]);
        assert!(of(Vec::new()).written().is_empty());
    }
}
