//! Defaults and hashes that a set gets when it is written, the same as OpenKruise's.
//!
//! One default differs. A pull policy that an update leaves out keeps the stored one: from `nginx` to
//! `nginx:1.23` is then a change of the image alone, and running pods can follow it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    fault::Fault,
    golang::{Quantity, rewritten},
    hash::hashes,
    json::{Object, default, made, object, object_mut, objects, objects_mut, text},
    names,
};

/// Fills in the defaults of a set, and its hashes as annotations. `old` is the stored set, at an update.
pub fn complete(set: &mut Value, old: Option<&Value>) -> Result<(), Fault> {
    let set = set.as_object_mut().ok_or_else(|| Fault::new("", "is no object: give a SidecarSet"))?;
    let spec = member(set, "spec", "spec")?;
    let strategy = member(spec, "updateStrategy", "spec.updateStrategy")?;
    default(strategy, "type", "RollingUpdate");
    default(strategy, "maxUnavailable", 1);
    default(strategy, "partition", 0);
    default(spec, "revisionHistoryLimit", 10);
    if let Some(injection) = object_mut(spec, "injectionStrategy")
        && let Some(revision) = object_mut(injection, "revision")
    {
        default(revision, "policy", "Always");
    }
    for patch in objects_mut(spec, "patchPodMetadata") {
        default(patch, "patchPolicy", "Retain");
    }
    let old = old.and_then(Value::as_object).and_then(|old| object(old, "spec"));
    for (field, inject) in [("containers", "BeforeAppContainer"), ("initContainers", "AfterAppContainer")] {
        let stored = stored_pull_policies(old, field);
        for sidecar in objects_mut(spec, field) {
            sidecar_defaults(sidecar, inject, &stored)?;
        }
    }
    objects_mut(spec, "volumes").for_each(volume_defaults);

    let hashes = hashes(spec)?;
    let metadata = member(set, "metadata", "metadata")?;
    let annotations = member(metadata, "annotations", "metadata.annotations")?;
    annotations.insert(names::HASH.to_owned(), hashes.hash.into());
    annotations.insert(names::HASH_WITHOUT_IMAGE.to_owned(), hashes.without_image.into());
    Ok(())
}

fn member<'a>(of: &'a mut Object, name: &str, path: &str) -> Result<&'a mut Object, Fault> {
    made(of, name).ok_or_else(|| Fault::new(path, "is no object: correct it"))
}

fn stored_pull_policies(old: Option<&Object>, field: &str) -> BTreeMap<String, String> {
    let stored = old.into_iter().flat_map(|spec| objects(spec, field));
    let policies =
        stored.map(|sidecar| (text(sidecar, "name").into(), text(sidecar, "imagePullPolicy").into()));
    policies.filter(|(_, policy): &(String, String)| !policy.is_empty()).collect()
}

fn sidecar_defaults(
    sidecar: &mut Object,
    inject: &str,
    stored: &BTreeMap<String, String>,
) -> Result<(), Fault> {
    default(sidecar, "podInjectPolicy", inject);
    for (policy, value) in
        [("upgradeStrategy", ("upgradeType", "ColdUpgrade")), ("shareVolumePolicy", ("type", "disabled"))]
    {
        default(member(sidecar, policy, policy)?, value.0, value.1);
    }
    let pull = match stored.get(text(sidecar, "name")) {
        Some(policy) => policy.as_str(),
        None => pull_policy(text(sidecar, "image")),
    };
    default(sidecar, "imagePullPolicy", pull);
    default(sidecar, "terminationMessagePath", "/dev/termination-log");
    default(sidecar, "terminationMessagePolicy", "File");
    objects_mut(sidecar, "ports").for_each(|port| default(port, "protocol", "TCP"));
    for transfer in objects_mut(sidecar, "transferEnv") {
        if let Some(from) = object_mut(transfer, "sourceContainerNameFrom") {
            field_ref_default(from);
        }
    }
    for env in objects_mut(sidecar, "env") {
        if let Some(from) = object_mut(env, "valueFrom") {
            field_ref_default(from);
        }
    }
    if let Some(resources) = object_mut(sidecar, "resources") {
        round_up(resources);
    }
    // Not the startup probe: OpenKruise does not, and its defaults would enter the hash.
    for probe in ["livenessProbe", "readinessProbe"] {
        if let Some(probe) = object_mut(sidecar, probe) {
            probe_defaults(probe);
        }
    }
    if let Some(lifecycle) = object_mut(sidecar, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(http) = object_mut(lifecycle, hook).and_then(|hook| object_mut(hook, "httpGet")) {
                http_defaults(http);
            }
        }
    }
    Ok(())
}

fn field_ref_default(from: &mut Object) {
    if let Some(field) = object_mut(from, "fieldRef") {
        default(field, "apiVersion", "v1");
    }
}

/// Replaces quantities that are finer than a thousandth; the others stay as they were given.
fn round_up(resources: &mut Object) {
    for list in ["limits", "requests"] {
        for value in object_mut(resources, list).into_iter().flat_map(|list| list.values_mut()) {
            let text = match &*value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => continue,
            };
            let finer =
                Quantity::parse(&text).is_some_and(|quantity| quantity.rounded_to_milli() != quantity);
            if let Some(rounded) = rewritten(&text, true).filter(|_| finer) {
                *value = rounded.into();
            }
        }
    }
}

fn probe_defaults(probe: &mut Object) {
    for (field, number) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if probe.get(field).is_none_or(|value| value.is_null() || *value == json!(0)) {
            probe.insert(field.to_owned(), number.into());
        }
    }
    if let Some(http) = object_mut(probe, "httpGet") {
        http_defaults(http);
    }
}

fn http_defaults(http: &mut Object) {
    default(http, "path", "/");
    default(http, "scheme", "HTTP");
}

/// `Always` for an image that may change under its name: with the tag `latest`, or without tag and digest.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        None if digest.is_none() && !name.is_empty() => "Always",
        _ => "IfNotPresent",
    }
}

/// Defaults of core/v1 that a pod's volumes get.
fn volume_defaults(volume: &mut Object) {
    let sources = volume.iter().filter(|(name, value)| *name != "name" && !value.is_null());
    if sources.count() == 0 {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object_mut(volume, source) {
            default(source, "defaultMode", 420);
            objects_mut(source, "items").for_each(field_ref_default);
            for projected in objects_mut(source, "sources") {
                if let Some(token) = object_mut(projected, "serviceAccountToken") {
                    default(token, "expirationSeconds", 3600);
                }
                if let Some(downward) = object_mut(projected, "downwardAPI") {
                    objects_mut(downward, "items").for_each(field_ref_default);
                }
            }
        }
    }
    if let Some(path) = object_mut(volume, "hostPath")
        && path.get("type").is_none_or(Value::is_null)
    {
        path.insert("type".to_owned(), "".into());
    }
}
