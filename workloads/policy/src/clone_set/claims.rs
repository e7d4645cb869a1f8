//! Claims of a set, and instances: the part that a pod and its claims have in common.
//!
//! The instance is not the pod's name. So a pod that was evicted keeps nobody from using its claims, though
//! its object is still there.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::crd::ClaimTemplate;
use k8s_openapi::{api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::OwnerReference};
use serde_json::json;

use super::{Pass, build::claim_name};
use crate::{
    action::{Action, Target},
    claim_change::{ClaimAsks, difference, message, note},
    names::INSTANCE_LABEL,
    pod::{Phase, PodView},
    revision::controller,
    store::{Stored, version},
};

/// A claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which one of that name.
    pub uid: String,
    /// Its version.
    pub version: String,
    /// Its instance.
    pub instance: String,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// It is being deleted.
    pub terminating: bool,
    /// Storage, class and modes of access that it asks for.
    pub asks: ClaimAsks,
}

impl ClaimView {
    /// Reads a claim.
    pub fn of(claim: &PersistentVolumeClaim) -> Self {
        let meta = &claim.metadata;
        let instance = meta.labels.as_ref().and_then(|labels| labels.get(INSTANCE_LABEL));
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            instance: instance.cloned().unwrap_or_default(),
            owners: meta.owner_references.clone().unwrap_or_default(),
            terminating: meta.deletion_timestamp.is_some(),
            asks: ClaimAsks::of(claim),
        }
    }

    /// UID of the owner that decides on it; empty when there is none.
    pub fn owner(&self) -> &str {
        controller(&self.owners)
    }

    pub(crate) fn target(&self) -> Target {
        Target { name: self.name.clone(), uid: self.uid.clone(), version: self.version.clone() }
    }
}

impl Stored for ClaimView {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        version(&self.version)
    }
}

/// Claims of a set, found by their instance and by their name.
#[derive(Debug, Default)]
pub(super) struct Claims<'a> {
    by_instance: BTreeMap<&'a str, Vec<&'a ClaimView>>,
    by_name: BTreeMap<&'a str, &'a ClaimView>,
}

impl<'a> Claims<'a> {
    pub(super) fn of(claims: &[&'a ClaimView]) -> Self {
        let mut all = Self::default();
        for claim in claims.iter().copied() {
            all.by_instance.entry(&claim.instance).or_default().push(claim);
            all.by_name.insert(&claim.name, claim);
        }
        all
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Claims of an instance that are there to stay.
    fn staying(&self, instance: &str) -> impl Iterator<Item = &'a ClaimView> {
        let all = self.by_instance.get(instance).into_iter().flatten();
        all.copied().filter(|claim| !claim.terminating)
    }
}

/// Pods by their instance.
fn by_instance<'a>(pods: &[&'a PodView]) -> BTreeMap<&'a str, Vec<&'a PodView>> {
    let mut all: BTreeMap<&str, Vec<&PodView>> = BTreeMap::new();
    pods.iter().for_each(|pod| all.entry(pod.instance()).or_default().push(pod));
    all
}

/// Instances that new pods may get.
#[derive(Debug, Default)]
pub(super) struct Instances {
    /// Claims wait for a pod.
    pub(super) free: Vec<String>,
    /// Claims are still mounted by a pod that is going: to wait for it is to keep the data.
    pub(super) held: usize,
    /// Names and instances that are taken.
    pub(super) taken: BTreeSet<String>,
}

impl<'a> Pass<'a> {
    /// Deletes claims: where they are not used again, those of pods that are over go with them.
    pub(super) fn tidy_claims(&mut self, pods: &[&PodView]) {
        if self.rules.reuses_claims || self.input.claims.is_empty() {
            return;
        }
        let pods = by_instance(pods);
        for claim in self.input.claims.iter().filter(|claim| !claim.terminating) {
            let of_instance = pods.get(claim.instance.as_str()).map(Vec::as_slice).unwrap_or_default();
            if of_instance.iter().any(|pod| pod.is_active()) {
                continue;
            }
            let action = match of_instance.first() {
                // The garbage collector deletes it once the pod is gone.
                Some(pod) => {
                    let mut owners: Vec<_> =
                        claim.owners.iter().filter(|owner| owner.uid != self.owner.uid).cloned().collect();
                    owners.push(OwnerReference {
                        api_version: "v1".to_owned(),
                        kind: "Pod".to_owned(),
                        name: pod.name.clone(),
                        uid: pod.uid.clone(),
                        ..OwnerReference::default()
                    });
                    let patch = json!({ "metadata": { "ownerReferences": owners } });
                    Action::PatchClaim(claim.target(), patch)
                }
                None => Action::DeleteClaim(claim.target()),
            };
            self.plan.actions.push(action);
        }
    }

    /// Deletes the claims of a pod that is deleted by the set's own doing.
    pub(super) fn delete_claims(&mut self, pod: &PodView) {
        if !pod.instance().is_empty() {
            let claims = self.claims.staying(pod.instance());
            self.plan.actions.extend(claims.map(|claim| Action::DeleteClaim(claim.target())));
        }
    }

    /// Says that claims of pods that are there are not what their templates would make.
    pub(super) fn tell_of_claims(&mut self) {
        if self.rules.claims.is_empty() {
            return;
        }
        let pods = self.members.iter().map(|member| member.pod);
        let all = pods
            .flat_map(|pod| self.claims_of(pod).map(|(template, asks)| (pod.name.as_str(), template, asks)));
        self.claims_differ = message(all);
        let status = self.input.set.status.as_ref();
        self.plan.notes.extend(note(self.claims_differ.as_ref(), status.map(|status| &*status.conditions)));
    }

    /// Templates of claims, each with what the claim of the pod asks for, if there is one.
    fn claims_of(
        &self,
        pod: &'a PodView,
    ) -> impl Iterator<Item = (&'a ClaimTemplate, Option<&'a ClaimAsks>)> {
        let rules = self.rules;
        let has_claims = !pod.instance().is_empty();
        rules.claims.iter().filter(move |_| has_claims).filter_map(move |template| {
            let name = claim_name(template.name(), self.owner.name, pod.instance());
            let claim = self.claims.by_name.get(name.as_str()).copied();
            // One that goes says nothing of its template.
            let stays = claim.is_none_or(|claim| !claim.terminating);
            stays.then(|| (template, claim.map(|claim| &claim.asks)))
        })
    }

    /// Finds out why a pod that is updated needs other claims, where it is made anew for them. Where its
    /// claims are kept for the new pod, that one would have no others.
    pub(super) fn needs_other_claims(&self, pod: &'a PodView) -> Option<String> {
        if !self.input.settings.recreate_on_claim_changes || self.rules.keeps_claims {
            return None;
        }
        let mut all = self.claims_of(pod);
        all.find_map(|(template, asks)| Some((template.name(), difference(template, asks)?)))
            .map(|(name, why)| format!("its claim {name} follows no change of volumeClaimTemplates: {why}"))
    }

    pub(super) fn instances(&self, pods: &[&PodView]) -> Instances {
        let mut instances = Instances::default();
        let names = pods.iter().flat_map(|pod| [pod.name.clone(), pod.instance().to_owned()]);
        // A new pod with the name of one that is to go would be deleted as that one.
        let condemned = self.rules.pods_to_delete.iter().map(|name| (*name).to_owned());
        let claimed = self.input.claims.iter().map(|one| one.instance.clone());
        instances.taken = names.chain(claimed).chain(condemned).collect();
        if !self.rules.reuses_claims || self.rules.claims.is_empty() {
            return instances;
        }
        let pods = by_instance(pods);
        let with_claims = self.claims.by_instance.keys().copied();
        for instance in with_claims.filter(|one| !one.is_empty() && self.claims.staying(one).next().is_some())
        {
            let pods = pods.get(instance).map(Vec::as_slice).unwrap_or_default();
            if pods.iter().any(|pod| pod.is_active()) {
                continue;
            }
            // A pod that has ended mounts nothing, whether its object goes or stays.
            if pods.iter().any(|pod| pod.terminating && pod.phase != Phase::Ended) {
                instances.held = instances.held.saturating_add(1);
            } else {
                instances.free.push(instance.to_owned());
            }
        }
        instances
    }
}
