//! Events of workloads, written one after the other, by turns of their namespaces, and no faster than people
//! read. Of an object and reason a few are written at once and the others seldom: each is a write, and nobody
//! reads of a thousand pods one by one. One that cannot be written is lost; the set's status says what lasts.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_base::events::{News, Waiting};
use berth_workloads_policy::action::Note;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::mpsc;
use tracing::debug;

use crate::{object::Object, timing::Pace};

/// Author of the Events.
const AUTHOR: &str = "berth-workloads";
/// Pause after each.
const PAUSE: Duration = Duration::from_millis(50);
/// Events that wait; one more is lost.
const MOST_WAITING: usize = 512;
/// Pace of the Events of an object and reason: 25 after a rest, as Kubernetes' own controllers have it.
const OF_A_KIND: Pace = Pace { every: Duration::from_secs(20), ahead: Duration::from_secs(480) };
/// Objects and reasons that are remembered before those that rest are forgotten.
const MOST_REMEMBERED: usize = 1024;

/// An object, and the news to tell of it.
pub(crate) type Told = (ObjectReference, Note);

/// The entrance.
#[derive(Clone, Debug)]
pub(crate) struct Events(mpsc::Sender<Told>);

impl Events {
    /// Takes something to tell of an object.
    pub(crate) fn tell(&self, object: &impl Object, note: Note) {
        self.about(object.reference(), note);
    }

    /// Takes something to tell of an object that is known by its name.
    pub(crate) fn about(&self, object: ObjectReference, note: Note) {
        if let Err(error) = self.0.try_send((object, note)) {
            debug!(%error, "Event not written, too many wait");
        }
    }
}

/// Events of each object and reason.
#[derive(Debug, Default)]
struct Kinds(BTreeMap<(String, &'static str), Said>);

/// Events of an object and reason.
#[derive(Debug)]
struct Said {
    /// Time at which they have rested.
    rested: Instant,
    /// Number of those that were left out since the last one.
    left_out: u64,
}

impl Kinds {
    /// Tells whether one more is written: `None`, or how many were left out before it.
    fn take(&mut self, object: &ObjectReference, reason: &'static str, now: Instant) -> Option<u64> {
        if self.0.len() >= MOST_REMEMBERED {
            self.0.retain(|_, said| said.rested > now);
        }
        let said = self.0.entry((key(object), reason)).or_insert(Said { rested: now, left_out: 0 });
        if OF_A_KIND.waits(said.rested, now).is_some() {
            said.left_out = said.left_out.saturating_add(1);
            return None;
        }
        said.rested = OF_A_KIND.written(said.rested, now);
        Some(std::mem::take(&mut said.left_out))
    }
}

/// Tells an object from all others.
fn key(object: &ObjectReference) -> String {
    let ObjectReference { kind, namespace, name, uid, .. } = object;
    let all = [kind, namespace, name, uid].map(|part| part.as_deref().unwrap_or_default());
    all.join("/")
}

/// Text of an Event after so many that were left out, and others that found no room to wait.
fn with(text: String, left_out: u64) -> String {
    if left_out == 0 {
        return text;
    }
    format!("{text} (at least {left_out} of the same kind before it were left out)")
}

/// Returns the entrance, and what comes out of it.
pub(crate) fn channel() -> (Events, mpsc::Receiver<Told>) {
    let (sender, told) = mpsc::channel(MOST_WAITING);
    (Events(sender), told)
}

/// Namespace whose turn it takes.
fn namespace((object, _): &Told) -> &str {
    object.namespace.as_deref().unwrap_or_default()
}

/// Writes what is told, for ever. Ends when nobody tells any more.
pub(crate) async fn write(client: Client, mut told: mpsc::Receiver<Told>) {
    let (mut waiting, mut kinds) = (Waiting::default(), Kinds::default());
    while let Some((regarding, note)) = waiting.next(&mut told, namespace).await {
        let Note { warning, reason, text } = note;
        let Some(left_out) = kinds.take(&regarding, reason, Instant::now()) else { continue };
        let text = with(text, left_out);
        News { regarding, warning, reason, text }.write(&client, AUTHOR).await;
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use berth_base::time::later;

    use super::*;

    fn object(name: &str) -> ObjectReference {
        ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() }
    }

    /// Rows: seconds, the object, the reason, how many Events come then, how many of them are written, and
    /// how many the first of these says were left out.
    #[test]
    fn many_events_of_a_kind_are_told_by_a_few() {
        let (mut kinds, begin) = (Kinds::default(), Instant::now());
        for (seconds, name, reason, come, written, left_out) in [
            (0, "shop", "Updated", 500, 25, 0),
            (0, "shop", "Failed", 3, 3, 0),
            (0, "till", "Updated", 25, 25, 0),
            (1, "shop", "Updated", 10, 0, 0),
            (20, "shop", "Updated", 10, 1, 485),
            (60, "shop", "Updated", 10, 2, 9),
            // All have rested.
            (2000, "shop", "Updated", 30, 25, 8),
        ] {
            let (object, now) = (object(name), later(begin, Duration::from_secs(seconds)));
            let said: Vec<u64> = (0..come).filter_map(|_| kinds.take(&object, reason, now)).collect();
            let first = said.first().copied().unwrap_or_default();
            assert_eq!((said.len(), first), (written, left_out), "{seconds} s, {name}, {reason}");
        }
        assert_eq!(with("a".to_owned(), 0), "a");
        assert_eq!(with("a".to_owned(), 7), "a (at least 7 of the same kind before it were left out)");
    }

    #[test]
    fn objects_whose_events_rest_are_forgotten() {
        let (mut kinds, begin) = (Kinds::default(), Instant::now());
        for number in 0..10 * MOST_REMEMBERED {
            // Twenty a second, as they are written.
            let now = later(begin, PAUSE.saturating_mul(u32::try_from(number).unwrap()));
            kinds.take(&object(&number.to_string()), "Updated", now);
        }
        assert!(kinds.0.len() <= MOST_REMEMBERED, "{}", kinds.0.len());
    }
}
