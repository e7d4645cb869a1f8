//! Picture of the cluster: UnitedDeployments, their revisions, workloads and pods; and their plans.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
};

use berth_proto::crd::UnitedDeployment;
use berth_workloads_policy::{
    revision::Revision,
    store::{Store, Stored},
    united_deployment::{self, Action, ChildView, Input as Known, KINDS, Kind, PodView},
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::json;

use super::{
    object::{Filed, FiledPod, key},
    read::{self, Found},
    watches::{Input, name},
    write::{Wrote, last},
};
use crate::{
    event_loop::Listed,
    object::Object,
    owned::{self, Concerned, Owned},
    planner::{End, Memory, Picture, Plan, Work},
    reading::Ended,
    room::{Room, uids},
    watch::Shown,
    write::{Failure, Writer},
};

/// Bytes that UnitedDeployments and their revisions may take. An ordinary one takes some 40 KB, and so does
/// each of its revisions.
const MOST_HELD: usize = 64 << 20;
/// Watches of both.
const UNITED: &str = "uniteddeployments";
const REVISIONS: &str = "controllerrevisions of uniteddeployments";

/// All of it.
#[derive(Debug)]
pub(super) struct UnitedDeployments {
    room: Room,
    united: Store<Filed>,
    listed: bool,
    /// UIDs by namespace and name.
    names: BTreeMap<String, String>,
    children: BTreeMap<Kind, Owned<ChildView>>,
    revisions: Owned<Revision>,
    pods: Owned<FiledPod>,
}

impl Default for UnitedDeployments {
    fn default() -> Self {
        Self {
            room: Room::new(MOST_HELD),
            united: Store::default(),
            listed: false,
            names: BTreeMap::new(),
            children: BTreeMap::new(),
            revisions: Owned::default(),
            pods: Owned::default(),
        }
    }
}

impl UnitedDeployments {
    /// Revisions of an object. An author may name an owner of another namespace, whose UID is no secret.
    fn revisions_of<'a>(&'a self, object: &'a Arc<UnitedDeployment>) -> impl Iterator<Item = &'a Revision> {
        self.revisions.of(object.uid()).filter(move |one| one.namespace == object.namespace())
    }

    /// Objects and revisions were counted that came as answers, late perhaps.
    fn answered(&mut self, uids: &[String]) {
        let (united, revisions) = (&self.united, &self.revisions);
        self.room.answered(uids, |uid| united.get(uid).is_some() || revisions.get(uid).is_some());
    }

    /// Sets aside that for which there is no room any more. UIDs of what was, or is not any more.
    fn make_room(&mut self) -> Vec<String> {
        let news = self.room.news();
        for uid in news.iter().flat_map(|news| &news.reduced) {
            self.room.reduce(&mut self.united, uid);
            self.revisions.reduce(uid, Revision::bare);
        }
        news.into_iter().map(|news| news.uid).collect()
    }

    fn take_united(&mut self, shown: Shown<Filed>) -> Concerned {
        match shown {
            Shown::ListBegins => {
                self.united.list_begins();
                Concerned::None
            }
            Shown::ListEnds => {
                self.united.list_ends();
                self.listed = true;
                let of = |filed: &Filed| (key(&filed.object), filed.uid().to_owned());
                self.names = self.united.iter().map(of).collect();
                Concerned::All
            }
            Shown::Applied(filed) => {
                let (key, uid) = (key(&filed.object), filed.uid().to_owned());
                if !self.united.applied(filed) {
                    return Concerned::None;
                }
                self.names.insert(key, uid.clone());
                Concerned::Some(vec![uid])
            }
            Shown::Gone(uid) => {
                if let Some(gone) = self.united.gone(&uid) {
                    let key = key(&gone.object);
                    if self.names.get(&key) == Some(&uid) {
                        self.names.remove(&key);
                    }
                }
                Concerned::Some(vec![uid])
            }
        }
    }

    /// Pods change all the time; only what is decided by concerns anybody.
    fn take_pod(&mut self, shown: Shown<FiledPod>) -> Concerned {
        let is_known = match &shown {
            Shown::Applied(filed) => {
                self.pods.get(filed.uid()).is_some_and(|known| known.pod.is_like(&filed.pod))
            }
            _ => false,
        };
        match self.pods.take(shown) {
            Concerned::Some(_) if is_known => Concerned::None,
            Concerned::Some(keys) => {
                let uids: Vec<String> = keys.iter().filter_map(|key| self.names.get(key).cloned()).collect();
                if uids.is_empty() { Concerned::None } else { Concerned::Some(uids) }
            }
            other => other,
        }
    }
}

impl Picture for UnitedDeployments {
    type Input = Input;
    type Object = Arc<UnitedDeployment>;
    type Action = Action;
    type Wrote = Wrote;
    type Found = Found;

    fn listed(&self) -> Listed {
        let children = KINDS.map(|kind| (name(kind), self.children.get(&kind).is_some_and(|of| of.listed)));
        let mut all = vec![
            ("uniteddeployments", self.listed),
            ("controllerrevisions of uniteddeployments", self.revisions.listed),
            ("pods of uniteddeployments", self.pods.listed),
        ];
        all.extend(children);
        all
    }

    fn sizes(&self) -> Vec<(&'static str, usize)> {
        vec![("uniteddeployments", self.united.count()), ("pods of uniteddeployments", self.pods.len())]
    }

    fn ends_list(input: &Input) -> bool {
        input.is_end()
    }

    fn take(&mut self, input: Input) -> Concerned {
        let concerned = match input {
            Input::United(shown) => {
                let shown = self.room.take(UNITED, shown);
                self.take_united(shown)
            }
            Input::Child(kind, shown) => self.children.entry(kind).or_default().take(shown),
            Input::Revision(shown) => self.revisions.take(self.room.take_revision(REVISIONS, shown)),
            Input::Pod(shown) => self.take_pod(shown),
        };
        match (concerned, self.make_room()) {
            (concerned, more) if more.is_empty() => concerned,
            (Concerned::All, _) => Concerned::All,
            (Concerned::None, more) => Concerned::Some(more),
            (Concerned::Some(uids), more) => Concerned::Some([uids, more].concat()),
        }
    }

    fn objects(&self) -> impl Iterator<Item = &Arc<UnitedDeployment>> {
        self.united.iter().map(|filed| &filed.object).filter(|object| !self.room.is_aside(*object))
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.united.iter().map(|filed| (filed.object.namespace(), filed.uid()))
    }

    fn object(&self, uid: &str) -> Option<&Arc<UnitedDeployment>> {
        self.united.get(uid).map(|filed| &filed.object).filter(|object| !self.room.is_aside(*object))
    }

    fn lacks(&self, uid: &str) -> bool {
        let is_bare =
            |filed: &Filed| filed.is_bare || self.revisions_of(&filed.object).any(Revision::is_bare);
        self.united.get(uid).is_some_and(is_bare)
    }

    fn left_out(&mut self) -> Vec<ObjectReference> {
        self.room.left_out()
    }

    fn all_left_out(&self) -> Vec<ObjectReference> {
        self.room.all_left_out(self.united.iter())
    }

    fn read_all(
        &self,
        writer: Writer,
        term: u64,
        namespaces: BTreeSet<String>,
    ) -> BoxFuture<'static, Ended<Found>> {
        Box::pin(read::all(writer, self.room.aside().clone(), term, namespaces))
    }

    fn found(&mut self, known: &[String], found: Found) -> Vec<String> {
        let owners: Vec<&str> = known.iter().map(String::as_str).collect();
        let (of_revisions, of_united) = (uids(&found.revisions), uids(&found.united));
        let revisions = fitting(&mut self.room, found.revisions);
        let mut concerned = self.revisions.found(&owners, revisions);
        for (kind, children) in found.children {
            concerned.extend(self.children.entry(kind).or_default().found(&owners, children));
        }
        concerned.extend(owned::found(&mut self.united, known, self.room.fit_all(UNITED, found.united)));
        self.answered(&[of_revisions, of_united].concat());
        concerned.extend(self.make_room());
        concerned
    }

    fn plan(&self, object: &Arc<UnitedDeployment>, memory: &Memory, now: Timestamp) -> Plan<Action> {
        let uid = object.uid();
        // An author may name an owner of another namespace, whose UID is no secret.
        let is_here = |namespace: &str| namespace == object.namespace();
        let children = self.children.values().flat_map(|of| of.of(uid));
        let children: Vec<&ChildView> = children.filter(|child| is_here(&child.namespace)).collect();
        let revisions: Vec<&Revision> = self.revisions_of(object).collect();
        let key = key(object);
        let pods: Vec<&PodView> = self.pods.of(&key).map(|filed| &filed.pod).collect();
        let known = Known {
            united: object,
            revisions: &revisions,
            children: &children,
            pods: &pods,
            failure: memory.failure.as_deref(),
            collisions: memory.collisions,
            seed: RandomState::new().build_hasher().finish(),
        };
        let united_deployment::Plan { actions, status, again, notes } = united_deployment::plan(&known, now);
        let actions = last(actions, memory.put_off.names());
        Plan { actions, status: status.map(|status| json!(status)), status_first: false, again, notes }
    }

    async fn carry_out(work: &mut Work<Self>, plan: Plan<Action>) -> End {
        work.run(plan).await
    }

    async fn read(work: &mut Work<Self>) -> Result<(), Failure> {
        work.read().await
    }

    /// Whatever is written is of one alone.
    fn wrote(&mut self, uid: &str, wrote: Wrote) -> Vec<String> {
        match wrote {
            Wrote::United(filed) => {
                let uid = filed.uid().to_owned();
                self.united.wrote(self.room.fit(UNITED, filed));
                self.answered(&[uid]);
            }
            Wrote::UnitedGone(uid) => self.united.ended(&uid),
            Wrote::Child(child) => self.children.entry(child.kind).or_default().wrote(child),
            Wrote::ChildGone(kind, uid) => self.children.entry(kind).or_default().ended(&uid),
            Wrote::Revision(revision) => {
                let uid = revision.uid.clone();
                self.revisions.wrote(self.room.fit_revision(REVISIONS, revision));
                self.answered(&[uid]);
            }
            Wrote::RevisionGone(uid) => self.revisions.ended(&uid),
            Wrote::PodGone(uid) => self.pods.ended(&uid),
            Wrote::Read(children, revisions) => {
                for (kind, children) in children {
                    self.children.entry(kind).or_default().read(uid, children);
                }
                // A revision may only have been without the label: one that gets it counts again.
                let (uids, revisions) = (uids(&revisions), fitting(&mut self.room, revisions));
                self.revisions.found(&[uid], revisions);
                self.answered(&uids);
            }
        }
        self.make_room()
    }
}

/// Revisions that were read, as far as there is room for them.
fn fitting(room: &mut Room, listed: owned::Listed<Revision>) -> owned::Listed<Revision> {
    let objects = listed.objects.into_iter().map(|one| room.fit_revision(REVISIONS, one)).collect();
    owned::Listed { version: listed.version, objects }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::{super::watches::revision, *};

    fn united(uid: &str, name: &str, version: u64) -> Input {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment",
            "metadata": { "namespace": "ns", "name": name, "uid": uid, "resourceVersion": version.to_string() },
            "spec": { "selector": {}, "template": {} },
        });
        Input::United(Shown::Applied(Filed::read(serde_json::from_value(object).unwrap()).unwrap()))
    }

    fn pod(version: u64, ready: &str, more: &Value) -> Input {
        let pod = json!({
            "metadata": {
                "namespace": "ns", "name": "p", "uid": "p", "resourceVersion": version.to_string(),
                "labels": { "apps.kruise.io/controller-revision-hash": "shop-abc" },
            },
            "status": { "conditions": [{ "type": "Ready", "status": ready }], "message": more },
        });
        let pod = PodView::of(&serde_json::from_value::<Pod>(pod).unwrap());
        Input::Pod(Shown::Applied(FiledPod::new(pod)))
    }

    #[test]
    fn a_pod_concerns_its_object_when_something_of_it_counts() {
        let mut picture = UnitedDeployments::default();
        assert_eq!(picture.take(pod(1, "True", &json!("a"))), Concerned::None, "nobody's");
        picture.take(united("u", "shop", 1));
        assert_eq!(picture.take(pod(2, "True", &json!("b"))), Concerned::None, "the same for all decisions");
        assert_eq!(picture.take(pod(3, "False", &json!("b"))), Concerned::Some(vec!["u".to_owned()]));
        assert_eq!(picture.pods.get("p").unwrap().pod.version, "3");
        // One of the same name comes, before the first one is seen to be gone.
        picture.take(united("v", "shop", 2));
        picture.take(Input::United(Shown::Gone("u".to_owned())));
        assert_eq!(picture.take(pod(4, "True", &json!(null))), Concerned::Some(vec!["v".to_owned()]));
    }

    #[test]
    fn nothing_is_decided_before_all_is_listed() {
        let mut picture = UnitedDeployments::default();
        assert!(picture.listed().len() == 7 && picture.listed().iter().all(|(_, listed)| !listed));
        for kind in KINDS {
            picture.take(Input::Child(kind, Shown::ListBegins));
            picture.take(Input::Child(kind, Shown::ListEnds));
        }
        let left: Vec<&str> =
            picture.listed().iter().filter(|(_, listed)| !listed).map(|(name, _)| *name).collect();
        assert_eq!(
            left,
            ["uniteddeployments", "controllerrevisions of uniteddeployments", "pods of uniteddeployments"]
        );
    }

    /// A revision that is there would be made again, under another name.
    #[test]
    fn none_is_planned_without_the_templates_of_its_revisions() {
        let mut picture = UnitedDeployments { room: Room::new(100_000), ..UnitedDeployments::default() };
        let revision = |name: &str, bytes: usize| {
            let owner = json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment",
                "name": "shop", "uid": "u", "controller": true });
            let meta = json!({ "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1",
                "ownerReferences": [owner] });
            let data = json!({ "spec": { "template": { "text": "x".repeat(bytes) } } });
            let object = json!({ "metadata": meta, "data": data, "revision": 1 });
            revision(&serde_json::from_value(object).unwrap()).unwrap()
        };
        let shown = |revision: Revision| Input::Revision(Shown::Applied(revision));
        picture.take(united("u", "shop", 1));
        picture.take(shown(revision("shop-1", 50_000)));
        assert!(picture.object("u").is_some() && !picture.lacks("u"));
        picture.take(shown(revision("shop-2", 60_000)));
        assert!(picture.object("u").is_none() && picture.objects().next().is_none());
        assert!(picture.revisions.len() == 2 && picture.revisions.iter().all(Revision::is_bare));
        let left_out: Vec<_> = picture.left_out().into_iter().filter_map(|object| object.name).collect();
        assert_eq!(left_out, ["shop"]);
        picture.take(Input::Revision(Shown::Gone("shop-2".to_owned())));
        assert!(picture.object("u").is_some() && picture.lacks("u"));
        let objects = vec![revision("shop-1", 50_000)];
        picture.wrote("u", Wrote::Read(Vec::new(), owned::Listed { version: 9, objects }));
        assert!(picture.lacks("u"), "nor is anything known of itself");
        let Input::United(Shown::Applied(filed)) = united("u", "shop", 1) else { panic!("one") };
        picture.wrote("u", Wrote::United(filed));
        assert!(picture.object("u").is_some() && !picture.lacks("u"));
    }
}
