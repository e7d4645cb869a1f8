//! A node, and the NodeImage of its name. Only both together can be asked for anything: without the second no
//! agent listens. A NodeImage that says that it has no Node is asked too, for jobs count it; nobody answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_proto::crd::{DesiredImage, ImagePhase, PullStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    rollout::{End, Rank},
    room::Room,
    write::{Seal, Wish},
};
use crate::store::{Labels, NodeImageSeen, Texts};

/// State of a name.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    pub(super) node: Option<Node>,
    pub(super) image: Option<Image>,
    /// Jobs for whose wish there is no room, by namespace; the first is the next. Exactly those that stand
    /// so.
    pub(super) crowded: BTreeMap<Arc<str>, BTreeSet<(Rank, Arc<str>)>>,
}

/// The Node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) uid: Box<str>,
    pub(super) created: Option<Timestamp>,
    pub(super) labels: Labels,
    /// The number of the list that showed it last.
    pub(super) list: u32,
}

/// The NodeImage.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    deleting: bool,
    /// UID of the Node that it was made for.
    owner: Option<Box<str>>,
    /// Its labels, where it says that it has no Node.
    alone: Option<Labels>,
    pub(super) key: Option<Arc<str>>,
    /// `desiredImages` with what the agent says of them, as shown.
    pub(super) entries: BTreeMap<Arc<str>, Entry>,
    /// Decided, and not shown yet.
    asked: BTreeMap<Arc<str>, DecidedWish>,
    /// Bytes that both take.
    pub(super) room: Room,
    /// On which version which entries were last asked to be written.
    pub(super) sent: Option<(Box<str>, Vec<Arc<str>>)>,
    pub(super) list: u32,
}

/// A wish that was decided.
#[derive(Clone, Debug)]
pub(super) struct DecidedWish {
    pub(super) since: Timestamp,
    pub(super) namespace: Arc<str>,
    pub(super) weight: usize,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) content: Arc<DesiredImage>,
    /// The room it takes.
    pub(super) weight: usize,
    pub(super) since: Option<Time>,
    pub(super) sealed: Arc<[String]>,
    /// Pull of this version of it, as the agent reports.
    pub(super) pull: Option<Pull>,
}

/// Pull as the agent reports: a change of it is a sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pull {
    phase: ImagePhase,
    progress: Option<i32>,
    message: Option<Box<str>>,
}

impl NodeState {
    /// Tells whether something can be asked of it. A NodeImage that was made for an earlier node of this name
    /// is about to go.
    pub(super) fn usable(&self) -> bool {
        self.labels().is_some()
    }

    /// Labels that selectors look at, if something can be asked of it.
    pub(super) fn labels(&self) -> Option<&Labels> {
        let image = self.image.as_ref().filter(|image| !image.deleting)?;
        let Some(node) = &self.node else { return image.alone.as_ref() };
        image.owner.as_ref().is_none_or(|owner| *owner == node.uid).then_some(&node.labels)
    }

    pub(super) fn has_key(&self) -> bool {
        self.image.as_ref().is_some_and(|image| image.key.is_some())
    }

    pub(super) fn crowd(&mut self, namespace: &Arc<str>, rank: Rank, uid: &Arc<str>) {
        self.crowded.entry(namespace.clone()).or_default().insert((rank, uid.clone()));
    }

    pub(super) fn uncrowd(&mut self, namespace: &str, rank: Rank, uid: &Arc<str>) {
        if let Some(waiting) = self.crowded.get_mut(namespace) {
            waiting.remove(&(rank, uid.clone()));
            if waiting.is_empty() {
                self.crowded.remove(namespace);
            }
        }
    }

    /// Tells whether there is room for a wish, and nobody of its namespace that came before waits for some.
    pub(super) fn has_room(&self, namespace: &str, rank: &Rank, weight: usize) -> bool {
        let waits = self.crowded.get(namespace).and_then(BTreeSet::first);
        let fits = self.image.as_ref().is_none_or(|image| image.room.fits(namespace, weight));
        fits && waits.is_none_or(|(first, _)| rank <= first)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.node.is_none() && self.image.is_none()
    }
}

impl Image {
    /// `content` gives back the copy of an entry that others have, where they have one, and its weight.
    pub(super) fn new(
        seen: NodeImageSeen,
        alone: Option<Labels>,
        list: u32,
        texts: &mut Texts,
        content: impl Fn(&str, DesiredImage) -> (Arc<DesiredImage>, usize),
    ) -> Self {
        let mut pulls: BTreeMap<String, PullStatus> =
            seen.pulls.into_iter().map(|pull| (pull.uid.clone(), pull)).collect();
        let entries = seen.desired.into_iter().map(|mut entry| {
            let (since, sealed) = (entry.since.take(), std::mem::take(&mut entry.sealed_credentials));
            let version = entry.version.unwrap_or_default();
            let pull = pulls
                .remove(&entry.uid)
                .filter(|pull| pull.version.unwrap_or_default() == version)
                .map(|pull| Pull {
                    phase: pull.phase,
                    progress: pull.progress,
                    message: pull.message.map(String::into_boxed_str),
                });
            let uid = texts.one(&entry.uid);
            let (content, weight) = content(&uid, entry);
            let weight = sealed.iter().map(String::len).fold(weight, usize::saturating_add);
            (uid, Entry { content, weight, since, sealed: sealed.into(), pull })
        });
        let entries: BTreeMap<_, _> = entries.collect();
        let mut room = Room::default();
        for entry in entries.values() {
            let namespace = entry.content.wanted_by.as_ref().map_or("", |by| &*by.namespace);
            room.take(&texts.one(namespace), entry.weight);
        }
        Self {
            entries,
            room,
            uid: seen.uid.into(),
            resource_version: seen.resource_version.into(),
            deleting: seen.deleting,
            owner: seen.owner.map(String::into_boxed_str),
            alone,
            key: seen.sealing_key.filter(|key| !key.is_empty()).map(Into::into),
            asked: BTreeMap::new(),
            sent: None,
            list,
        }
    }

    pub(super) fn ask(&mut self, uid: &Arc<str>, asked: DecidedWish) {
        self.unask(uid);
        self.room.take(&asked.namespace, asked.weight);
        self.asked.insert(uid.clone(), asked);
    }

    /// Tells whether it had been decided.
    pub(super) fn unask(&mut self, uid: &str) -> bool {
        let Some(asked) = self.asked.remove(uid) else { return false };
        self.room.give_back(&asked.namespace, asked.weight);
        true
    }

    pub(super) fn asked(&self) -> &BTreeMap<Arc<str>, DecidedWish> {
        &self.asked
    }

    /// UIDs of which something is here.
    pub(super) fn uids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.entries.keys().chain(self.asked.keys())
    }
}

impl Entry {
    /// The room it takes without its credentials.
    pub(super) fn content_weight(&self) -> usize {
        self.sealed.iter().map(String::len).fold(self.weight, usize::saturating_sub)
    }

    pub(super) fn end(&self) -> Option<End> {
        match self.pull.as_ref()?.phase {
            ImagePhase::Succeeded => Some(End::Succeeded),
            ImagePhase::Failed => Some(End::Failed),
            ImagePhase::Waiting | ImagePhase::Pulling => None,
        }
    }

    /// The wish as it is: an entry once written stays so until it is taken back.
    pub(super) fn wish(&self) -> Wish {
        Wish {
            content: self.content.clone(),
            since: self.since.clone(),
            seal: Seal::Present(self.sealed.clone()),
        }
    }
}
