//! Conversion of what the API server, the runtime and the images show of a pod into the policy's words.
//! Nothing is judged here.

use std::{collections::BTreeMap, sync::Arc};

use berth_policy::{
    PodUid, WishPhase,
    in_place_update::{
        ContainerStatusView, CreatedWith, DeclaredContainer, DeclaredHook, EnvReference, GateView, Liveness,
        Metadata, MetadataKey, NodeView, PodView, Presence, Records, UpdateOwner,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Parts, env, state, wish_id};
use crate::{
    base::clock::since_epoch,
    cluster::{node_pods::identity, target::version, v1 as core},
    cri::creation_record::CreationRecord,
    pods::{read, unready},
};

/// The readiness gate of in-place updates.
pub(super) const GATE: &str = unready::UPDATE_CONDITION;

impl Parts {
    /// The snapshot of a pod and of these images for it, from what the node knows now.
    pub(super) fn node_view<'a>(&self, pod: &PodUid, images: impl Iterator<Item = &'a Arc<str>>) -> NodeView {
        let presence = |image: &'a Arc<str>| {
            let report = self.images.report(&wish_id(pod, image))?;
            let presence = match report.phase {
                WishPhase::Waiting | WishPhase::Pulling => Presence::Unknown,
                WishPhase::Succeeded => Presence::Present,
                WishPhase::Failed => Presence::Failed(report.message),
            };
            Some((image.clone(), presence))
        };
        let images = images.filter_map(presence).collect();
        self.agent.read(|node, _| NodeView {
            instances: node.instances(pod),
            exited: node.exited(pod),
            relisted: node.relisted(),
            images,
        })
    }
}

/// UIDs under which requests may name the pod: a static pod is asked for by the identity of its mirror, too.
pub(super) fn uids(pod: &core::Pod) -> Vec<PodUid> {
    let uids = [identity(&pod.metadata), pod.metadata.uid.as_deref()];
    uids.into_iter().flatten().map(PodUid::from).collect()
}

/// Tells whether it is this version of the pod.
pub(super) fn is_version(pod: &core::Pod, number: u64) -> bool {
    version(&pod.metadata) == number
}

/// This version of a pod.
pub(super) fn pod(pod: &core::Pod) -> PodView {
    let metadata = metadata(pod);
    // One whose order cannot be read has none, as at its launch.
    let order = read::order(pod).ok().flatten();
    let container = |container: &core::Container| {
        let mut declared = declared(container, &metadata);
        declared.priority = order.as_ref().and_then(|order| order.priority(&declared.name));
        declared.status = read::status(pod, &container.name).map(status);
        declared
    };
    let spec = pod.spec.as_ref();
    PodView {
        uids: uids(pod),
        version: version(&pod.metadata),
        named: named(pod),
        controller: controller(pod),
        liveness: liveness(pod),
        generation: pod.metadata.generation,
        observed_generation: pod.status.as_ref().and_then(|status| status.observed_generation),
        restart_policy: read::restart_policy(pod),
        has_pull_secrets: spec
            .and_then(|spec| spec.image_pull_secrets.as_ref())
            .is_some_and(|secrets| !secrets.is_empty()),
        gate: gate(pod),
        records: records(pod),
        containers: spec.into_iter().flat_map(|spec| &spec.containers).map(container).collect(),
        metadata,
    }
}

/// Returns how an instance of this container was created, reduced to hashes. `exited`: it had when the
/// runtime was asked.
pub(super) fn creation(container: &core::Container, made: &CreationRecord, exited: bool) -> CreatedWith {
    let references = env::references(container);
    let values = made.env.as_ref().map(|env| env::actual(&references, env));
    CreatedWith {
        definition: made.definition,
        env: values.map(|values| values.hash()),
        finished: made.finished,
        exited,
    }
}

fn declared(container: &core::Container, metadata: &Metadata) -> DeclaredContainer {
    let references = env::references(container);
    let image = container.image.as_deref().unwrap_or("");
    let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
    let reference = |(name, key): (&String, &MetadataKey)| {
        let is_expanded = env::is_expanded(container, name);
        (name.clone(), EnvReference { key: key.clone(), is_expanded })
    };
    DeclaredContainer {
        name: container.name.as_str().into(),
        image: image.into(),
        definition: env::definition(&container.name, image),
        restart_policy: container.restart_policy.as_deref().map(read::policy),
        restart_rules: read::restart_rules(container),
        priority: None,
        env: env::expected(&references, metadata).hash(),
        references: references.iter().map(reference).collect::<BTreeMap<_, _>>(),
        is_probed: container.readiness_probe.is_some() || container.startup_probe.is_some(),
        hook: match hook {
            None => DeclaredHook::None,
            Some(hook) if hook.exec.is_some() => DeclaredHook::Command,
            Some(_) => DeclaredHook::Other,
        },
        status: None,
    }
}

fn status(status: &core::ContainerStatus) -> ContainerStatusView {
    let state = status.state.as_ref();
    let running = state.and_then(|state| state.running.as_ref());
    let waiting = state.and_then(|state| state.waiting.as_ref()?.reason.as_deref());
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let time = |time: Option<&Time>| time.map(|time| since_epoch(time.0));
    ContainerStatusView {
        id: read::container_id(status).map(Into::into),
        image_id: status.image_id.clone(),
        ready: status.ready,
        restarts: status.restart_count.try_into().unwrap_or(0),
        runs: running.is_some(),
        started: time(running.and_then(|running| running.started_at.as_ref())),
        backs_off: waiting == Some("CrashLoopBackOff"),
        last_started: time(last.and_then(|last| last.started_at.as_ref())),
    }
}

/// Labels and annotations.
fn metadata(pod: &core::Pod) -> Metadata {
    let labels = pod.metadata.labels.iter().flatten();
    let annotations = pod.metadata.annotations.iter().flatten();
    let labels = labels.map(|(key, value)| (MetadataKey::Label(key.clone()), value.clone()));
    labels
        .chain(annotations.map(|(key, value)| (MetadataKey::Annotation(key.clone()), value.clone())))
        .collect()
}

/// The records of all owners.
fn records(pod: &core::Pod) -> Records {
    let text = |key: &str| pod.metadata.annotations.as_ref()?.get(key);
    let workload = text(state::ANNOTATION).and_then(|text| state::read(text));
    let sets = text(state::SIDECAR_SETS).map(|text| state::read_sets(text)).unwrap_or_default();
    sets.into_iter().chain(workload.map(|record| (UpdateOwner::Workload, record))).collect()
}

/// `namespace/name` of the pod.
fn named(pod: &core::Pod) -> Option<String> {
    Some(format!("{}/{}", pod.metadata.namespace.as_deref()?, pod.metadata.name.as_deref()?))
}

/// UID of the owner that decides on the pod.
fn controller(pod: &core::Pod) -> Option<Arc<str>> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str().into())
}

fn liveness(pod: &core::Pod) -> Liveness {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if read::is_mirror(&pod.metadata) {
        Liveness::Static
    } else if pod.metadata.deletion_timestamp.is_some() {
        Liveness::Gone
    } else if matches!(phase, Some("Succeeded" | "Failed")) {
        Liveness::Ended
    } else {
        Liveness::Alive
    }
}

fn gate(pod: &core::Pod) -> GateView {
    match read::condition(pod, GATE) {
        _ if !read::has_gate(pod, GATE) => GateView::Absent,
        None => GateView::Unwritten,
        Some(condition) if condition.status == "True" => GateView::Ready,
        Some(condition) => GateView::NotReady {
            since: condition.last_transition_time.as_ref().map(|time| since_epoch(time.0)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_pod_as_it_is() {
        let shown: core::Pod = serde_saphyr::from_str(
            "
metadata:
  namespace: shop
  name: web
  uid: u
  resourceVersion: '7'
  generation: 3
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: c, uid: c}
  - {apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, name: web, uid: o, controller: true}
  labels: {l: one}
  annotations: {apps.kruise.io/container-launch-priority: Ordered}
spec:
  restartPolicy: OnFailure
  imagePullSecrets: [{name: s}]
  readinessGates: [{conditionType: InPlaceUpdateReady}]
  containers:
  - name: a
    image: 'a:1'
    env: [{name: L, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['l']\"}}}, {name: M, value: 'x $(L)'}]
    readinessProbe: {httpGet: {port: 80}}
  - {name: b, image: 'b:1'}
status:
  observedGeneration: 2
  phase: Running
  conditions: [{type: InPlaceUpdateReady, status: 'False', lastTransitionTime: '1970-01-01T00:00:09Z'}]
  containerStatuses:
  - name: a
    containerID: 'containerd://1'
    image: i
    imageID: sha
    ready: true
    restartCount: 4
    state: {running: {startedAt: '1970-01-01T00:01:00Z'}}
    lastState: {terminated: {exitCode: 1, startedAt: '1970-01-01T00:00:05Z'}}
  - {name: b, image: i, imageID: '', ready: false, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}}
",
        )
        .unwrap();
        let view = pod(&shown);
        let seconds = Duration::from_secs;
        assert_eq!((view.uids[0].as_str(), view.version, view.liveness), ("u", 7, Liveness::Alive));
        assert_eq!((view.named.as_deref(), view.controller.as_deref()), (Some("shop/web"), Some("o")));
        assert_eq!((view.generation, view.observed_generation), (Some(3), Some(2)));
        assert_eq!(view.restart_policy, berth_policy::RestartPolicy::OnFailure);
        assert!(view.has_pull_secrets);
        assert_eq!(view.gate, GateView::NotReady { since: Some(seconds(9)) });
        let [a, b] = &view.containers[..] else { panic!("two containers") };
        assert_eq!((a.priority, a.is_probed, b.is_probed), (Some(0), true, false));
        let key = MetadataKey::Label("l".to_owned());
        assert_eq!(a.references, [("L".to_owned(), EnvReference { key, is_expanded: true })].into());
        assert_eq!(
            a.status,
            Some(ContainerStatusView {
                id: Some("1".into()),
                image_id: "sha".to_owned(),
                ready: true,
                restarts: 4,
                runs: true,
                started: Some(seconds(60)),
                backs_off: false,
                last_started: Some(seconds(5)),
            })
        );
        assert!(b.status.as_ref().is_some_and(|status| status.backs_off && status.id.is_none()));
    }
}
