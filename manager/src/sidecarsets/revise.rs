//! Revisions of a set as its status has them: the one it has now is filed, and the oldest go.

use berth_proto::crd::{SidecarSetRevision, SidecarSetStatus};
use berth_sidecarset::{Edit, Revisions};
use jiff::Timestamp;

use super::{set::Known, spec::Rules};

/// Revisions of a set, with the one that it has now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filed {
    pub(super) revisions: Vec<SidecarSetRevision>,
    pub(super) history: Option<String>,
    pub(super) latest: Option<String>,
    pub(super) collisions: Option<i32>,
    /// Loss of revisions, for people.
    pub(super) flaw: Option<String>,
}

impl Filed {
    /// Files a set in what its status shows. Times are written in seconds, so that what comes back is what
    /// was sent.
    pub(super) fn new(name: &str, known: &Known, rules: &Rules, now: Timestamp) -> Self {
        let shown = known.shown.clone().unwrap_or_default();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let edit = Edit {
            set: name,
            fields: &rules.fields,
            hashes: &rules.hashes,
            custom_version: known.custom_version.as_deref(),
        };
        let (mut revisions, mut flaw) = match Revisions::read(&shown) {
            Ok(revisions) => (revisions, None),
            Err(error) => (Revisions::default(), Some(format!("the revisions before were lost: {error}"))),
        };
        revisions.register(&edit, now);
        let in_use = known.in_use();
        revisions.truncate(rules.limit, &in_use);
        let alone = revisions.clone();
        match revisions.write(&in_use) {
            Ok(recorded) => {
                if !recorded.dropped.is_empty() {
                    let dropped = recorded.dropped.join(", ");
                    flaw = Some(format!("there was no room for {dropped}; lower revisionHistoryLimit"));
                }
                Self {
                    revisions: recorded.revisions,
                    history: Some(recorded.history),
                    latest: recorded.latest,
                    collisions: recorded.collisions,
                    flaw,
                }
            }
            // Its name stays, so pods can be upgraded to it; new pods cannot be given it later.
            Err(error) => Self {
                revisions: Vec::new(),
                history: None,
                latest: alone.latest().map(str::to_owned),
                collisions: counted(shown.collision_count),
                flaw: Some(format!("the newest revision cannot be kept: {error}")),
            },
        }
    }

    /// Tells whether a status has all of it.
    pub(super) fn is_in(&self, shown: &SidecarSetStatus) -> bool {
        self.revisions == shown.revisions
            && self.history == shown.history
            && self.latest == shown.latest_revision
            && self.collisions == counted(shown.collision_count)
    }

    /// Count of collisions as the status is to have it. OpenKruise writes a 0, which stays.
    pub(super) fn collision_count(&self, shown: &SidecarSetStatus) -> Option<i32> {
        self.collisions.or(shown.collision_count)
    }
}

/// Count of collisions, where there were any: none may be written as 0 or left out.
fn counted(collisions: Option<i32>) -> Option<i32> {
    collisions.filter(|count| *count > 0)
}
