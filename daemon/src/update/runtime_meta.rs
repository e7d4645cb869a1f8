//! The annotation `apps.kruise.io/runtime-containers-meta`: what runs in a pod, for tools of OpenKruise that
//! judge an update by it. The agent itself does not read it.
//!
//! It is kept for pods that have it, and where a container has env from the pod's metadata for those that
//! OpenKruise's own daemon would keep it for and those that can be updated in place. Without such env there
//! is nothing in it by which an update is judged: OpenKruise, too, goes by the statuses of the containers
//! then, and it would be one more write for each pod and update. With [`ContainersMeta::All`] all pods have
//! it that have it there, for those who look at the annotation itself. It is written only when an instance in
//! it is another one, and after an update, not during it.

use std::time::Duration;

use berth_policy::{ContainerId, PodUid};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tracing::warn;

use super::{Parts, env, snapshot::GATE, state};
use crate::{
    base::causes::chain, cluster::v1 as core, config::ContainersMeta, cri::creation_record::CreationRecord,
    pods::read,
};

/// Annotation of a pod: what its containers were made with, hashes of env from its metadata among it; JSON.
pub(super) const ANNOTATION: &str = "apps.kruise.io/runtime-containers-meta";
/// On pods with sidecars of a SidecarSet.
const SIDECARS: &str = "kruise.io/sidecarset-hash";
/// Pause between two writes on this node.
const WRITE_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Deserialize, Serialize, PartialEq, Eq)]
struct RuntimeMeta {
    containers: Vec<ContainerMeta>,
}

#[derive(Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct ContainerMeta {
    name: String,
    #[serde(rename = "containerID")]
    container_id: String,
    #[serde(default)]
    restart_count: i32,
    #[serde(default)]
    hashes: Hashes,
}

#[derive(Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct Hashes {
    #[serde(default)]
    plain_hash: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extracted_env_from_metadata_hash: Option<u64>,
}

impl Parts {
    /// Keeps the annotations true; for ever.
    pub(super) async fn keep_meta(&self) {
        let (queue, mut requests) = (&self.pods.outdated, self.updates.changes());
        let mut last = PodUid::from("");
        while let Some(taken) = queue.next(&last, &mut requests, |uid| !self.updates.wants(uid)).await {
            last = taken.uid.clone();
            if self.write_meta(&taken.pod).await {
                taken.done();
            } else {
                taken.failed();
            }
            sleep(WRITE_INTERVAL).await;
        }
    }

    /// False: not written, for a reason that may be over in a moment.
    async fn write_meta(&self, pod: &core::Pod) -> bool {
        let mut containers = Vec::new();
        for status in statuses(pod) {
            let spec = pod.spec.iter().flat_map(|spec| &spec.containers);
            let (Some(container), Some(id)) = (
                spec.into_iter().find(|container| container.name == status.name),
                read::container_id(status),
            ) else {
                return true;
            };
            let made = match self.runtime.creation_record(&ContainerId::from(id)).await {
                Ok(made) => made.unwrap_or_else(CreationRecord::unknown),
                Err(error) => {
                    warn!(container.id = id, error = %chain(&error), "Container not asked about");
                    return false;
                }
            };
            if is_of_another(&made, pod) {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                warn!(pod = name, container.id = id, "Status of a pod has a container of another pod");
                return true;
            }
            let references = env::references(container);
            let values = made.env.as_ref().map(|env| env::actual(&references, env));
            containers.push(ContainerMeta {
                name: status.name.clone(),
                container_id: status.container_id.clone().unwrap_or_default(),
                restart_count: status.restart_count,
                hashes: Hashes {
                    plain_hash: made.definition.unwrap_or(0).into(),
                    extracted_env_from_metadata_hash: values.as_ref().map(env::Values::published),
                },
            });
        }
        // Texts and numbers: nothing of it can fail.
        let text = serde_json::to_string(&RuntimeMeta { containers }).unwrap_or_default();
        match self.writer.annotate(pod, ANNOTATION, &text).await {
            Ok(_) => true,
            // The watch shows what is there now.
            Err(error) if error.is_conflict() || error.is_gone() => true,
            Err(error) if error.refusal_or_forbidden().is_some() => {
                warn!(pod = pod.metadata.name, error = %chain(&error), "Annotation of what runs refused");
                true
            }
            Err(error) => {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                warn!(pod = name, error = %chain(&error), "Annotation of what runs not written");
                false
            }
        }
    }
}

/// Tells whether the container belongs to another pod. Whoever may write a pod's status can name any in it,
/// and would read a hash of that one's env in the annotation.
fn is_of_another(made: &CreationRecord, pod: &core::Pod) -> bool {
    let is_there = made.pod.is_some() || made.env.is_some();
    is_there && made.pod != pod.metadata.uid
}

fn statuses(pod: &core::Pod) -> impl Iterator<Item = &core::ContainerStatus> {
    pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten())
}

/// Test for the pods whose annotation has to be written, where it is kept for these.
pub(super) fn rule(kept: ContainersMeta) -> fn(&core::Pod) -> bool {
    match kept {
        ContainersMeta::Needed => |pod| is_outdated(pod, ContainersMeta::Needed),
        ContainersMeta::All => |pod| is_outdated(pod, ContainersMeta::All),
    }
}

/// Tells whether it ought to have the annotation, all its containers run, and one of them is not the one in
/// it.
fn is_outdated(pod: &core::Pod, kept: ContainersMeta) -> bool {
    let annotation = |key: &str| pod.metadata.annotations.as_ref()?.get(key);
    let text = annotation(ANNOTATION);
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let is_theirs = annotation(SIDECARS).is_some()
        || owners.any(|owner| owner.api_version.starts_with("apps.kruise.io/"));
    let is_updated = is_theirs || annotation(state::ANNOTATION).is_some() || read::has_gate(pod, GATE);
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let is_kept = text.is_some()
        || is_theirs && kept == ContainersMeta::All
        || is_updated && containers.any(|container| !env::references(container).is_empty());
    let runs =
        |status: &core::ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    let count = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
    if !is_kept
        || read::is_mirror(&pod.metadata)
        || pod.metadata.deletion_timestamp.is_some()
        || statuses(pod).filter(|status| runs(status)).count() != count
    {
        return false;
    }
    let written: Option<RuntimeMeta> = text.and_then(|text| serde_json::from_str(text).ok());
    let written = written.map(|meta| meta.containers).unwrap_or_default();
    let told = written.iter().map(|meta| (meta.name.as_str(), meta.container_id.as_str()));
    !told.eq(statuses(pod).map(|status| (status.name.as_str(), status.container_id.as_deref().unwrap_or(""))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: &str) -> core::Pod {
        serde_saphyr::from_str(&format!(
            "
metadata: {{name: web, uid: u, annotations: {{{annotations}}}}}
spec: {{containers: [{{name: b}}, {{name: a}}]}}
status:
  containerStatuses:
  - {{name: a, containerID: 'containerd://1', restartCount: 2, state: {{running: {{}}}}, image: i, imageID: i, ready: true}}
  - {{name: b, containerID: 'containerd://2', restartCount: 0, state: {{running: {{}}}}, image: i, imageID: i, ready: true}}
"
        ))
        .unwrap()
    }

    fn is_outdated(pod: &core::Pod) -> bool {
        rule(ContainersMeta::Needed)(pod)
    }

    /// Pods that read nothing of their metadata but the version of a twin, for which nobody is restarted:
    /// owner, further annotation, and whether both choices keep it.
    #[test]
    fn pods_that_read_nothing() {
        let sidecars = format!("'{SIDECARS}': '{{}}'");
        let updated = format!("'{}': '{{}}'", state::ANNOTATION);
        let written = format!("'{ANNOTATION}': ''");
        let version = r#"{name: SIDECARSET_VERSION, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['version.sidecarset.kruise.io/a']"}}}"#;
        for (owner, annotations, needed, all) in [
            ("apps.kruise.io/v1alpha1", "", false, true),
            ("apps.kruise.io/v1beta1", "", false, true),
            ("apps/v1", "", false, false),
            ("apps.kruise.io.example.com/v1", "", false, false),
            ("apps/v1", sidecars.as_str(), false, true),
            ("apps/v1", updated.as_str(), false, false),
            ("apps/v1", written.as_str(), true, true),
        ] {
            let mut pod = pod(annotations);
            let owner = format!("[{{apiVersion: {owner}, kind: K, name: o, uid: o, controller: true}}]");
            pod.metadata.owner_references = serde_saphyr::from_str(&owner).unwrap();
            pod.spec.as_mut().unwrap().containers[1].env =
                Some(vec![serde_saphyr::from_str(version).unwrap()]);
            let found = [ContainersMeta::Needed, ContainersMeta::All].map(|kept| rule(kept)(&pod));
            assert_eq!(found, [needed, all], "{owner} {annotations}");
        }
    }

    #[test]
    fn a_container_of_another_pod_is_none_of_this_one() {
        let env = Some(Vec::new());
        // the pod by the runtime, what it tells of the env, whether it is another's
        for (of, env, is_of_another) in [
            (Some("u"), env.clone(), false),
            (Some("v"), env.clone(), true),
            (Some("v"), None, true),
            (None, env, true),
            (None, None, false),
        ] {
            let told = format!("{of:?} {env:?}");
            let made = CreationRecord { pod: of.map(str::to_owned), env, ..CreationRecord::unknown() };
            assert_eq!(super::is_of_another(&made, &pod("")), is_of_another, "{told}");
        }
    }

    #[test]
    fn written_only_on_change() {
        let meta = |second: &str| {
            format!(
                r#"'{ANNOTATION}': '{{"containers":[{{"name":"a","containerID":"containerd://1"}},{{"name":"b","containerID":"{second}"}}]}}'"#
            )
        };
        assert!(!is_outdated(&pod("")), "nobody keeps it for this pod");
        let updated = pod(&format!("'{}': '{{}}'", state::ANNOTATION));
        assert!(!is_outdated(&updated), "nothing in it would say more than the statuses do");
        let mut reads = updated;
        let from = r#"{name: V, valueFrom: {fieldRef: {fieldPath: "metadata.labels['v']"}}}"#;
        let from = serde_saphyr::from_str(from).unwrap();
        reads.spec.as_mut().unwrap().containers[1].env = Some(vec![from]);
        assert!(is_outdated(&reads));
        assert!(!is_outdated(&pod(&meta("containerd://2"))));
        assert!(is_outdated(&pod(&meta("containerd://1"))));
        assert!(is_outdated(&pod(&format!("'{ANNOTATION}': 'no JSON'"))));
        let mut one_down = pod(&meta("containerd://1"));
        one_down.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[1].state = None;
        assert!(!is_outdated(&one_down), "it comes again");
    }
}
