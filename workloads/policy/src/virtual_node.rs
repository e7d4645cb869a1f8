//! Sidecars of Jobs on virtual nodes, where no agent runs that could end them: when one is over, and by which
//! image it ends.
//!
//! The author of the pod names that image in the env of the sidecar: it takes the same command and arguments
//! as the sidecar, and exits with 0 at once.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};

/// Label that makes a Node a virtual one, as OpenKruise has it.
pub const VIRTUAL: &str = "type=virtual-kubelet";
/// Env of a sidecar on any node.
const SIDECAR: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
/// Env of a sidecar on a virtual node: the image that ends it, which it gets when the mains have ended.
const SIDECAR_WITH_IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";

/// Lists the sidecars of a pod that are to be ended, and the image that ends each: those that run on while
/// all main containers have ended.
pub fn to_end(pod: &Pod) -> Vec<(&str, &str)> {
    let (Some(spec), Some(status)) = (pod.spec.as_ref(), pod.status.as_ref()) else { return Vec::new() };
    let policy = spec.restart_policy.as_deref();
    let finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    if pod.metadata.deletion_timestamp.is_some() || finished {
        return Vec::new();
    }
    let statuses = || status.container_statuses.iter().flatten();
    let of = |container: &Container| statuses().find(|status| status.name == container.name);
    let (sidecars, mains): (Vec<&Container>, Vec<&Container>) =
        spec.containers.iter().partition(|container| image(container).is_some() || is_sidecar(container));
    let over = |main: &&Container| of(main).is_some_and(|status| has_ended(status, policy));
    if mains.is_empty() || !mains.iter().all(over) {
        return Vec::new();
    }
    let runs = |status: &ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    let running = sidecars.into_iter().filter(|sidecar| of(sidecar).is_some_and(runs));
    running
        .filter_map(|sidecar| {
            let image = image(sidecar)?;
            // Once it has it, its end is up to the node.
            (sidecar.image.as_deref() != Some(image)).then_some((sidecar.name.as_str(), image))
        })
        .collect()
}

/// The image that ends it on a virtual node.
fn image(container: &Container) -> Option<&str> {
    env(container, SIDECAR_WITH_IMAGE).filter(|image| !image.is_empty())
}

fn is_sidecar(container: &Container) -> bool {
    env(container, SIDECAR).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// The last one of that name counts, as it does for the container.
fn env<'a>(container: &'a Container, name: &str) -> Option<&'a str> {
    container.env.iter().flatten().rfind(|env| env.name == name)?.value.as_deref()
}

/// Tells whether it is not started again under this policy.
fn has_ended(status: &ContainerStatus, policy: Option<&str>) -> bool {
    let terminated = status.state.as_ref().and_then(|state| state.terminated.as_ref());
    match policy {
        Some("Never") => terminated.is_some(),
        Some("OnFailure") => terminated.is_some_and(|terminated| terminated.exit_code == 0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pod(policy: &str, main: Value, sidecar: Value) -> Value {
        json!({
            "metadata": { "name": "count", "namespace": "shop", "uid": "1-2" },
            "spec": {
                "restartPolicy": policy,
                "containers": [
                    { "name": "main", "image": "m" },
                    { "name": "proxy", "image": "p", "env": [{ "name": SIDECAR_WITH_IMAGE, "value": "quit:1" }] },
                ],
            },
            "status": { "phase": "Running", "containerStatuses": [
                { "name": "main", "image": "m", "imageID": "", "ready": false, "restartCount": 0, "state": main },
                { "name": "proxy", "image": "p", "imageID": "", "ready": true, "restartCount": 0, "state": sidecar },
            ] },
        })
    }

    fn exited(code: i32) -> Value {
        json!({ "terminated": { "exitCode": code } })
    }

    fn running() -> Value {
        json!({ "running": {} })
    }

    fn ends(pod: Value) -> Vec<(String, String)> {
        let pod = serde_json::from_value(pod).unwrap();
        to_end(&pod).into_iter().map(|(name, image)| (name.to_owned(), image.to_owned())).collect()
    }

    #[rstest]
    #[case::never("Never", exited(3), running(), true)]
    #[case::on_failure("OnFailure", exited(0), running(), true)]
    #[case::comes_again("OnFailure", exited(1), running(), false)]
    #[case::runs("Never", running(), running(), false)]
    #[case::for_ever("Always", exited(0), running(), false)]
    #[case::all_down("Never", exited(0), exited(0), false)]
    fn when_the_mains_have_ended(
        #[case] policy: &str,
        #[case] main: Value,
        #[case] sidecar: Value,
        #[case] is: bool,
    ) {
        let expected = is.then(|| ("proxy".to_owned(), "quit:1".to_owned()));
        assert_eq!(ends(pod(policy, main, sidecar)), Vec::from_iter(expected));
    }

    #[rstest]
    #[case::has_it_already("/spec/containers/1/image", json!("quit:1"))]
    #[case::empty("/spec/containers/1/env/0/value", json!(""))]
    #[case::of_another_kind("/spec/containers/1/env/0", json!({ "name": SIDECAR, "value": "true" }))]
    #[case::nothing_but_sidecars("/spec/containers/0/env", json!([{ "name": SIDECAR, "value": "TRUE" }]))]
    #[case::the_last_one_counts("/spec/containers/1/env", json!([
        { "name": SIDECAR_WITH_IMAGE, "value": "quit:1" }, { "name": SIDECAR_WITH_IMAGE, "value": "p" }]))]
    #[case::over("/status/phase", json!("Failed"))]
    #[case::goes("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))]
    #[case::nothing_is_known("/status/containerStatuses", json!([]))]
    fn never_otherwise(#[case] at: &str, #[case] value: Value) {
        let mut pod = pod("Never", exited(0), running());
        let (parent, field) = at.rsplit_once('/').unwrap();
        match pod.pointer_mut(parent).unwrap() {
            Value::Array(list) => list[field.parse::<usize>().unwrap()] = value,
            object => object[field] = value,
        }
        assert_eq!(ends(pod), []);
    }
}
