//! Doubtful things in a set that is taken all the same: somebody should hear of them.

use berth_proto::percent::part;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use crate::{
    golang::unknown,
    json::{Object, object, objects, text},
};

/// The most sentences.
const MOST: usize = 32;

/// Sentences for the author of a set that has its defaults.
pub fn warnings(set: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let Some(spec) = set.get("spec").and_then(Value::as_object) else { return found };
    for field in ["containers", "initContainers"] {
        for (at, container) in objects(spec, field).enumerate() {
            let path = format!("spec.{field}[{at}]");
            found.extend(unknown(container, &path).into_iter().map(|path| {
                format!("{path}: unknown field; it is injected as it is, and no part of the hash")
            }));
            let upgrade = object(container, "upgradeStrategy");
            if upgrade.is_some_and(|upgrade| text(upgrade, "upgradeType") == "HotUpgrade") {
                hot(container, &path, &mut found);
            }
        }
    }
    for (at, patch) in objects(spec, "patchPodMetadata").enumerate() {
        if matches!(text(patch, "patchPolicy"), "Overwrite" | "MergePatchJson") {
            found.push(format!(
                "spec.patchPodMetadata[{at}]: running pods get a new value along with new images, and neither where \
                 agents may not write the key: annotation berth.dev/agent-labels of the pods' Namespace lists it, or \
                 the component open-agent-labels is applied"
            ));
        }
    }
    if let Some(strategy) = object(spec, "updateStrategy") {
        let partition =
            strategy.get("partition").and_then(|value| serde_json::from_value(value.clone()).ok());
        let some = match partition {
            Some(IntOrString::Int(number)) => number != 0,
            Some(IntOrString::String(share)) => part(&share) != Some(0),
            None => false,
        };
        if some && object(strategy, "selector").is_some() {
            found.push(
                "spec.updateStrategy: partition and selector cannot be used together in OpenKruise from 1.7 on; \
                 the partition counts among the pods that the selector takes"
                    .to_owned(),
            );
        }
    }
    found.truncate(MOST);
    found
}

fn hot(container: &Object, path: &str, found: &mut Vec<String>) {
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if object(container, probe).is_some() {
            found.push(format!(
                "{path}.{probe}: the twins of a HotUpgrade share one network, and the idle one has to pass the \
                 probe too; each swap makes the pod unready for a moment"
            ));
        }
    }
    if objects(container, "ports").next().is_some() {
        found.push(format!(
            "{path}.ports: both twins of a HotUpgrade claim them; pods with hostNetwork are refused"
        ));
    }
    if object(container, "lifecycle").and_then(|lifecycle| object(lifecycle, "postStart")).is_none() {
        found.push(format!(
            "{path}.lifecycle.postStart: a HotUpgrade without it hands nothing over to the new version"
        ));
    }
}
