//! Defaults of pods in templates: those of core/v1, as far as OpenKruise writes them. Startup probes and
//! quantities are left as they are; it leaves them too, or pods get the same from the API server.

use serde_json::{Value, json};

use super::fill::Filling;

/// Completes the spec of a pod that is to run for ever.
pub(super) fn fill_endless(spec: &mut Filling<'_>) {
    spec.set("restartPolicy", "Always");
    fill(spec);
}

/// Completes the spec of a pod, but for its restarts: of one that is to end its author says them.
pub fn fill(spec: &mut Filling<'_>) {
    spec.set("dnsPolicy", "ClusterFirst");
    spec.set("schedulerName", "default-scheduler");
    spec.set("securityContext", json!({}));
    spec.set("terminationGracePeriodSeconds", 30);
    let of_node = spec.get("hostNetwork") == Some(&Value::Bool(true));
    spec.each("volumes", volume);
    for list in ["initContainers", "containers"] {
        spec.each(list, |one| container(one, of_node));
    }
}

/// Completes a claim of a template.
pub(super) fn claim(claim: &mut Filling<'_>) {
    claim.within("spec", |spec| spec.set("volumeMode", "Filesystem"));
    claim.set("status", json!({ "phase": "Pending" }));
    // A client with types writes an empty one.
    claim.within("status", |status| status.set("phase", "Pending"));
}

fn container(one: &mut Filling<'_>, of_node: bool) {
    // A policy that is kept leaves a change of the image a change of the image alone.
    let policy = pull_policy(one.text("image"));
    one.keep("imagePullPolicy", policy);
    one.set("resources", json!({}));
    one.set("terminationMessagePath", "/dev/termination-log");
    one.set("terminationMessagePolicy", "File");
    one.each("ports", |port| {
        port.set("protocol", "TCP");
        if of_node && let Some(number) = port.get("containerPort").and_then(Value::as_i64) {
            port.set_number("hostPort", number);
        }
    });
    one.each("env", |variable| variable.within("valueFrom", field_ref));
    for name in ["livenessProbe", "readinessProbe"] {
        one.within(name, probe);
    }
    one.within("lifecycle", |lifecycle| {
        for hook in ["postStart", "preStop"] {
            lifecycle.within(hook, |hook| hook.within("httpGet", http));
        }
    });
}

fn probe(probe: &mut Filling<'_>) {
    for (name, number) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        probe.set_number(name, number);
    }
    probe.within("httpGet", http);
    probe.within("grpc", |grpc| grpc.set_empty("service"));
}

fn http(get: &mut Filling<'_>) {
    get.set("path", "/");
    get.set("scheme", "HTTP");
}

fn field_ref(from: &mut Filling<'_>) {
    from.within("fieldRef", |field| field.set("apiVersion", "v1"));
}

/// `Always` for an image that may change under its name: with the tag `latest`, or without tag and digest.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        None if digest.is_none() => "Always",
        _ => "IfNotPresent",
    }
}

fn volume(volume: &mut Filling<'_>) {
    if volume.has_only(&["name"]) {
        volume.set("emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        volume.within(source, |source| {
            source.set("defaultMode", 420);
            source.each("items", field_ref);
            source.each("sources", |projected| {
                projected.within("serviceAccountToken", |token| token.set("expirationSeconds", 3600));
                projected.within("downwardAPI", |downward| downward.each("items", field_ref));
            });
        });
    }
    volume.within("hostPath", |path| path.set_empty("type"));
    volume.within("iscsi", |disk| disk.set("iscsiInterface", "default"));
    volume.within("rbd", |disk| {
        for (name, value) in [("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")] {
            disk.set(name, value);
        }
    });
    volume.within("azureDisk", |disk| {
        for (name, value) in [("cachingMode", "ReadWrite"), ("kind", "Shared"), ("fsType", "ext4")] {
            disk.set(name, value);
        }
        disk.set("readOnly", false);
    });
    volume.within("scaleIO", |disk| {
        disk.set("storageMode", "ThinProvisioned");
        disk.set("fsType", "xfs");
    });
    volume.within("ephemeral", |own| {
        own.within("volumeClaimTemplate", |claim| {
            claim.within("spec", |spec| spec.set("volumeMode", "Filesystem"));
        });
    });
}
