//! Workloads that are written: completed as OpenKruise's webhook completes them, so that who reads one back
//! finds the same fields, and the same template gives the same revision. Pure.
//!
//! Here is what a definition cannot say: the defaults of templates, which are kept as they were given, and
//! those that depend on another field. The other ones are in the definitions (`proto/src/crd`).
//!
//! A template of an object that exists gets no new fields ([`Filling`]): its revision stays. A strategy gets
//! what its type asks for, whatever it was before; that of a CloneSet only when it changes. A CloneSet notes
//! what its template had ([`history`]). What is refused is a template of a set that no pod could be made of
//! ([`templates`]), one that running pods cannot follow where no others are made ([`in_place_only`]), a name
//! in `podsToDelete` that is of no pod of the set ([`pods_to_delete`]), and a job or a ResourceDistribution
//! that its controller would set aside ([`rules`]). What is kept and changes nothing is a warning
//! ([`unused_fields`]).
//! All else is said by the definition and the controller.

mod history;
mod in_place_only;
pub(super) mod pods_to_delete;
pub(super) mod rules;
pub(super) mod templates;
mod unused_fields;

use berth_workloads_policy::defaults::{self, Filling, Object, pod};
use serde_json::{Value, json};

use super::review::{Request, Verdict};

/// The kinds, by their resources.
pub(super) const RESOURCES: [&str; 6] =
    ["advancedcronjobs", "broadcastjobs", "clonesets", "daemonsets", "statefulsets", "uniteddeployments"];
/// Templates of children of a UnitedDeployment.
const CHILDREN: [&str; 4] =
    ["statefulSetTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate"];

/// Completes a workload, unless no pod of it could follow its template. `template_defaults`: whether new
/// templates get defaults.
pub(super) fn complete(request: &Request, template_defaults: bool) -> Verdict {
    let mut object = request.object.clone();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let old = request.old_object.get("spec").and_then(Value::as_object);
        let text = |name: &str| request.object.get(name).and_then(Value::as_str).unwrap_or_default();
        if (text("apiVersion"), text("kind")) == ("apps.kruise.io/v1beta1", "StatefulSet") {
            retention(&mut Filling::new(spec, old));
        }
        fill_in(text("kind"), spec, old);
        let mut templates =
            if template_defaults { Filling::new(spec, old) } else { Filling::as_before(spec, old) };
        fill_in_templates(text("kind"), &mut templates);
    }
    if let Some(fault) = in_place_only::fault(request, &object) {
        return Verdict::invalid(fault);
    }
    if request.object["kind"] == "CloneSet" {
        history::note(&mut object, &request.old_object);
    }
    Verdict::Allowed { object: Some(object), warnings: unused_fields::warnings(request) }
}

/// Completes what is no template.
fn fill_in(kind: &str, spec: &mut Object, old: Option<&Object>) {
    let spec = &mut Filling::new(spec, old);
    match kind {
        "CloneSet" => {
            // One that stays gets nothing: who takes names out of podsToDelete may change nothing else, and
            // would be refused for it.
            let stays = |old: &Object| old.get("updateStrategy") == spec.get("updateStrategy");
            if !old.is_some_and(stays) {
                spec.anew("updateStrategy", |strategy| {
                    strategy.set("type", "ReCreate");
                    if is_in_place(strategy.text("type")) {
                        strategy.set("inPlaceUpdateStrategy", json!({}));
                    }
                });
            }
        }
        "StatefulSet" => {
            spec.anew("updateStrategy", |strategy| {
                if strategy.text("type") == "RollingUpdate" {
                    let rolling = json!({
                        "partition": 0, "maxUnavailable": 1, "podUpdatePolicy": "ReCreate", "minReadySeconds": 0,
                    });
                    strategy.set("rollingUpdate", rolling);
                }
                strategy.within("rollingUpdate", |rolling| {
                    if is_in_place(rolling.text("podUpdatePolicy")) {
                        rolling.set("inPlaceUpdateStrategy", json!({}));
                    }
                });
            });
        }
        "DaemonSet" => spec.anew("updateStrategy", daemon_strategy),
        "BroadcastJob" => {
            spec.within("completionPolicy", |policy| policy.set("type", "Always"));
            spec.within("failurePolicy", |policy| policy.set("type", "FailFast"));
        }
        _ => {}
    }
}

/// Completes templates of pods and claims. That of a DaemonSet OpenKruise leaves as it is.
fn fill_in_templates(kind: &str, spec: &mut Filling<'_>) {
    match kind {
        "CloneSet" | "StatefulSet" => defaults::of_set(spec),
        "BroadcastJob" => spec.within("template", |template| template.within("spec", pod::fill)),
        "AdvancedCronJob" => spec.within("template", |template| {
            for job in ["jobTemplate", "broadcastJobTemplate"] {
                template.within(job, |job| {
                    job.within("spec", |spec| {
                        spec.within("template", |template| {
                            template.within("spec", pod::fill);
                        });
                    });
                });
            }
        }),
        "UnitedDeployment" => spec.within("template", |template| {
            for child in CHILDREN {
                template.within(child, |child| {
                    child.within("spec", defaults::of_set);
                });
            }
        }),
        _ => {}
    }
}

/// `v1alpha1` has no such field. A default of the definition would stand there too, in the place of what the
/// conversion keeps for it.
fn retention(spec: &mut Filling<'_>) {
    const FIELD: &str = "persistentVolumeClaimRetentionPolicy";
    spec.set(FIELD, json!({ "whenDeleted": "Retain", "whenScaled": "Retain" }));
    spec.within(FIELD, |policy| {
        policy.set("whenDeleted", "Retain");
        policy.set("whenScaled", "Retain");
    });
}

/// `Surging` is an old name: as there, it is stored as what it means. Limits that are given stay, so that a
/// client which changes the type of a set that has them is not refused for what the API server filled in.
fn daemon_strategy(strategy: &mut Filling<'_>) {
    if strategy.text("type") == "RollingUpdate" {
        strategy.set("rollingUpdate", json!({ "rollingUpdateType": "Standard", "partition": 0 }));
    }
    strategy.within("rollingUpdate", |rolling| {
        rolling.set("rollingUpdateType", "Standard");
        // With one of the two the other one is the author's to say, but where the type says it.
        let surging = rolling.text("rollingUpdateType") == "Surging";
        if surging || ["maxUnavailable", "maxSurge"].iter().all(|limit| rolling.get(limit).is_none()) {
            rolling.set("maxUnavailable", i64::from(!surging));
            rolling.set("maxSurge", i64::from(surging));
        }
        if surging {
            rolling.replace("rollingUpdateType", "Standard");
        }
    });
}

fn is_in_place(policy: &str) -> bool {
    matches!(policy, "InPlaceIfPossible" | "InPlaceOnly")
}

#[cfg(test)]
mod tests;
