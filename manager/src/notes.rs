//! Events: what the indexes have to tell of SidecarSets, of requests and jobs that have ended, and of objects
//! for which there is no room, written one after the other, by turns of their namespaces, and no faster than
//! people read. One that cannot be written is lost; the object's status says the same, or the log.

pub(crate) mod ended;

use std::time::Duration;

use berth_base::events::{News, Waiting};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::mpsc;
use tracing::debug;

use crate::{
    lease::Tenure,
    room::Absent,
    store::{Key, Kind},
    wire::{Budgets, Jobs, PodStates, Requests, SidecarSets, Spreads, Updates, Watchable},
};

/// Author of the manager's Events.
pub(crate) const AUTHOR: &str = "berth-manager";
/// Pause after each.
const PAUSE: Duration = Duration::from_millis(100);
/// Events that wait; one more is lost.
const MOST_WAITING: usize = 256;
/// Places that ends of requests and jobs leave free, and what is set aside: a thousand of them may come at
/// once, and what is told of a SidecarSet is told once for a revision.
const KEPT_FREE: usize = 64;

/// News to tell of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Kind of the object.
    pub about: About,
    /// Its name.
    pub key: Key,
    /// Which one of that name.
    pub uid: Box<str>,
    /// It is bad news.
    pub warning: bool,
    /// For programs.
    pub reason: &'static str,
    /// For people.
    pub text: String,
}

/// Kinds that something is told of. The policy `berth-manager` lets no Events about others in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// A SidecarSet.
    SidecarSet,
    /// A ContainerRecreateRequest.
    Recreate,
    /// A ContainerUpdateRequest.
    Update,
    /// An ImagePullJob.
    ImagePullJob,
    /// A PodUnavailableBudget.
    Budget,
    /// A WorkloadSpread.
    Spread,
    /// A PersistentPodState.
    PodState,
}

impl About {
    /// The `apiVersion` and the kind.
    fn names(self) -> (String, &'static str) {
        match self {
            Self::SidecarSet => of::<SidecarSets>(),
            Self::Recreate => of::<Requests>(),
            Self::Update => of::<Updates>(),
            Self::ImagePullJob => of::<Jobs>(),
            Self::Budget => of::<Budgets>(),
            Self::Spread => of::<Spreads>(),
            Self::PodState => of::<PodStates>(),
        }
    }

    /// Kind that is watched; `None` of one of which nothing is told.
    const fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::SidecarSet => Some(Self::SidecarSet),
            Kind::Request => Some(Self::Recreate),
            Kind::Update => Some(Self::Update),
            Kind::ImagePullJob => Some(Self::ImagePullJob),
            Kind::Budget => Some(Self::Budget),
            Kind::Spread => Some(Self::Spread),
            Kind::PodState => Some(Self::PodState),
            _ => None,
        }
    }
}

/// News of an object for which there is no room.
pub(crate) fn no_room(Absent { kind, namespace, name, uid }: &Absent) -> Option<Note> {
    let text = match kind {
        Kind::SidecarSet => {
            "set aside: all SidecarSets together take more memory than there is for them, and it is among the \
             largest. New pods get nothing of it. Make it smaller, or delete others"
        }
        _ => {
            "set aside: objects that authors make take more memory than there is for them, its namespace takes \
             most, and it is among the largest there. What was done for it stays as it is. Make it smaller, \
             delete others that have ended, or raise --object-memory of berth-manager"
        }
    };
    Some(Note {
        about: About::of(*kind)?,
        key: Key { namespace: namespace.as_str().into(), name: name.as_str().into() },
        uid: uid.as_str().into(),
        warning: true,
        reason: "SetAside",
        text: text.to_owned(),
    })
}

fn of<W: Watchable>() -> (String, &'static str) {
    (format!("{}/{}", W::GROUP, W::VERSION), W::NAME)
}

/// The entrance.
#[derive(Clone, Debug)]
pub struct Notes {
    sender: mpsc::Sender<Note>,
    tenure: Tenure,
}

impl Notes {
    /// Takes something to tell; only the leader tells it.
    pub fn tell(&self, note: Note) {
        if !self.tenure.holds() {
            return;
        }
        let (kind, key) = (note.about.names().1, note.key.clone());
        if !has_room(note.about, self.sender.capacity()) || self.sender.try_send(note).is_err() {
            debug!(kind, %key, "Event not written, too many wait");
        }
    }
}

/// Says whether one more is taken where so many places are free.
fn has_room(about: About, free: usize) -> bool {
    about == About::SidecarSet || free > KEPT_FREE
}

/// Returns the entrance, and what comes out of it.
pub fn channel(tenure: Tenure) -> (Notes, mpsc::Receiver<Note>) {
    let (sender, told) = mpsc::channel(MOST_WAITING);
    (Notes { sender, tenure }, told)
}

/// Writes what is told, for ever. Ends when nobody tells any more.
pub async fn write(client: Client, mut told: mpsc::Receiver<Note>) {
    let mut waiting = Waiting::default();
    while let Some(note) = waiting.next(&mut told, |note: &Note| &*note.key.namespace).await {
        let Note { about, key, uid, warning, reason, text } = note;
        let (api_version, kind) = about.names();
        let regarding = ObjectReference {
            api_version: Some(api_version),
            kind: Some(kind.to_owned()),
            namespace: Some(key.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
            name: Some(key.name.to_string()),
            uid: Some(uid.into_string()),
            ..ObjectReference::default()
        };
        News { regarding, warning, reason, text }.write(&client, AUTHOR).await;
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_leave_room_for_what_is_told_once() {
        for (about, free, taken) in [
            (About::Recreate, KEPT_FREE + 1, true),
            (About::Recreate, KEPT_FREE, false),
            (About::Update, 0, false),
            (About::ImagePullJob, MOST_WAITING, true),
            (About::SidecarSet, 1, true),
        ] {
            assert_eq!(has_room(about, free), taken, "{about:?}, {free} free");
        }
    }

    #[test]
    fn kinds_have_their_names() {
        assert_eq!(About::SidecarSet.names(), ("apps.kruise.io/v1alpha1".to_owned(), "SidecarSet"));
        assert_eq!(About::Update.names(), ("berth.dev/v1alpha1".to_owned(), "ContainerUpdateRequest"));
        let of_budget = About::of(Kind::Budget).map(About::names);
        assert_eq!(of_budget, Some(("policy.kruise.io/v1alpha1".to_owned(), "PodUnavailableBudget")));
    }
}
