//! Claims that are not what their templates say any more. No claim can follow a change of its template,
//! and a pod keeps its claims; so a change is for pods that are made afterwards, and that is said.
//!
//! A CloneSet's update makes such pods of those that are there, where that is chosen.

use std::collections::BTreeSet;

use berth_proto::crd::{ClaimTemplate, WorkloadCondition};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::Value;

use crate::{action::Note, quantity::quantity};

/// Condition of a set: claims of pods that are there are not what their templates say.
pub(crate) const CLAIMS_DIFFER: &str = "ClaimTemplatesChanged";

/// Things that a claim asks for and its template may say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimAsks {
    storage: Option<Box<str>>,
    class: Option<Box<str>>,
    modes: Vec<Box<str>>,
}

impl ClaimAsks {
    /// Reads a claim.
    pub(crate) fn of(claim: &PersistentVolumeClaim) -> Self {
        let Some(spec) = &claim.spec else { return Self::default() };
        // There are four, and a claim may name each of them any number of times.
        let modes: BTreeSet<&str> = spec.access_modes.iter().flatten().map(String::as_str).collect();
        let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        Self {
            storage: requests.and_then(|all| all.get("storage")).map(|one| one.0.as_str().into()),
            class: spec.storage_class_name.as_deref().map(Box::from),
            modes: modes.into_iter().map(Box::from).collect(),
        }
    }

    /// Difference from a template, in the words of its fields. What the template does not say it leaves open,
    /// and a claim that has grown is large enough.
    fn differs(&self, template: &ClaimTemplate) -> Option<String> {
        let spec = template.0.get("spec")?;
        let text = |value: Option<&Value>| match value? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let wanted = text(spec.pointer("/resources/requests/storage"));
        if let (Some(wanted), Some(has)) = (&wanted, &self.storage)
            && quantity(has) < quantity(wanted)
        {
            return Some(format!("it asks for {has} of storage, and the template for {wanted}"));
        }
        let wanted = text(spec.get("storageClassName"));
        if let (Some(wanted), Some(has)) = (&wanted, &self.class)
            && **has != **wanted
        {
            return Some(format!("its class is {has}, and that of the template {wanted}"));
        }
        let modes = spec.get("accessModes").and_then(Value::as_array)?;
        let wanted: Vec<&str> = modes.iter().filter_map(Value::as_str).collect();
        let has = |mode: &&str| self.modes.iter().any(|known| **known == **mode);
        let lacks = wanted.iter().find(|mode| !self.modes.is_empty() && !has(mode))?;
        Some(format!("it has not the access mode {lacks} of the template"))
    }
}

/// Difference of a claim, if there is one, from its template.
pub(crate) fn difference(template: &ClaimTemplate, claim: Option<&ClaimAsks>) -> Option<String> {
    match claim {
        None => Some("the pod has no claim of it".to_owned()),
        Some(asks) => asks.differs(template),
    }
}

/// Message on the claims of pods that their templates would not make any more; `None`: there are none.
/// Each: a pod, the template of one of its claims, and the claim, if there is one.
pub(crate) fn message<'a>(
    claims: impl Iterator<Item = (&'a str, &'a ClaimTemplate, Option<&'a ClaimAsks>)>,
) -> Option<String> {
    let why = |(pod, template, claim): (&str, &ClaimTemplate, Option<&ClaimAsks>)| {
        let why = difference(template, claim);
        why.map(|why| format!("the first is {} of pod {pod}: {why}", template.name()))
    };
    let mut differing = claims.filter_map(why);
    let first = differing.next()?;
    let count = differing.count().saturating_add(1);
    Some(format!(
        "{count} claims are not what spec.volumeClaimTemplates says, {first}. A change of it is for pods that are made \
         with new claims; delete claims and pods, one after the other, where the others are to have it too"
    ))
}

/// Note of that message; `None` while the condition of it says it already.
pub(crate) fn note(message: Option<&String>, known: Option<&[WorkloadCondition]>) -> Option<Note> {
    let is_known = known.into_iter().flatten().any(|one| one.type_ == CLAIMS_DIFFER);
    let text = message.filter(|_| !is_known)?.clone();
    Some(Note { warning: true, reason: CLAIMS_DIFFER, text })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn asks(spec: Value) -> ClaimAsks {
        ClaimAsks::of(&serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap())
    }

    fn template(spec: Value) -> ClaimTemplate {
        serde_json::from_value(json!({ "metadata": { "name": "data" }, "spec": spec })).unwrap()
    }

    fn storage(storage: Value) -> Value {
        json!({ "resources": { "requests": { "storage": storage } } })
    }

    #[rstest]
    #[case::the_same(storage(json!("1Gi")), storage(json!("1Gi")), None)]
    #[case::otherwise_written(storage(json!("1Gi")), storage(json!("1024Mi")), None)]
    #[case::a_number(storage(json!("1000")), storage(json!(1000)), None)]
    #[case::more(storage(json!("1Gi")), storage(json!("2Gi")), Some("1Gi of storage, and the template for 2Gi"))]
    #[case::grown_by_hand(storage(json!("3Gi")), storage(json!("2Gi")), None)]
    #[case::class(json!({ "storageClassName": "a" }), json!({ "storageClassName": "b" }), Some("class is a"))]
    #[case::default_class(json!({ "storageClassName": "a" }), json!({}), None)]
    #[case::mode(
        json!({ "accessModes": ["ReadWriteOnce"] }),
        json!({ "accessModes": ["ReadWriteMany"] }),
        Some("access mode ReadWriteMany")
    )]
    #[case::no_sense(storage(json!("1Gi")), storage(json!({})), None)]
    #[case::nothing(json!({}), json!({ "storageClassName": "b", "accessModes": ["ReadWriteMany"] }), None)]
    fn claims_are_compared(#[case] claim: Value, #[case] spec: Value, #[case] says: Option<&str>) {
        let (claim, template) = (asks(claim), template(spec));
        let message = message([("web-a", &template, Some(&claim))].into_iter());
        match says {
            None => assert_eq!(message, None),
            Some(says) => {
                let message = message.unwrap();
                let parts = ["1 claims", "data of pod web-a", says, "volumeClaimTemplates"];
                assert!(parts.iter().all(|part| message.contains(part)), "{message}");
            }
        }
    }

    #[test]
    fn a_pod_of_before_has_no_claim_of_a_new_template() {
        let template = template(json!({}));
        let all = ["web-a", "web-b"].map(|pod| (pod, &template, None));
        let message = message(all.into_iter()).unwrap();
        assert!(
            message.starts_with("2 claims") && message.contains("pod web-a: the pod has no claim"),
            "{message}"
        );
    }
}
