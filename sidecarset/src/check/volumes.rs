//! Faults of the volumes, and of what mounts them.

use std::collections::BTreeSet;

use berth_proto::names::is_dns_label;

use super::Written;
use crate::{
    fault::Fault,
    json::{Object, objects, text},
};

pub(super) fn check(written: &Written, faults: &mut Vec<Fault>) {
    let mut volumes = BTreeSet::new();
    for (at, volume) in objects(written.spec, "volumes").enumerate() {
        let path = format!("spec.volumes[{at}]");
        let name = text(volume, "name");
        if !is_dns_label(name) {
            faults.push(Fault::new(format!("{path}.name"), format!("{name:?} is no DNS label: correct it")));
        }
        if !volumes.insert(name) {
            faults.push(Fault::new(
                format!("{path}.name"),
                format!("Duplicate value: {name:?}: rename one of them"),
            ));
        }
        if volume.iter().filter(|(member, value)| *member != "name" && !value.is_null()).count() > 1 {
            faults.push(Fault::new(path, "may not specify more than 1 volume type: leave one"));
        }
    }
    for field in ["containers", "initContainers"] {
        for (at, container) in objects(written.spec, field).enumerate() {
            mounts(container, &format!("spec.{field}[{at}]"), &volumes, faults);
        }
    }
}

fn mounts(container: &Object, path: &str, volumes: &BTreeSet<&str>, faults: &mut Vec<Fault>) {
    let mut paths = BTreeSet::new();
    for (list, member) in [("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")] {
        for (at, mount) in objects(container, list).enumerate() {
            let field = format!("{path}.{list}[{at}]");
            let (name, place) = (text(mount, "name"), text(mount, member));
            if !volumes.contains(name) {
                let message = format!("Not found: {name:?}: add the volume to spec.volumes");
                faults.push(Fault::new(format!("{field}.name"), message));
            }
            if place.is_empty() {
                faults.push(Fault::new(format!("{field}.{member}"), "Required value: give a path"));
            } else if !paths.insert(place) {
                faults.push(Fault::new(
                    format!("{field}.{member}"),
                    format!("must be unique: {place:?} is used twice"),
                ));
            }
            let (sub, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
            if !sub.is_empty() && !expression.is_empty() {
                let message = "subPathExpr and subPath are mutually exclusive: leave one of them out";
                faults.push(Fault::new(format!("{field}.subPathExpr"), message));
            }
            if [sub, expression]
                .iter()
                .any(|sub| sub.starts_with('/') || sub.split('/').any(|part| part == ".."))
            {
                let message = "must be a relative path without '..': correct it";
                faults.push(Fault::new(format!("{field}.subPath"), message));
            }
        }
    }
}
