//! Claims of a StatefulSet, and what they go with.
//!
//! | whenScaled | whenDeleted | a pod with a slot | a pod without one |
//! |---|---|---|---|
//! | Retain | Retain | nothing | nothing |
//! | Retain | Delete | the set | the set |
//! | Delete | Retain | nothing | the pod |
//! | Delete | Delete | the set | the pod |
//!
//! One that another controller owns is used as it is, as Kubernetes does: it goes with what that one says.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::{API_VERSION, KIND, Pass, build::claim_name};
use crate::{
    action::Action,
    build::{claim, values},
    claim_change::{message, note},
    clone_set::ClaimView,
    pod::PodView,
};

impl Pass<'_> {
    fn claim(&self, name: &str) -> Option<&ClaimView> {
        self.claims.get(name).copied()
    }

    fn pod_name(&self, ordinal: i64) -> String {
        format!("{}-{ordinal}", self.owner.name)
    }

    fn claim_names(&self, ordinal: i64) -> impl Iterator<Item = String> {
        self.rules.claims.iter().map(move |claim| claim_name(claim.name(), self.owner.name, ordinal))
    }

    /// Reason why a pod with these claims is not made yet.
    pub(super) fn claims_in_the_way(&self, ordinal: i64) -> Option<String> {
        self.claim_names(ordinal).find_map(|name| {
            let claim = self.claim(&name)?;
            if claim.terminating {
                return Some(format!("claim {name} is being deleted: its pod is made when it is gone"));
            }
            // It goes with a pod that is gone, so soon; a new pod would lose it. A pod of another name that
            // decides on it need not end.
            let is_its_pod = |owner: &&OwnerReference| {
                let of_others = owner.controller == Some(true) && owner.name != self.pod_name(ordinal);
                owner.kind == "Pod" && !of_others
            };
            let pod = &claim.owners.iter().find(is_its_pod)?.name;
            self.rules.deletes_with_pod.then(|| {
                format!("claim {name} still goes with an earlier pod {pod}: waiting for its deletion")
            })
        })
    }

    /// Claims of a number that are not there.
    pub(super) fn missing_claims(&self, ordinal: i64) -> Vec<Value> {
        let own = values(&self.rules.match_labels);
        let missing = self.rules.claims.iter().filter_map(|template| {
            let name = claim_name(template.name(), self.owner.name, ordinal);
            let owner = self.rules.deletes_with_set.then(|| json!(self.set_reference()));
            self.claim(&name).is_none().then(|| claim(template, (self.owner.namespace, name), &own, owner))
        });
        missing.collect()
    }

    /// Says that claims of pods that are there are not what their templates would make. One that is not there
    /// is made, and mounted by the next pod of its number.
    pub(super) fn tell_of_claims(&mut self) {
        if self.rules.claims.is_empty() {
            return;
        }
        let all = self.members.values().flat_map(|member| {
            self.rules.claims.iter().filter_map(|template| {
                let name = claim_name(template.name(), self.owner.name, member.ordinal);
                let claim = self.claim(&name).filter(|claim| !claim.terminating)?;
                Some((member.pod.name.as_str(), template, Some(&claim.asks)))
            })
        });
        self.claims_differ = message(all);
        let status = self.input.set.status.as_ref();
        self.plan.notes.extend(note(self.claims_differ.as_ref(), status.map(|status| &*status.conditions)));
    }

    /// Writes what the claims of the pods that are there go with. A pod with which claims go, or are to go,
    /// is not deleted before that is written.
    pub(super) fn keep_claims(&mut self) {
        let (mut patches, mut unkept) = (Vec::new(), BTreeMap::new());
        for member in self.members.values() {
            let has_slot = self.slots.binary_search(&member.ordinal).is_ok();
            let wanted = if self.rules.deletes_with_pod && !has_slot {
                Some(pod_reference(member.pod))
            } else {
                self.rules.deletes_with_set.then(|| self.set_reference())
            };
            let claims = self.claim_names(member.ordinal).filter_map(|name| self.claim(&name));
            for claim in claims.filter(|claim| !self.is_anothers(claim)) {
                let is_managed = |owner: &&OwnerReference| owner.uid == self.owner.uid || owner.kind == "Pod";
                let managed: Vec<&OwnerReference> = claim.owners.iter().filter(is_managed).collect();
                let is_so = match &wanted {
                    Some(wanted) => managed.len() == 1 && managed[0].uid == wanted.uid,
                    None => managed.is_empty(),
                };
                if !is_so {
                    let others = claim.owners.iter().filter(|owner| !is_managed(owner));
                    let owners: Vec<&OwnerReference> = others.chain(&wanted).collect();
                    let patch = json!({ "metadata": { "ownerReferences": owners } });
                    patches.push(Action::PatchClaim(claim.target(), patch));
                    if managed.iter().copied().chain(&wanted).any(|owner| owner.kind == "Pod") {
                        let is_off = self.input.put_off.contains(&claim.uid);
                        *unkept.entry(member.ordinal).or_insert(true) &= is_off;
                    }
                }
            }
        }
        self.plan.actions.extend(patches);
        self.unkept = unkept;
    }

    fn is_anothers(&self, claim: &ClaimView) -> bool {
        let owner = claim.owner();
        !owner.is_empty() && owner != self.owner.uid
    }

    fn set_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            name: self.owner.name.to_owned(),
            uid: self.owner.uid.to_owned(),
            ..OwnerReference::default()
        }
    }
}

fn pod_reference(pod: &PodView) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        ..OwnerReference::default()
    }
}
