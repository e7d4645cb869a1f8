//! Faults of everything but containers, volumes and metadata.

use berth_proto::{
    crd::{MOST_SECONDS, SidecarSet, SidecarSetUpdateStrategy, UpdatePriorityStrategy},
    names::is_qualified,
    percent::part,
};
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};

use super::Written;
use crate::{fault::Fault, hash::is_native, json::objects, names, selector::Selector};

pub(super) fn check(written: &Written, faults: &mut Vec<Fault>) {
    let spec = &written.set.spec;
    name(written.set.metadata.name.as_deref().unwrap_or_default(), faults);
    match &spec.selector {
        None => faults.push(Fault::new("spec.selector", "no selector defined for SidecarSet: give one")),
        Some(given) => selector(given, "spec.selector", faults),
    }
    if let Some(given) = &spec.namespace_selector {
        selector(given, "spec.namespaceSelector", faults);
        if spec.namespace.as_ref().is_some_and(|name| !name.is_empty()) {
            let message = "namespace and namespaceSelector are mutually exclusive: leave one of them out";
            faults.push(Fault::new("spec.namespace", message));
        }
    }
    revision(written, faults);
    canary(written, faults);
    migration(written, faults);
    if let Some(strategy) = &spec.update_strategy {
        update(strategy, faults);
    }
    let not_updated =
        spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) == Some("NotUpdate");
    if !not_updated && objects(written.spec, "initContainers").any(is_native) {
        let message = "in-place upgrade is not currently supported for init containers with restartPolicy \
                       Always: give updateStrategy.type NotUpdate";
        faults.push(Fault::new("spec.initContainers", message));
    }
    if spec.containers.is_empty() && spec.init_containers.is_empty() {
        let message = "no initContainer or container defined for SidecarSet: give at least one";
        faults.push(Fault::new("spec.containers", message));
    }
}

fn name(name: &str, faults: &mut Vec<Fault>) {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        let message = "sidecarset name must consist of alphanumeric characters or '-': rename it";
        faults.push(Fault::new("metadata.name", message));
    }
    if name.len() > 63 {
        faults.push(Fault::new("metadata.name", "must be no more than 63 characters: shorten it"));
    }
}

fn selector(selector: &LabelSelector, path: &str, faults: &mut Vec<Fault>) {
    match Selector::parse(selector, path) {
        Err(fault) => faults.push(fault),
        Ok(parsed) if parsed.is_empty() => {
            let message = "empty selector is not valid for sidecarset: give at least one label";
            faults.push(Fault::new(path, message));
        }
        Ok(_) => {}
    }
}

fn revision(written: &Written, faults: &mut Vec<Fault>) {
    let strategy = written.set.spec.injection_strategy.as_ref();
    let Some(asked) = strategy.and_then(|strategy| strategy.revision.as_ref()) else { return };
    let path = "spec.injectionStrategy.revision";
    let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let (name, version) = (given(&asked.revision_name), given(&asked.custom_version));
    match asked.policy.as_deref() {
        None | Some("" | "Always" | "Partial") => {}
        Some(policy) => {
            let message = format!("{policy:?} is not supported: give Always or Partial");
            faults.push(Fault::new(format!("{path}.policy"), message));
        }
    }
    if name.is_none() && version.is_none() {
        let message = "revisionName and customVersion cannot be empty simultaneously: give one of them";
        faults.push(Fault::new(path, message));
        return;
    }
    let status = written.old.unwrap_or(written.set).status.as_ref();
    let known = status.into_iter().flat_map(|status| &status.revisions).any(|revision| match &name {
        Some(name) => revision.name == *name,
        None => revision.custom_version == version,
    });
    if !known {
        let wanted = name.or(version).unwrap_or_default();
        let message =
            format!("Cannot find specific ControllerRevision {wanted}: name one of status.revisions");
        faults.push(Fault::new(path, message));
    }
}

fn canary(written: &Written, faults: &mut Vec<Fault>) {
    let annotation = |set: &SidecarSet, key: &str| set.metadata.annotations.as_ref()?.get(key).cloned();
    let base = |set| {
        let canary = annotation(set, names::CANARY).as_deref() == Some("true");
        canary.then(|| annotation(set, names::CANARY_BASE).unwrap_or_default())
    };
    let (now, before) = (base(written.set), written.old.map(base));
    let mut fault = |message: String| faults.push(Fault::new("metadata.annotations", message));
    if before.is_some_and(|before| before != now) {
        fault(format!("{} and {} are immutable: make a new SidecarSet", names::CANARY, names::CANARY_BASE));
    }
    let Some(base) = now else { return };
    let found = written.others.iter().find(|other| other.name == base);
    if found.is_none_or(|base| base.canary_of.is_some()) {
        fault(format!(
            "{} is {base:?}, which is no other SidecarSet without a base: name one",
            names::CANARY_BASE
        ));
    }
    let strategy = written.set.spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("NotUpdate") {
        faults.push(Fault::new("spec.updateStrategy.type", "a canary upgrades no pods: give NotUpdate"));
    }
}

/// The annotation with the time of hot upgrades. One that stands was taken before it was looked at.
fn migration(written: &Written, faults: &mut Vec<Fault>) {
    let time = |set: &SidecarSet| set.metadata.annotations.as_ref()?.get(names::MIGRATION_SECONDS).cloned();
    let Some(text) = time(written.set).filter(|text| written.old.and_then(time).as_ref() != Some(text))
    else {
        return;
    };
    if !text.parse().is_ok_and(|seconds: i32| (1..=MOST_SECONDS).contains(&i64::from(seconds))) {
        let message = "is no whole number of seconds from 1 on: give one, such as \"60\"";
        faults.push(Fault::new(format!("metadata.annotations[{}]", names::MIGRATION_SECONDS), message));
    }
}

fn update(strategy: &SidecarSetUpdateStrategy, faults: &mut Vec<Fault>) {
    let path = |field: &str| format!("spec.updateStrategy.{field}");
    match strategy.type_.as_deref() {
        None | Some("" | "RollingUpdate") => {}
        Some("NotUpdate") => return,
        Some(other) => {
            let message = format!("{other:?} is not supported: give RollingUpdate or NotUpdate");
            faults.push(Fault::new(path("type"), message));
        }
    }
    if let Some(given) = &strategy.selector {
        selector(given, &path("selector"), faults);
    }
    for (field, value) in [("partition", &strategy.partition), ("maxUnavailable", &strategy.max_unavailable)]
    {
        let valid = match value {
            None => true,
            Some(IntOrString::Int(number)) => *number >= 0,
            Some(IntOrString::String(text)) => part(text).is_some(),
        };
        if !valid {
            let message = "must be a number of pods from 0 on, or a share from 0% to 100%: correct it";
            faults.push(Fault::new(path(field), message));
        }
    }
    if matches!(&strategy.max_unavailable, Some(IntOrString::String(text)) if part(text) == Some(0)) {
        let message = "of 0% upgrades no pod: give at least 1%, or set paused";
        faults.push(Fault::new(path("maxUnavailable"), message));
    }
    let mut pairs = std::collections::BTreeSet::new();
    for (at, term) in strategy.scatter_strategy.iter().enumerate() {
        let field = path(&format!("scatterStrategy[{at}]"));
        if term.key.is_empty() {
            faults.push(Fault::new(field, "has no key: give the key of a label"));
        } else if !pairs.insert((&term.key, &term.value)) {
            faults.push(Fault::new(field, "repeats a key with its value: list each once"));
        }
    }
    if let Some(priority) = &strategy.priority_strategy {
        check_priority(priority, &path("priorityStrategy"), faults);
    }
}

fn check_priority(priority: &UpdatePriorityStrategy, path: &str, faults: &mut Vec<Fault>) {
    if !priority.order_priority.is_empty() && !priority.weight_priority.is_empty() {
        faults.push(Fault::new(
            path,
            "orderPriority and weightPriority exclude each other: leave one of them out",
        ));
    }
    for (at, term) in priority.order_priority.iter().enumerate() {
        if !is_qualified(&term.ordered_key) {
            faults.push(Fault::new(
                format!("{path}.orderPriority[{at}].orderedKey"),
                "is no label key: correct it",
            ));
        }
    }
    for (at, term) in priority.weight_priority.iter().enumerate() {
        let path = format!("{path}.weightPriority[{at}]");
        if !(0..=100).contains(&term.weight) {
            faults.push(Fault::new(format!("{path}.weight"), "must be from 0 to 100: correct it"));
        }
        selector(&term.match_selector, &format!("{path}.matchSelector"), faults);
    }
}
