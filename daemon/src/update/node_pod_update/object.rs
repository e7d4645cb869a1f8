//! The node's object as it is known, and what of it is still to be written.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use berth_policy::{PodUid, RequestId, in_place_update::StoredRequest, time::later};
use berth_proto::{
    crd::{
        DesiredPod, NodePodUpdate, NodePodUpdateStatus, Partly, Unreadable, UpdatePhase, UpdatedPod, kept,
    },
    size::weight,
};

use super::{
    super::{convert, report, workloads},
    begun::{Sight, Sighting, is_begun, rest},
    entry,
};
use crate::{base::clock::Clock, cluster::target::version};

/// A sign of life is given so often; workloads wait for five of them.
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(120);
/// Good ends of SidecarSets whose entries were taken away stand so long at most: the next entries mostly come
/// with that, and are answered soon. Whoever asks for the same again later must not find them.
const LEFT_FOR: Duration = Duration::from_millis(500);
/// Key of the lists of the object: the pod's UID and the owner.
pub(super) type Key = (String, String);
/// Places of entries that cannot be read, and why.
pub(super) type Aside = BTreeMap<Key, String>;
/// Answers by UID and owner. The object holds two thousand of them at most, and each news looks at all.
type Said<'a> = BTreeMap<(&'a str, &'a str), &'a UpdatedPod>;
/// Entries by UID and owner.
type Asked<'a> = BTreeMap<(&'a str, &'a str), &'a DesiredPod>;

/// The object, and what is to be said in it.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) uid: String,
    pub(super) version: u64,
    /// Where an entry cannot be read, the one that stood in its place before is in it, if there is room.
    pub(super) status: NodePodUpdateStatus,
    /// Entries that cannot be read. Nobody has taken them away: what was decided for their pods stays.
    pub(super) aside: Aside,
    /// Weight of these as they stand in the object.
    pub(super) aside_weight: usize,
    /// Answers of the agent. They run ahead of the written ones.
    pub(super) pods: BTreeMap<Key, UpdatedPod>,
    /// Entries whose owners could not be read when that was tried last.
    pub(super) unread: BTreeSet<RequestId>,
    /// When a sign of life was given last.
    pub(super) renewed: Option<Instant>,
    /// Since when good ends of SidecarSets stand whose entries were taken away.
    pub(super) left: Option<Instant>,
    /// Answers that were found when the object was seen first, and whose entries are not there any more:
    /// their swaps were begun before.
    pub(super) begun: BTreeMap<Key, UpdatedPod>,
}

impl Object {
    /// The object as the watch shows it, with what is known ahead of it: what was written since is in it
    /// already, or comes.
    pub(super) fn shown(ahead: Option<Self>, shown: impl Into<Partly<NodePodUpdate>>) -> Self {
        let Partly { object: shown, unreadable } = shown.into();
        let version = version(&shown.metadata);
        let uid = shown.metadata.uid.unwrap_or_default();
        let ahead = ahead.filter(|known| known.uid == uid);
        let before = ahead.as_ref().map_or(&[][..], |known| &known.status.desired_pods);
        let status = shown.status.unwrap_or_default();
        let (status, aside, aside_weight) = with_those_before(status, unreadable, before);
        let mut pods: BTreeMap<Key, UpdatedPod> =
            status.pods.iter().map(|pod| (answer_key(pod), pod.clone())).collect();
        let (mut unread, mut renewed, mut left, mut begun) = (BTreeSet::new(), None, None, None);
        let mut never_read = BTreeSet::new();
        match ahead {
            Some(ahead) if ahead.version > version => return ahead,
            Some(ahead) => {
                never_read = ahead.never_read();
                pods.extend(ahead.pods);
                (unread, renewed, left) = (ahead.unread, ahead.renewed, ahead.left);
                begun = Some(ahead.begun);
            }
            None => {}
        }
        let desired = asked(&status);
        let is_asked = |(key, said): &(&Key, &UpdatedPod)| {
            let answers = |entry| report::answers(said, entry);
            aside.contains_key(*key) || entry_of(&desired, key).is_some_and(answers)
        };
        // Of the entries that this process has read the policy knows what was begun.
        let is_first = begun.is_none();
        let is_told = |key: &Key| !is_first && !never_read.contains(key);
        let left_over =
            pods.iter().filter(|answer| is_begun(answer.1) && !is_told(answer.0) && !is_asked(answer));
        let left_over: Vec<_> = left_over.map(|(key, said)| (key.clone(), said.clone())).collect();
        let mut begun = begun.unwrap_or_default();
        begun.extend(left_over);
        pods.retain(|key, said| match entry_of(&desired, key) {
            Some(entry) => report::answers(said, entry) || !is_one_way(entry),
            // It stands until its twins rest: another process would know of them by it.
            None => is_begun(said) || aside.contains_key(key),
        });
        let is_left = |said: &UpdatedPod| Left::of(&desired, &aside, said) == Some(Left::Shortly);
        let left = status.pods.iter().any(is_left).then(|| left.unwrap_or_else(Instant::now));
        Self { uid, version, status, aside, aside_weight, pods, unread, renewed, left, begun }
    }

    /// Takes in the object as it is after a write.
    pub(super) fn wrote(&mut self, written: Partly<NodePodUpdate>, now: Instant) {
        let Partly { object, unreadable } = written;
        self.version = version(&object.metadata).max(self.version);
        let status = object.status.unwrap_or_default();
        (self.status, self.aside, self.aside_weight) =
            with_those_before(status, unreadable, &self.status.desired_pods);
        (self.renewed, self.left) = (Some(now), None);
    }

    /// Places of entries that were never read: nobody was told of them.
    fn never_read(&self) -> BTreeSet<Key> {
        let desired = asked(&self.status);
        self.aside.keys().filter(|key| entry_of(&desired, key).is_none()).cloned().collect()
    }

    /// Rests of swaps that another process has begun and whose entries are not there any more. Told once; of
    /// pods that are not seen yet later.
    pub(super) fn take_begun(&mut self, sight: &Sight<'_>, clock: &Clock) -> Vec<StoredRequest> {
        let mut rests = Vec::new();
        self.begun.retain(|_, said| match sight(&PodUid::from(said.uid.as_str())) {
            Sighting::Missing => true,
            Sighting::Gone => false,
            Sighting::There(pod) => {
                rests.extend(rest(said, &pod, self.version, clock));
                false
            }
        });
        rests
    }

    /// Tells whether answers stand whose entries are not there any more, and whose twins may not rest yet.
    pub(super) fn has_rests(&self) -> bool {
        let desired = asked(&self.status);
        let is_left = |key: &Key| entry_of(&desired, key).is_none() && !self.aside.contains_key(key);
        self.pods.iter().any(|(key, said)| is_begun(said) && is_left(key))
    }

    /// Forgets the answers whose entries are not there any more, once the twins rest.
    pub(super) fn forget_rested(&mut self, is_rest: impl Fn(&RequestId) -> bool) {
        let (desired, begun, aside) = (asked(&self.status), &self.begun, &self.aside);
        self.pods.retain(|key, said| {
            let is_asked = entry_of(&desired, key).is_some() || aside.contains_key(key);
            let stays = is_asked || begun.contains_key(key);
            stays || is_rest(&convert::answered_id(said))
        });
    }

    /// The next sign of life is due.
    pub(super) fn is_to_renew(&self, now: Instant) -> bool {
        self.renewed.is_none_or(|renewed| now.saturating_duration_since(renewed) >= RENEW_EVERY)
    }

    /// Entries that may begin. One waits while the answer to an entry that stood in its place is in the
    /// object: it begins without a report that would replace that, and who asked for the earlier entry again
    /// meanwhile would be told that it is done.
    pub(super) fn entries(&self) -> impl Iterator<Item = &DesiredPod> {
        let said = self.said();
        self.status.desired_pods.iter().filter(move |entry| !waits(&said, entry))
    }

    pub(super) fn has_one_that_waits(&self) -> bool {
        let said = self.said();
        self.status.desired_pods.iter().any(|entry| waits(&said, entry))
    }

    /// Answers that stand in the object.
    fn said(&self) -> Said<'_> {
        self.status.pods.iter().map(|said| ((said.uid.as_str(), said.owner.as_str()), said)).collect()
    }

    /// The answers stand in the object, and no sign of life is due.
    pub(super) fn has_said(&self, now: Instant) -> bool {
        let desired = asked(&self.status);
        let is_left_over = self.left_for(now).is_none();
        let said = self.status.pods.iter().filter(|said| match Left::of(&desired, &self.aside, said) {
            Some(Left::Long) => false,
            Some(Left::Shortly) => is_left_over,
            None => true,
        });
        self.pods.values().eq(said) && !self.is_to_renew(now)
    }

    /// Time that good ends of SidecarSets still stand; `None`: none is left, or they are to go now.
    pub(super) fn left_for(&self, now: Instant) -> Option<Duration> {
        let until = self.left.map(|since| later(since, LEFT_FOR)).filter(|until| *until > now);
        until.map(|until| until.saturating_duration_since(now))
    }

    /// The agent has answered that this entry was carried out. One that failed may have been refused: what is
    /// said of it takes the word of its owner, after a restart too.
    pub(super) fn is_done(&self, entry: &DesiredPod) -> bool {
        let answered = self.pods.get(&desired_key(entry)).filter(|answered| report::answers(answered, entry));
        answered.is_some_and(|answered| report::is_end(answered) && answered.phase != UpdatePhase::Failed)
    }
}

/// The status with the entries that stood before where some cannot be read now; and those, with their weight.
fn with_those_before(
    mut status: NodePodUpdateStatus,
    unreadable: Vec<Unreadable>,
    before: &[DesiredPod],
) -> (NodePodUpdateStatus, Aside, usize) {
    let (mut aside, mut aside_weight) = (Aside::new(), 0_usize);
    for one in unreadable.into_iter().filter(|one| one.list == "desiredPods") {
        aside_weight = aside_weight.saturating_add(weight(&one.entry));
        aside.insert((one.text("uid").to_owned(), one.text("owner").to_owned()), one.why);
    }
    if !aside.is_empty() {
        let there: BTreeSet<Key> = status.desired_pods.iter().map(desired_key).collect();
        let stays = |key: &Key| aside.contains_key(key) && !there.contains(key);
        let before = before.iter().filter(|entry| stays(&desired_key(entry)));
        status.desired_pods.extend(kept(before, weight).cloned());
    }
    (status, aside, aside_weight)
}

fn asked(status: &NodePodUpdateStatus) -> Asked<'_> {
    status.desired_pods.iter().map(|entry| ((&*entry.uid, &*entry.owner), entry)).collect()
}

/// The entry in the place of an answer.
fn entry_of<'a>(desired: &Asked<'a>, (uid, owner): &Key) -> Option<&'a DesiredPod> {
    desired.get(&(uid.as_str(), owner.as_str())).copied()
}

/// Tells whether the answer to another entry in this one's place stands in the object.
fn waits(said: &Said<'_>, entry: &DesiredPod) -> bool {
    let said = said.get(&(entry.uid.as_str(), entry.owner.as_str()));
    said.is_some_and(|said| !report::answers(said, entry)) && is_one_way(entry)
}

/// Good end whose entry was taken away. It needs no write of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Good end of a workload: nobody asks for it again while the pod has its revision, so it stands until
    /// the next report or sign of life.
    Long,
    /// Good end of a SidecarSet: it stands for [`LEFT_FOR`], or until a report before that.
    Shortly,
}

impl Left {
    fn of(desired: &Asked<'_>, aside: &Aside, said: &UpdatedPod) -> Option<Self> {
        let is_aside = !aside.is_empty() && aside.contains_key(&answer_key(said));
        let is_asked = is_aside || desired.contains_key(&(said.uid.as_str(), said.owner.as_str()));
        if is_asked || said.phase != UpdatePhase::Succeeded {
            return None;
        }
        match said.owner.split_once('/') {
            Some((kind, _)) if workloads::is_kind(kind) => Some(Self::Long),
            Some(_) => Some(Self::Shortly),
            None => None,
        }
    }
}

/// Tells whether the entry is carried out without a report before.
fn is_one_way(desired: &DesiredPod) -> bool {
    entry(desired, None, 0, Instant::now(), &Clock::read()).request.is_one_way()
}

fn answer_key(said: &UpdatedPod) -> Key {
    (said.uid.clone(), said.owner.clone())
}

pub(super) fn desired_key(desired: &DesiredPod) -> Key {
    (desired.uid.clone(), desired.owner.clone())
}
