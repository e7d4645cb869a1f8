//! Faults of `patchPodMetadata`.

use std::collections::BTreeSet;

use berth_proto::{names::is_qualified, nested};

use super::Written;
use crate::{fault::Fault, white_list::WhiteList};

pub(super) fn check(written: &Written, white_list: &WhiteList, faults: &mut Vec<Fault>) {
    let mut seen = BTreeSet::new();
    let mut keys = Vec::new();
    for (at, patch) in written.set.spec.patch_pod_metadata.iter().enumerate() {
        let path = format!("spec.patchPodMetadata[{at}]");
        let policy = patch.patch_policy.as_deref().unwrap_or_default();
        if !matches!(policy, "" | "Retain" | "Overwrite" | "MergePatchJson") {
            let message = format!("{policy:?} is not supported: give Retain, Overwrite or MergePatchJson");
            faults.push(Fault::new(format!("{path}.patchPolicy"), message));
        }
        let field = format!("{path}.annotations");
        if patch.annotations.is_empty() {
            faults.push(Fault::new(&field, "no annotations defined: give at least one"));
        }
        for (key, value) in &patch.annotations {
            if !is_qualified(&key.to_ascii_lowercase()) {
                faults.push(Fault::new(&field, format!("{key:?} is no annotation key: correct it")));
            }
            if !seen.insert(key) {
                faults.push(Fault::new(
                    &field,
                    format!("annotation {key} already exist in another entry: give it once"),
                ));
            }
            // An agent merges objects alone: with anything else no pod would ever get the next image.
            let is_object = || nested::read_text(value).is_some_and(|value| value.is_object());
            if policy == "MergePatchJson" && !is_object() {
                let message = format!("the value of {key} is no JSON object to merge: correct it");
                faults.push(Fault::new(&field, message));
            }
            keys.push((field.clone(), key.as_str()));
        }
    }
    let labels = written.set.metadata.labels.clone().unwrap_or_default();
    white_list.check(&labels, keys.into_iter(), faults);
}
