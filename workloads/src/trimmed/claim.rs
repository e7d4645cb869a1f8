//! Claims: of 10,000 of them, sixteen a page were 625 questions at each start.

use berth_base::{
    metadata::{Metadata, ReadAnnotations},
    sent::{Received, Sent, full_name},
};
use berth_workloads_policy::names::INSTANCE_LABEL;
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::has_few_owners;

/// Request that is read.
const STORAGE: &str = "storage";

/// A claim with nothing but the fields that are read. One that has too many owners is set aside.
#[derive(Clone, Debug)]
pub(crate) struct TrimmedClaim(Sent<PersistentVolumeClaim>);

resource!(TrimmedClaim, PersistentVolumeClaim);

/// No part of it that is read can be deep.
impl Received for TrimmedClaim {
    type Object = PersistentVolumeClaim;
    const IS_SMALL: bool = true;

    fn read(self) -> Result<PersistentVolumeClaim, String> {
        self.0.read()
    }

    fn fault(&self) -> Option<&str> {
        self.0.fault()
    }
}

/// No annotation of one is read.
struct Annotations;

impl ReadAnnotations for Annotations {
    const KEYS: &'static [&'static str] = &[];
}

/// The claim of the API.
#[derive(Deserialize)]
struct Read {
    metadata: Metadata<Annotations>,
    spec: Option<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    access_modes: Option<Vec<String>>,
    resources: Option<Resources>,
    storage_class_name: Option<String>,
}

#[derive(Deserialize)]
struct Resources {
    requests: Option<Requests>,
}

#[derive(Deserialize)]
struct Requests {
    storage: Option<Quantity>,
}

impl<'de> Deserialize<'de> for TrimmedClaim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Read { metadata, spec } = Read::deserialize(deserializer)?;
        let mut metadata = ObjectMeta::from(metadata);
        metadata.finalizers = None;
        if let Some(labels) = &mut metadata.labels {
            labels.retain(|key, _| key == INSTANCE_LABEL);
        }
        if !has_few_owners(&metadata) {
            metadata.owner_references = None;
            let fault = format!("{}: has too many owners", full_name(&metadata));
            return Ok(Self(Sent::Aside(Box::new(metadata), fault)));
        }
        let spec = spec.map(|spec| {
            let storage = spec.resources.and_then(|resources| resources.requests?.storage);
            let requests = storage.map(|storage| [(STORAGE.to_owned(), storage)].into());
            PersistentVolumeClaimSpec {
                access_modes: spec.access_modes.map(distinct),
                resources: Some(VolumeResourceRequirements { limits: None, requests }),
                storage_class_name: spec.storage_class_name,
                ..PersistentVolumeClaimSpec::default()
            }
        });
        Ok(Self(Sent::Read(PersistentVolumeClaim { metadata, spec, status: None })))
    }
}

/// There are four modes, and a claim may name each of them any number of times.
fn distinct(mut modes: Vec<String>) -> Vec<String> {
    modes.sort_unstable();
    modes.dedup();
    modes.shrink_to_fit();
    modes
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde_json::{Value, json};

    use super::*;
    use crate::watch::{Claims, Watched};

    fn claim(owners: usize, modes: &[&str]) -> Value {
        let owner = |number| {
            json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "a", "uid": "a",
                "controller": number == 0 })
        };
        json!({
            "metadata": {
                "name": "data-a-0", "namespace": "ns", "uid": "u", "resourceVersion": "7",
                "deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": ["kubernetes.io/pvc-protection"],
                "labels": { "apps.kruise.io/cloneset-instance-id": "abcde", "app": "a" },
                "annotations": { "large": "x" },
                "ownerReferences": Vec::from_iter((0..owners).map(owner)),
            },
            "spec": {
                "accessModes": modes, "storageClassName": "fast", "volumeName": "pv",
                "resources": { "requests": { "storage": "1Gi", "other": "1" } },
            },
            "status": { "phase": "Bound" },
        })
    }

    #[test]
    fn all_that_is_read_of_a_claim_is_there() {
        let claim = claim(3, &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteOnce"]);
        let whole: PersistentVolumeClaim = serde_json::from_value(claim.clone()).unwrap();
        let trimmed: TrimmedClaim = serde_json::from_value(claim).unwrap();
        assert_eq!((trimmed.meta().uid.as_deref(), trimmed.fault()), (Some("u"), None));
        let trimmed = trimmed.read().unwrap();
        let modes = trimmed.spec.as_ref().and_then(|spec| spec.access_modes.clone());
        assert_eq!(modes.unwrap_or_default(), ["ReadOnlyMany", "ReadWriteOnce"]);
        let view = Claims::view(trimmed.clone());
        assert!(view.as_ref().is_some_and(|view| view.instance == "abcde" && view.terminating));
        assert_eq!(view, Claims::view(whole));
        assert_eq!(trimmed.metadata.labels.map(|labels| labels.len()), Some(1));
    }

    #[test]
    fn one_with_too_many_owners_is_set_aside() {
        let trimmed: TrimmedClaim = serde_json::from_value(claim(10_000, &[])).unwrap();
        assert_eq!(trimmed.fault(), Some("ns/data-a-0: has too many owners"));
        assert_eq!(trimmed.meta().uid.as_deref(), Some("u"));
        assert_eq!(trimmed.meta().owner_references, None);
    }
}
