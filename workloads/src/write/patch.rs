//! Writes to objects that were there. What the API server has just written says what was written, or never
//! will: a webhook or a policy changes it. The set then waits as after any failure, or each plan would write
//! the same again at once.

use std::collections::{BTreeMap, BTreeSet};

use berth_workloads_policy::{action::Target, names::REVISION_LABEL, plan::Cause};
use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    core::v1::{PersistentVolumeClaim, Pod, PodCondition},
};
use kube::{Resource, api::ObjectMeta};
use serde_json::{Value, json};

use super::{CHANGED_BY_CLUSTER, End, Failure, Work, Wrote};
use crate::{
    trimmed::{TrimmedPod, is_read},
    watch::{Claims, Pods, Revisions},
};

impl Work {
    /// Changes metadata of a pod.
    pub(super) async fn patch_pod(&mut self, target: Target, patch: Value) -> End {
        let written = self.patch::<TrimmedPod>(&target, patch.clone()).await;
        let is_changed = matches!(&written, Ok(Some(pod)) if !has_metadata(pod.meta(), &patch));
        let cause = self.causes.get(&target.uid).copied();
        if written.is_ok() && !is_changed {
            match cause {
                Some(Cause::Repair) => {
                    let text = format!("pod {} has the label of its name again", target.name);
                    self.tell("SuccessfulUpdate", text);
                }
                Some(Cause::InPlace) => {
                    let revision = patch["metadata"]["labels"][REVISION_LABEL].as_str().unwrap_or_default();
                    let text = format!("update pod {} in place (revision {revision})", target.name);
                    self.tell("SuccessfulUpdatePodInPlace", text);
                }
                Some(Cause::Update) | None => {}
            }
        }
        let failed = if cause == Some(Cause::InPlace) { "FailedUpdatePodInPlace" } else { "FailedUpdate" };
        let (there, gone) = (Wrote::Pod, Wrote::PodGone);
        let end = self.settle_as::<Pods>(failed, written, &target.uid, there, gone, End::UpdateFailed).await;
        if !is_changed {
            return end;
        }
        let text = format!("metadata of pod {}: {CHANGED_BY_CLUSTER}", target.name);
        self.failed(Failure::Refused(text), failed, End::UpdateFailed).await
    }

    /// Changes conditions of a pod.
    pub(super) async fn patch_conditions(&mut self, target: Target, patch: Value) -> End {
        let written = self.patch_status(&target, patch.clone()).await;
        let is_changed = matches!(&written, Ok(Some(TrimmedPod(pod))) if !has_conditions(pod, &patch));
        let (there, gone) = (Wrote::Pod, Wrote::PodGone);
        let end = self.settle::<Pods>(written, &target.uid, there, gone, End::UpdateFailed).await;
        let what = format!("conditions of pod {}", target.name);
        if is_changed { self.changed(&what, End::UpdateFailed).await } else { end }
    }

    /// Changes what a claim goes with.
    pub(super) async fn patch_claim(&mut self, target: Target, patch: Value) -> End {
        let written = self.patch::<PersistentVolumeClaim>(&target, patch.clone()).await;
        let is_changed = matches!(&written, Ok(Some(claim)) if !has_metadata(&claim.metadata, &patch));
        let (there, gone) = (Wrote::Claim, Wrote::ClaimGone);
        let end = self.settle::<Claims>(written, &target.uid, there, gone, End::ScaleFailed).await;
        let what = format!("owners of claim {}", target.name);
        if is_changed { self.changed(&what, End::ScaleFailed).await } else { end }
    }

    /// Makes a revision the newest one.
    pub(super) async fn raise_revision(&mut self, target: Target, number: i64) -> End {
        let written = self.patch::<ControllerRevision>(&target, json!({ "revision": number })).await;
        let is_changed = matches!(&written, Ok(Some(raised)) if raised.revision != number);
        let (there, gone) = (Wrote::Revision, Wrote::RevisionGone);
        let end = self.settle::<Revisions>(written, &target.uid, there, gone, End::UpdateFailed).await;
        let what = format!("number of revision {}", target.name);
        if is_changed { self.changed(&what, End::UpdateFailed).await } else { end }
    }

    /// Ends a write after which something is not as it was written.
    pub(super) async fn changed(&mut self, what: &str, end: fn(String) -> End) -> End {
        let text = format!("{what}: {CHANGED_BY_CLUSTER}");
        self.failed(Failure::Refused(text), "FailedUpdate", end).await
    }
}

/// Tells whether an object has what a merge patch says of its labels, annotations and owners. Of a pod's
/// annotations few are read.
pub(super) fn has_metadata(meta: &ObjectMeta, patch: &Value) -> bool {
    let has = |there: Option<&BTreeMap<String, String>>, map: &str| {
        let patched = patch["metadata"][map].as_object().into_iter().flatten();
        let mut patched = patched.filter(|(key, _)| map == "labels" || is_read(key));
        let value = |key: &str| there.and_then(|there| there.get(key)).map(String::as_str);
        patched.all(|(key, patched)| value(key) == patched.as_str())
    };
    let has_owners = |patched: &Vec<Value>| {
        let patched: BTreeSet<&str> = patched.iter().filter_map(|owner| owner["uid"].as_str()).collect();
        let there = meta.owner_references.iter().flatten().map(|owner| owner.uid.as_str());
        there.collect::<BTreeSet<_>>() == patched
    };
    has(meta.labels.as_ref(), "labels")
        && has(meta.annotations.as_ref(), "annotations")
        && patch["metadata"]["ownerReferences"].as_array().is_none_or(has_owners)
}

/// Tells whether a pod has the conditions of a patch, as far as plans go by them.
fn has_conditions(pod: &Pod, patch: &Value) -> bool {
    let there = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let has = |wanted: &Value| {
        let is_said = |one: &PodCondition| {
            let message = wanted["message"].as_str();
            message.is_none_or(|message| one.message.as_deref().unwrap_or_default() == message)
        };
        there.iter().any(|one| wanted["type"] == one.type_ && wanted["status"] == one.status && is_said(one))
    };
    patch["status"]["conditions"].as_array().into_iter().flatten().all(has)
}
