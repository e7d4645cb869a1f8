//! Entries of a `NodeImage` that cannot be read: a newer program has written them. The object says so. Nobody
//! has taken them away: what was wanted in their place before is wanted still, and what was answered stays.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::{
    crd::{NodeImage, NodeImageStatus, Partly, Unreadable, kept},
    size::weight,
};
use serde_json::Value;

use super::spec::Images;
use crate::cluster::node_object::fault;

/// Entries that one object tells of at most; the first ones of many.
const MOST_TOLD: usize = 16;

/// Places of entries that cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Aside {
    /// UIDs of entries of `status.desiredImages`.
    wishes: BTreeSet<String>,
    /// Names in `spec.images`.
    names: BTreeSet<String>,
    /// Which they are, what is wrong with them, and what to do.
    pub(super) faults: Vec<String>,
}

impl Aside {
    /// Reads which they are, and puts what stood there `before` into the object, as much as has room.
    pub(super) fn of(
        shown: Partly<NodeImage>,
        before: Option<(&Images, &NodeImageStatus)>,
    ) -> (NodeImage, Self) {
        let Partly { mut object, unreadable } = shown;
        let asks = |one: &&Unreadable| ["images", "desiredImages"].contains(&one.list);
        let mut aside = Self::default();
        for one in unreadable.iter().filter(asks) {
            match one.list {
                "images" => aside.names.insert(one.key.clone()),
                _ => aside.wishes.insert(one.text("uid").to_owned()),
            };
            if aside.faults.len() < MOST_TOLD {
                aside.faults.push(fault(one));
            }
        }
        if let Some((images, status)) = before.filter(|_| !unreadable.is_empty()) {
            let images = kept(images.iter().filter(|(name, _)| aside.names.contains(*name)), weight);
            object.spec.images.extend(images.map(|(name, image)| (name.clone(), image.clone())));
            let wanted = &mut object.status.get_or_insert_default().desired_images;
            let there: BTreeSet<String> = wanted.iter().map(|wish| wish.uid.clone()).collect();
            let stays = |uid: &String| aside.wishes.contains(uid) && !there.contains(uid);
            let wishes = status.desired_images.iter().filter(|wish| stays(&wish.uid));
            wanted.extend(kept(wishes, weight).cloned());
        }
        (object, aside)
    }

    /// Adds what was `said` of them to a status that says nothing of them.
    pub(super) fn answered(&self, mut status: NodeImageStatus, said: &NodeImageStatus) -> NodeImageStatus {
        let known: BTreeSet<String> = status.pulls.iter().map(|pull| pull.uid.clone()).collect();
        let stays = |uid: &String| self.wishes.contains(uid) && !known.contains(uid);
        status.pulls.extend(said.pulls.iter().filter(|pull| stays(&pull.uid)).cloned());
        for (name, image) in said.image_statuses.iter().filter(|(name, _)| self.names.contains(*name)) {
            status.image_statuses.entry(name.clone()).or_insert_with(|| image.clone());
        }
        status
    }

    /// Takes out of changes of `spec.images` what would write over them.
    pub(super) fn spare(&self, changes: &mut BTreeMap<String, Value>) {
        changes.retain(|name, _| !self.names.contains(name));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(policy: &str) -> Partly<NodeImage> {
        let tag = json!({ "tag": "v1", "imagePullPolicy": policy });
        serde_json::from_value(json!({
            "metadata": { "name": "node" },
            "spec": { "images": { "app": { "tags": [tag] }, "db": { "tags": [{ "tag": "v1" }] } } },
            "status": {
                "desiredImages": [
                    { "uid": "j", "image": "app:v1", "imagePullPolicy": policy }, { "uid": "k", "image": "db:v1" },
                ],
                "pulls": [{ "uid": "j", "phase": "Succeeded" }, { "uid": "k", "phase": "Pulling" }],
                "imageStatuses": { "app": { "tags": [{ "tag": "v1", "phase": "Succeeded" }] } },
            },
        }))
        .unwrap()
    }

    #[test]
    fn what_cannot_be_read_is_not_gone() {
        let before = shown("Always").object;
        let status = before.status.clone().unwrap();
        for known in [false, true] {
            let earlier = known.then_some((&before.spec.images, &status));
            let (object, aside) = Aside::of(shown("Sometimes"), earlier);
            let wanted = &object.status.as_ref().unwrap().desired_images;
            let uids: BTreeSet<&str> = wanted.iter().map(|wish| &*wish.uid).collect();
            let names: Vec<&str> = object.spec.images.keys().map(String::as_str).collect();
            let all = (BTreeSet::from(["j", "k"]), vec!["app", "db"]);
            let others = (BTreeSet::from(["k"]), vec!["db"]);
            assert_eq!((uids, names), if known { all } else { others }, "it was known: {known}");
            for part in ["imagePullPolicy: unknown variant", "upgrade berthd"] {
                assert!(aside.faults.len() == 2 && aside.faults[1].contains(part), "{:?}", aside.faults);
            }
            let owed = aside.answered(NodeImageStatus::default(), &status);
            assert_eq!(owed.pulls, status.pulls[..1], "what was answered stays, and nothing else");
            assert_eq!(owed.image_statuses, status.image_statuses);
            assert_eq!(aside.answered(status.clone(), &status), status, "once");
            let mut changes = ["app", "db"].map(|name| (name.to_owned(), json!(null))).into();
            aside.spare(&mut changes);
            assert_eq!(changes.into_keys().collect::<Vec<_>>(), ["db"]);
        }
        let (object, aside) = Aside::of(shown("Always"), None);
        assert_eq!((object, aside), (before, Aside::default()));
    }

    /// Entries that cannot be read are small, and what stood in their place is not.
    #[test]
    fn what_stood_there_has_room_together() {
        for (bytes, is_kept) in [(1 << 10, true), (1 << 20, false)] {
            let mut before = shown("Always").object;
            let (text, mut status) = ("x".repeat(bytes), before.status.take().unwrap());
            before.spec.images.get_mut("app").unwrap().tags[0].tag.clone_from(&text);
            status.desired_images[0].image = text;
            let (object, _) = Aside::of(shown("Sometimes"), Some((&before.spec.images, &status)));
            let wishes = object.status.unwrap().desired_images.len();
            assert_eq!((object.spec.images.contains_key("app"), wishes == 2), (is_kept, is_kept), "{bytes}");
        }
    }
}
