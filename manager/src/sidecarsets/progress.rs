//! How far an upgrade is, in numbers and in a sentence.

/// Pods of a set that do not have the newest sidecars, and what they wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// All pods of the set.
    pub(super) matched: usize,
    /// Pods that have the newest sidecars.
    pub(super) updated: usize,
    /// Pods among them that are ready.
    pub(super) updated_ready: usize,
    /// The upgrade rests.
    pub(super) paused: bool,
    /// Only new pods get it.
    pub(super) not_update: bool,
    /// Pods that are being upgraded.
    pub(super) in_flight: usize,
    /// Pods whose upgrade failed.
    pub(super) failed: usize,
    /// Pods whose turn comes when others are available again.
    pub(super) queued: usize,
    /// Pods that the partition, or the selector of the update, holds back.
    pub(super) held: usize,
    /// Pods that differ in more than images.
    pub(super) not_upgradable: usize,
    /// Pods that have no node yet.
    pub(super) unscheduled: usize,
    /// Pods whose node has no agent that carries it out.
    pub(super) no_agent: usize,
    /// Pods whose node has an agent that has been silent for too long.
    pub(super) silent: usize,
    /// Pods that need a hot upgrade, on nodes whose agent does not carry those out.
    pub(super) no_swaps: usize,
}

impl Progress {
    /// Tells whether all pods are up to date; a reason for programs, and a sentence.
    pub(super) fn told(&self) -> (bool, &'static str, String) {
        let Self { matched, updated, updated_ready, .. } = *self;
        if updated == matched && self.in_flight == 0 {
            let ready =
                format!("all {matched} pods have the newest sidecars, {updated_ready} of them are ready");
            return (true, "Updated", ready);
        }
        let parts = [
            (self.in_flight, "are being upgraded"),
            (self.failed, "failed; see status.pods of their nodes' NodePodUpdates"),
            (self.queued, "wait until others are available (maxUnavailable)"),
            (self.held, "keep what they have (partition, selector)"),
            (self.not_upgradable, "differ in more than images, and get it when they are made anew"),
            (self.unscheduled, "have no node yet"),
            (self.no_agent, "are on nodes whose agent cannot do it yet; update it"),
            (self.silent, "are on nodes whose agent has been silent for ten minutes"),
            (self.no_swaps, "wait on nodes whose agent does no hot upgrades (HotUpgrade) yet; update it"),
        ];
        let parts: Vec<_> =
            parts.iter().filter(|(pods, _)| *pods > 0).map(|(pods, what)| format!("{pods} {what}")).collect();
        let rest = if parts.is_empty() { String::new() } else { format!("; {}", parts.join("; ")) };
        (false, self.reason(), format!("{updated} of {matched} pods have the newest sidecars{rest}"))
    }

    fn reason(&self) -> &'static str {
        if self.not_update {
            "NotUpdate"
        } else if self.paused {
            "Paused"
        } else if self.failed > 0 {
            "UpgradeFailed"
        } else if self.in_flight > 0 || self.queued > 0 {
            "InProgress"
        } else if self.silent > 0 {
            "AgentSilent"
        } else if self.no_agent > 0 || self.no_swaps > 0 {
            "AgentTooOld"
        } else if self.not_upgradable > 0 {
            "NotUpgradable"
        } else if self.held > 0 {
            "PartitionReached"
        } else {
            "Waiting"
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn of(matched: usize, updated: usize) -> Progress {
        Progress { matched, updated, ..Progress::default() }
    }

    #[rstest]
    #[case::nothing(of(0, 0), true, "Updated", "all 0 pods")]
    #[case::all(Progress { updated_ready: 2, ..of(3, 3) }, true, "Updated", "2 of them are ready")]
    #[case::on_its_way(Progress { in_flight: 1, queued: 1, ..of(3, 1) }, false, "InProgress", "1 of 3 pods")]
    #[case::paused(Progress { paused: true, held: 2, ..of(3, 1) }, false, "Paused", "2 keep")]
    #[case::not_update(Progress { not_update: true, paused: true, ..of(3, 1) }, false, "NotUpdate", "1 of 3")]
    #[case::failed(Progress { failed: 1, in_flight: 1, ..of(3, 1) }, false, "UpgradeFailed", "1 failed")]
    #[case::hot(Progress { no_swaps: 3, ..of(3, 0) }, false, "AgentTooOld", "HotUpgrade")]
    #[case::agent(Progress { no_agent: 2, held: 1, ..of(3, 0) }, false, "AgentTooOld", "2 are on nodes")]
    #[case::silent(Progress { silent: 1, no_agent: 1, ..of(3, 0) }, false, "AgentSilent", "1 are on nodes whose agent has been silent")]
    #[case::silent_and_others_go_on(Progress { silent: 1, in_flight: 1, ..of(3, 0) }, false, "InProgress", "silent")]
    #[case::other_changes(Progress { not_upgradable: 2, ..of(3, 1) }, false, "NotUpgradable", "made anew")]
    #[case::partition(Progress { held: 2, ..of(3, 1) }, false, "PartitionReached", "2 keep what")]
    #[case::no_node(Progress { unscheduled: 1, ..of(3, 2) }, false, "Waiting", "1 have no node")]
    #[case::updated_by_hand(Progress { in_flight: 1, ..of(3, 3) }, false, "InProgress", "3 of 3")]
    fn a_sentence(#[case] progress: Progress, #[case] done: bool, #[case] reason: &str, #[case] says: &str) {
        let told = progress.told();
        assert_eq!((told.0, told.1), (done, reason));
        assert!(told.2.contains(says), "{}", told.2);
    }
}
