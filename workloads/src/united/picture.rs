//! Picture of the cluster: UnitedDeployments, their revisions, workloads and pods.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::crd::UnitedDeployment;
use berth_workloads_policy::{
    revision::Revision,
    store::{Store, Stored},
    united_deployment::{ChildView, Input as Known, KINDS, Kind, Plan, PodView, plan},
};
use jiff::Timestamp;

use super::{
    object::{Filed, FiledPod},
    read::Found,
    watches::{Input, name},
};
use crate::{
    jobs::Listed,
    owned::{self, Concerned, Owned},
    watch::Shown,
};

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Picture {
    united: Store<Filed>,
    listed: bool,
    /// UIDs by namespace and name.
    names: BTreeMap<String, String>,
    pub(super) children: BTreeMap<Kind, Owned<ChildView>>,
    pub(super) revisions: Owned<Revision>,
    pub(super) pods: Owned<FiledPod>,
}

/// Rest that a plan depends on, beside the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    pub(super) failure: Option<&'a str>,
    pub(super) collisions: i32,
    pub(super) seed: u64,
}

impl Picture {
    /// Kinds that are watched, and whether all of each was listed.
    pub(super) fn listed(&self) -> Listed {
        let children = KINDS.map(|kind| (name(kind), self.children.get(&kind).is_some_and(|of| of.listed)));
        let mut all = vec![
            ("uniteddeployments", self.listed),
            ("controllerrevisions of uniteddeployments", self.revisions.listed),
            ("pods of uniteddeployments", self.pods.listed),
        ];
        all.extend(children);
        all
    }

    /// Each kind, and how many objects of it there are.
    pub(super) fn sizes(&self) -> [(&'static str, usize); 2] {
        [("uniteddeployments", self.united.iter().count()), ("pods of uniteddeployments", self.pods.len())]
    }

    /// Takes in what a watch shows.
    pub(super) fn take(&mut self, input: Input) -> Concerned {
        match input {
            Input::United(shown) => self.take_united(shown),
            Input::Child(kind, shown) => self.children.entry(kind).or_default().take(shown),
            Input::Revision(shown) => self.revisions.take(shown),
            Input::Pod(shown) => self.take_pod(shown),
        }
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
                let of = |filed: &Filed| (filed.key(), filed.uid().to_owned());
                self.names = self.united.iter().map(of).collect();
                Concerned::All
            }
            Shown::Applied(filed) => {
                let (key, uid) = (filed.key(), filed.uid().to_owned());
                if !self.united.applied(filed) {
                    return Concerned::None;
                }
                self.names.insert(key, uid.clone());
                Concerned::Some(vec![uid])
            }
            Shown::Gone(uid) => {
                if let Some(gone) = self.united.gone(&uid) {
                    let key = gone.key();
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

    /// Takes in an object that a write was answered with.
    pub(super) fn wrote(&mut self, filed: Filed) {
        self.united.wrote(filed);
    }

    /// Takes in that an object is gone.
    pub(super) fn ended(&mut self, uid: &str) {
        self.united.ended(uid);
    }

    /// Namespaces of all objects.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        self.united.iter().filter_map(|filed| filed.object.metadata.namespace.clone()).collect()
    }

    /// Takes in all objects of a namespace, as they were read at once.
    pub(super) fn found(&mut self, found: Found) {
        let here = self.united.iter();
        let here = here.filter(|filed| filed.object.metadata.namespace.as_ref() == Some(&found.namespace));
        let known: Vec<String> = here.map(|filed| filed.uid().to_owned()).collect();
        let owners: Vec<&str> = known.iter().map(String::as_str).collect();
        for (kind, children) in found.children {
            self.children.entry(kind).or_default().found(&owners, children);
        }
        self.revisions.found(&owners, found.revisions);
        owned::found(&mut self.united, &known, found.united);
    }

    /// UIDs of all objects.
    pub(super) fn all(&self) -> Vec<String> {
        self.united.iter().map(|filed| filed.uid().to_owned()).collect()
    }

    /// The object of that UID.
    pub(super) fn object(&self, uid: &str) -> Option<&Filed> {
        self.united.get(uid)
    }

    /// Plan of an object.
    pub(super) fn plan(&self, filed: &Filed, given: Given<'_>, now: Timestamp) -> Plan {
        let united: &UnitedDeployment = &filed.object;
        let children: Vec<&ChildView> = self.children.values().flat_map(|of| of.of(filed.uid())).collect();
        let revisions: Vec<Revision> = self.revisions.of(filed.uid()).cloned().collect();
        let key = filed.key();
        let pods: Vec<&PodView> = self.pods.of(&key).map(|filed| &filed.pod).collect();
        let Given { failure, collisions, seed } = given;
        let known = Known {
            united,
            revisions: &revisions,
            children: &children,
            pods: &pods,
            failure,
            collisions,
            seed,
        };
        plan(&known, now)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;

    fn united(uid: &str, name: &str, version: u64) -> Input {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment",
            "metadata": { "namespace": "ns", "name": name, "uid": uid, "resourceVersion": version.to_string() },
            "spec": { "selector": {}, "template": {} },
        });
        Input::United(Shown::Applied(Filed::new(serde_json::from_value(object).unwrap())))
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
        let mut picture = Picture::default();
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
        let mut picture = Picture::default();
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
}
