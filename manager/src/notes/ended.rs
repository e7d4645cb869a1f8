//! News of a request or a job that has ended, from its status alone. Pure.
//!
//! An end is told once: by the manager that saw the object before its end and leads when it sees the end. One
//! that was over when this manager first saw it, or began to lead, is old: its Event was another's to write.

use std::fmt::Write as _;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{About, Note};
use crate::store::Key;

/// An object that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) about: About,
    /// The words after the counts, such as `containers of pod web recreated`.
    pub(crate) what: &'a str,
    /// Number of those that are as wanted.
    pub(crate) done: usize,
    /// Number of those that are not, and never will be.
    pub(crate) failed: usize,
    /// All of them.
    pub(crate) of: usize,
    pub(crate) conditions: &'a [Condition],
}

/// Says whether the end of an object that was open before is news for who leads since then. Ends are written
/// in seconds; one without a time is told.
pub(crate) fn is_news(leads: Option<Timestamp>, ended: Option<Timestamp>) -> bool {
    leads.is_some_and(|since| ended.is_none_or(|ended| ended.as_second() >= since.as_second()))
}

impl Ended<'_> {
    /// Reads it from the conditions. OpenKruise writes none, and counts.
    fn outcome(&self) -> Result<(), Option<&Condition>> {
        let holds = |condition_type: &str| {
            let mut conditions = self.conditions.iter();
            conditions.find(|condition| condition.type_ == condition_type && condition.status == "True")
        };
        match holds("Failed") {
            Some(failed) => Err(Some(failed)),
            None if holds("Complete").is_none() && self.failed > 0 => Err(None),
            None => Ok(()),
        }
    }

    /// Its news.
    pub(crate) fn note(&self, key: Key, uid: &str) -> Note {
        let outcome = self.outcome();
        let Self { about, what, done, failed, of, .. } = *self;
        let mut text = match of {
            0 => what.to_owned(),
            _ => format!("{done} of {of} {what}"),
        };
        // A text takes whatever is written to it.
        if failed > 0 {
            let _ = write!(text, ", {failed} failed");
        }
        if let Err(Some(Condition { reason, message, .. })) = &outcome {
            let _ = write!(text, "; {reason}: {message}");
        }
        let warning = outcome.is_err();
        Note { about, key, uid: uid.into(), warning, reason: reason(about, warning), text }
    }
}

const fn reason(about: About, failed: bool) -> &'static str {
    match (about, failed) {
        (About::Recreate, false) => "RecreateCompleted",
        (About::Recreate, true) => "RecreateFailed",
        (About::Update, false) => "UpdateCompleted",
        (About::Update, true) => "UpdateFailed",
        (About::ImagePullJob, false) => "PullCompleted",
        (About::ImagePullJob, true) => "PullFailed",
        // They have no end.
        (About::SidecarSet | About::Budget | About::Spread | About::PodState, _) => "Ended",
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn condition(condition_type: &str, status: &str) -> Condition {
        Condition {
            type_: condition_type.to_owned(),
            status: status.to_owned(),
            reason: "PodGone".to_owned(),
            message: "pod web is gone".to_owned(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
        }
    }

    #[test]
    fn an_end_is_told_with_its_counts() {
        let (complete, failed) = ([condition("Complete", "True")], [condition("Failed", "True")]);
        let not_failed = [condition("Failed", "False")];
        for (about, counts, conditions, warning, reason, text) in [
            (About::Recreate, [2, 0, 2], &complete[..], false, "RecreateCompleted", "2 of 2 done"),
            (
                About::Recreate,
                [1, 1, 3],
                &failed,
                true,
                "RecreateFailed",
                "1 of 3 done, 1 failed; PodGone: pod web is gone",
            ),
            // A failed container that is ignored.
            (About::Update, [1, 1, 2], &complete, false, "UpdateCompleted", "1 of 2 done, 1 failed"),
            (About::Update, [0, 0, 0], &complete, false, "UpdateCompleted", "done"),
            (About::Update, [0, 0, 0], &failed, true, "UpdateFailed", "done; PodGone: pod web is gone"),
            (About::ImagePullJob, [5, 0, 5], &not_failed, false, "PullCompleted", "5 of 5 done"),
            (About::ImagePullJob, [4, 1, 5], &[], true, "PullFailed", "4 of 5 done, 1 failed"),
        ] {
            let [done, failed, of] = counts;
            let ended = Ended { about, what: "done", done, failed, of, conditions };
            let key = Key { namespace: "shop".into(), name: "r".into() };
            let note = ended.note(key, "u");
            assert_eq!((note.warning, note.reason, &*note.text), (warning, reason, text));
            assert_eq!((&*note.key.namespace, &*note.uid), ("shop", "u"));
        }
    }

    #[test]
    fn an_end_before_the_term_is_old() {
        let at = |milliseconds| Timestamp::from_millisecond(milliseconds).unwrap();
        for (leads, ended, news) in [
            (None, Some(at(5000)), false),
            (None, None, false),
            (Some(at(5900)), Some(at(5000)), true),
            (Some(at(5900)), Some(at(4000)), false),
            (Some(at(5900)), Some(at(60_000)), true),
            (Some(at(5900)), None, true),
        ] {
            assert_eq!(is_news(leads, ended), news, "leads since {leads:?}, ended {ended:?}");
        }
    }
}
