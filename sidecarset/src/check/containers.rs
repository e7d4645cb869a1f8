//! Faults of the containers, each by itself: the members of a sidecar, and those of core/v1 without which no
//! pod would be taken.

use std::collections::BTreeMap;

use berth_proto::{crd::SidecarContainer, names::is_variable_name};

use super::Written;
use crate::{
    fault::Fault,
    golang::Quantity,
    hash::is_native,
    json::{Object, list, object, objects, text},
    sidecar::{Source, source_of},
};

/// The most variables that one container may ask of others.
const MOST_TRANSFERRED: usize = 1024;

pub(super) fn check(written: &Written, faults: &mut Vec<Fault>) {
    // Encoding checks the types.
    if let Err(fault) = crate::hash::hashes(written.spec) {
        faults.push(fault);
        return;
    }
    for (field, init) in [("containers", false), ("initContainers", true)] {
        for (at, container) in objects(written.spec, field).enumerate() {
            let path = format!("spec.{field}[{at}]");
            sidecar(container, &path, faults);
            image(container, &path, faults);
            core(container, &path, init && !is_native(container), faults);
            resources(container, &path, faults);
        }
    }
    update(written, faults);
}

fn one_of(container: &Object, member: &str, known: &[&str], path: &str, what: &str, faults: &mut Vec<Fault>) {
    let value = text(container, member);
    if !value.is_empty() && !known.contains(&value) {
        let message = format!("unsupported {what} {value:?}: give one of {}", known.join(", "));
        faults.push(Fault::new(format!("{path}.{member}"), message));
    }
}

fn sidecar(container: &Object, path: &str, faults: &mut Vec<Fault>) {
    one_of(
        container,
        "podInjectPolicy",
        &["BeforeAppContainer", "AfterAppContainer"],
        path,
        "pod inject policy",
        faults,
    );
    for (member, what) in [
        ("shareVolumePolicy", "share volume policy"),
        ("shareVolumeDevicePolicy", "share volume device policy"),
    ] {
        if let Some(policy) = object(container, member) {
            one_of(policy, "type", &["enabled", "disabled"], &format!("{path}.{member}"), what, faults);
        }
    }
    if let Some(upgrade) = object(container, "upgradeStrategy") {
        let path = format!("{path}.upgradeStrategy");
        one_of(upgrade, "upgradeType", &["ColdUpgrade", "HotUpgrade"], &path, "upgrade type", faults);
        if text(upgrade, "upgradeType") == "HotUpgrade" {
            let empty = text(upgrade, "hotUpgradeEmptyImage");
            let message = if empty.is_empty() {
                Some("is required for HotUpgrade: give the image of the idle twin")
            } else if empty == text(container, "image") {
                Some("is the image of the container, so neither twin would be idle: give another one")
            } else {
                None
            };
            faults.extend(message.map(|message| Fault::new(format!("{path}.hotUpgradeEmptyImage"), message)));
        }
    }
    let mut transferred: usize = 0;
    for (at, transfer) in objects(container, "transferEnv").enumerate() {
        let path = format!("{path}.transferEnv[{at}].sourceContainerNameFrom.fieldRef");
        transferred = transferred.saturating_add(list(transfer, "envNames").len()).saturating_add(1);
        let Some(from) = object(transfer, "sourceContainerNameFrom") else { continue };
        let Some(field) = object(from, "fieldRef") else { continue };
        if text(field, "apiVersion").is_empty() {
            faults.push(Fault::new(format!("{path}.apiVersion"), "Required value: give v1"));
        }
        match source_of(text(field, "fieldPath")) {
            Source::Label(_) | Source::Annotation(_) => {}
            Source::Named(_) | Source::Nowhere => {
                let message =
                    "unsupported fieldPath: give metadata.labels['key'] or metadata.annotations['key']";
                faults.push(Fault::new(format!("{path}.fieldPath"), message));
            }
        }
    }
    if transferred > MOST_TRANSFERRED {
        let message = format!("names {transferred} variables: name at most {MOST_TRANSFERRED}");
        faults.push(Fault::new(format!("{path}.transferEnv"), message));
    }
    if container.get("resourcesPolicy").is_some_and(|policy| !policy.is_null()) {
        let message = "is not supported: give resources";
        faults.push(Fault::new(format!("{path}.resourcesPolicy"), message));
    }
}

fn image(container: &Object, path: &str, faults: &mut Vec<Fault>) {
    let image = text(container, "image");
    if image.is_empty() {
        faults.push(Fault::new(format!("{path}.image"), "Required value: give an image"));
    } else if image.trim() != image {
        faults.push(Fault::new(
            format!("{path}.image"),
            "must not have leading or trailing whitespace: remove it",
        ));
    }
    one_of(container, "imagePullPolicy", &["Always", "Never", "IfNotPresent"], path, "value", faults);
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], path, "value", faults);
}

fn core(container: &Object, path: &str, ends: bool, faults: &mut Vec<Fault>) {
    for (at, env) in objects(container, "env").enumerate() {
        let path = format!("{path}.env[{at}]");
        let name = text(env, "name");
        if !is_variable_name(name) {
            faults.push(Fault::new(
                format!("{path}.name"),
                format!("{name:?} is no name of a variable: correct it"),
            ));
        }
        if !text(env, "value").is_empty() && object(env, "valueFrom").is_some() {
            let message = "may not be specified when `value` is not empty: leave one of them out";
            faults.push(Fault::new(format!("{path}.valueFrom"), message));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(given) = object(container, probe) else { continue };
        let path = format!("{path}.{probe}");
        if ends {
            let message = "may not be set for init containers without restartPolicy Always: remove it";
            faults.push(Fault::new(&path, message));
        }
        one_handler(given, &["exec", "httpGet", "tcpSocket", "grpc"], &path, faults);
    }
    if let Some(lifecycle) = object(container, "lifecycle") {
        let path = format!("{path}.lifecycle");
        if ends {
            let message = "may not be set for init containers without restartPolicy Always: remove it";
            faults.push(Fault::new(&path, message));
        }
        for hook in ["postStart", "preStop"] {
            if let Some(given) = object(lifecycle, hook) {
                one_handler(
                    given,
                    &["exec", "httpGet", "tcpSocket", "sleep"],
                    &format!("{path}.{hook}"),
                    faults,
                );
            }
        }
    }
}

fn one_handler(given: &Object, known: &[&str], path: &str, faults: &mut Vec<Fault>) {
    let count =
        known.iter().filter(|handler| given.get(**handler).is_some_and(|value| !value.is_null())).count();
    let message = match count {
        0 => "must specify a handler type: give one",
        1 => return,
        _ => "may not specify more than 1 handler type: leave one",
    };
    faults.push(Fault::new(path, message));
}

fn resources(container: &Object, path: &str, faults: &mut Vec<Fault>) {
    let Some(resources) = object(container, "resources") else { return };
    let quantity =
        |list: &str, name: &str| object(resources, list).and_then(|list| Quantity::parse(text(list, name)));
    for list in ["limits", "requests"] {
        for name in object(resources, list).into_iter().flat_map(Object::keys) {
            if quantity(list, name).is_some_and(Quantity::is_negative) {
                let message = "must be greater than or equal to 0: correct it";
                faults.push(Fault::new(format!("{path}.resources.{list}[{name}]"), message));
            }
        }
    }
    for name in object(resources, "requests").into_iter().flat_map(Object::keys) {
        if let (Some(limit), Some(request)) = (quantity("limits", name), quantity("requests", name))
            && limit.is_below(request)
        {
            let message = format!("must be less than or equal to {name} limit: lower it");
            faults.push(Fault::new(format!("{path}.resources.requests[{name}]"), message));
        }
    }
}

fn update(written: &Written, faults: &mut Vec<Fault>) {
    let Some(old) = written.old else { return };
    let stored: BTreeMap<&str, &SidecarContainer> =
        old.spec.containers.iter().map(|container| (container.name(), container)).collect();
    for (at, container) in written.set.spec.containers.iter().enumerate() {
        let path = format!("spec.containers[{at}]");
        let Some(before) = stored.get(container.name()) else {
            let message = format!(
                "container {} is not found in the stored SidecarSet: running pods cannot get \
                 one more, make a new set",
                container.name()
            );
            faults.push(Fault::new(format!("{path}.name"), message));
            continue;
        };
        let type_of =
            |of: &Object| object(of, "upgradeStrategy").map_or("", |of| text(of, "upgradeType")).to_owned();
        let (before, now) = (type_of(&before.0), type_of(&container.0));
        if !before.is_empty() && before != now {
            let message = format!("container {} upgradeType is immutable: keep {before}", container.name());
            faults.push(Fault::new(format!("{path}.upgradeStrategy.upgradeType"), message));
        }
    }
}
